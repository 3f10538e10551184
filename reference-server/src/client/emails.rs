//! Events of emails, emails from elsewhere, and extractions.

use std::net::IpAddr;

use bytes::Bytes;
use serde_json::{Map, Value};
use svc_sdk::email::EmailRecord;

use super::connection::Client;
use super::request::Request;
use crate::api::control::endpoints as e;
use crate::api::control::events::EmailEvent;
use crate::api::control::extractions::Extraction;
use crate::api::control::extractions::New;
use crate::api::control::inbound::{InboundMessage, Received};

impl Client {
    /// The emails of the organization.
    pub fn emails(&self) -> Emails<'_> {
        Emails(self)
    }

    /// Emails from elsewhere.
    pub fn inbound(&self) -> Inbound<'_> {
        Inbound(self)
    }

    /// Simulated extractions.
    pub fn extractions(&self) -> Extractions<'_> {
        Extractions(self)
    }
}

/// Requests for emails; see [`Client::emails`].
#[derive(Clone, Copy, Debug)]
pub struct Emails<'a>(&'a Client);

impl Emails<'_> {
    /// Makes an event of an email happen, and notifies the webhooks.
    pub fn simulate(&self, id: &str, event: &EmailEvent) -> Request<EmailRecord> {
        self.0.json(&e::EMAILS_EVENT, &[id]).with_body(&e::EMAILS_EVENT, event)
    }
}

/// Requests for emails from elsewhere; see [`Client::inbound`].
#[derive(Clone, Copy, Debug)]
pub struct Inbound<'a>(&'a Client);

impl Inbound<'_> {
    /// Receives an email as if it had arrived over SMTP, and notifies the webhooks.
    pub fn receive(&self, message: &InboundMessage) -> Request<Received> {
        self.0.json(&e::INBOUND, &[]).with_body(&e::INBOUND, message)
    }

    /// As [`receive`](Self::receive), for an RFC 5322 message. The address and the `HELO`
    /// name of the sending host are for the SPF check.
    pub fn receive_raw(
        &self,
        source: impl Into<Bytes>,
        ip: Option<IpAddr>,
        helo: Option<&str>,
    ) -> Request<Received> {
        let mut request = self.0.json(&e::INBOUND, &[]).with_bytes(source.into(), "message/rfc822");
        if let Some(ip) = ip {
            request = request.query("ip", ip.to_string());
        }
        match helo {
            Some(helo) => request.query("helo", helo),
            None => request,
        }
    }
}

/// Requests for extractions; see [`Client::extractions`].
#[derive(Clone, Copy, Debug)]
pub struct Extractions<'a>(&'a Client);

impl Extractions<'_> {
    /// Simulates the event `extraction.completed` or `extraction.failed`. Without data, it
    /// has those of an example.
    pub fn simulate(&self, event: &str, data: Option<Map<String, Value>>) -> Request<Extraction> {
        let body = New { organization: None, event: event.to_owned(), data };
        self.0.json(&e::EXTRACTIONS, &[]).with_body(&e::EXTRACTIONS, &body)
    }
}
