//! Emails and their events, emails from elsewhere, and extractions.

use std::fmt;
use std::net::IpAddr;

use bytes::Bytes;
use serde_json::{Map, Value};
use svc_sdk::email::EmailRecord;

use super::connection::Client;
use super::request::Request;
use crate::api::control::Page;
use crate::api::control::emails::EmailStory;
use crate::api::control::endpoints as e;
use crate::api::control::events::EmailEvent;
use crate::api::control::extractions::Extraction;
use crate::api::control::extractions::New;
use crate::api::control::inbound::{InboundMessage, Received};
use crate::model::status::Status as EmailStatus;
use crate::store::emails::EmailSummary;

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
    /// Lists the emails in every status, newest first.
    pub fn list(&self) -> Request<Page<EmailSummary>> {
        self.0.json(&e::EMAILS, &[])
    }

    /// Returns what happened to an email: its request, its changes, its messages, and its
    /// deliveries with their attempts.
    pub fn story(&self, id: &str) -> Request<EmailStory> {
        self.0.json(&e::EMAILS_STORY, &[id])
    }

    /// Makes an event of an email happen, and notifies the webhooks.
    pub fn simulate(&self, id: &str, event: &EmailEvent) -> Request<EmailRecord> {
        self.0.json(&e::EMAILS_EVENT, &[id]).with_body(&e::EMAILS_EVENT, event)
    }
}

impl Request<Page<EmailSummary>> {
    /// Selects the emails with this status.
    pub fn status(self, status: EmailStatus) -> Self {
        self.query("status", status.as_str())
    }

    /// Selects the emails from or to this address.
    pub fn address(self, address: impl AsRef<str>) -> Self {
        self.query("address", address)
    }

    /// Selects the emails whose subject contains this text, in any case.
    pub fn subject(self, part: impl AsRef<str>) -> Self {
        self.query("subject", part)
    }

    /// Selects the emails with a tag, given as `name` or as `name=value`.
    pub fn tag(self, tag: impl AsRef<str>) -> Self {
        self.query("tag", tag)
    }

    /// Selects the emails after this time, or after the email with this ID.
    pub fn after(self, time_or_id: impl fmt::Display) -> Self {
        self.query("after", time_or_id.to_string())
    }

    /// Selects the emails before this time, or before the email with this ID.
    pub fn before(self, time_or_id: impl fmt::Display) -> Self {
        self.query("before", time_or_id.to_string())
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
