//! The messages in the local mailbox.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;

use super::connection::Client;
use super::error::Error;
use super::request::Request;
use crate::api::control::Page;
use crate::api::control::endpoints as e;
use crate::api::control::messages::{Message, MessageLinks, MessageSummary};
use crate::model::time::duration_text;

impl Client {
    /// The messages that the mail engine delivered, and those that arrived.
    pub fn messages(&self) -> Messages<'_> {
        Messages(self)
    }
}

/// Requests for messages; see [`Client::messages`].
#[derive(Clone, Copy, Debug)]
pub struct Messages<'a>(&'a Client);

/// How long [`Messages::wait_for`] waits by default.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

impl Messages<'_> {
    /// Waits for a message to this address, and returns the newest one that is there, or the
    /// first one that arrives.
    ///
    /// It waits 30 seconds of real time, unless [`timeout`](WaitForMessage::timeout) sets
    /// another limit. The error then says what arrived instead.
    pub fn wait_for(&self, to: impl AsRef<str>) -> WaitForMessage {
        self.wait().to(to)
    }

    /// Waits for a message of any recipient; see [`wait_for`](Self::wait_for).
    pub fn wait(&self) -> WaitForMessage {
        let request = self.0.json(&e::MESSAGES_WAIT, &[]);
        WaitForMessage { request, timeout: DEFAULT_TIMEOUT }
    }

    /// Lists the messages, newest first.
    pub fn list(&self) -> Request<Page<MessageSummary>> {
        self.0.json(&e::MESSAGES, &[])
    }

    /// Returns a message with its content.
    pub fn get(&self, id: &str) -> Request<Message> {
        self.0.json(&e::MESSAGES_GET, &[id])
    }

    /// Returns the RFC 5322 source of a message.
    pub fn raw(&self, id: &str) -> Request<Bytes> {
        self.0.request(&e::MESSAGES_RAW, &[id], |response| Ok(response.body.clone()))
    }

    /// Returns the HTML part of a message.
    pub fn html(&self, id: &str) -> Request<String> {
        self.0.request(&e::MESSAGES_HTML, &[id], |response| Ok(response.text().into_owned()))
    }

    /// Returns the bytes of an attachment; the first of a message is 1.
    pub fn attachment(&self, id: &str, number: usize) -> Request<Bytes> {
        let number = number.to_string();
        let parameters = [id, &number];
        self.0.request(&e::MESSAGES_ATTACHMENT, &parameters, |response| Ok(response.body.clone()))
    }

    /// Returns the links and the one-time codes of a message.
    pub fn links(&self, id: &str) -> Request<MessageLinks> {
        self.0.json(&e::MESSAGES_LINKS, &[id])
    }
}

/// A wait for a message; see [`Messages::wait_for`].
#[must_use = "it does nothing until it is awaited"]
pub struct WaitForMessage {
    request: Request<Message>,
    timeout: Duration,
}

impl WaitForMessage {
    /// Sets how long to wait, in real time, at most ten minutes. Default: 30 seconds.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The request, to send it in another way than by awaiting it.
    pub fn into_request(self) -> Request<Message> {
        self.request.query("timeout", duration_text(self.timeout)).waits(self.timeout)
    }

    fn query(mut self, name: &str, value: impl AsRef<str>) -> Self {
        self.request = self.request.query(name, value);
        self
    }
}

/// The same selection for lists and waits.
macro_rules! selection {
    ($type:ty) => {
        impl $type {
            /// Selects messages to this address.
            pub fn to(self, address: impl AsRef<str>) -> Self {
                self.query("to", address)
            }

            /// Selects messages from this address.
            pub fn from(self, address: impl AsRef<str>) -> Self {
                self.query("from", address)
            }

            /// Selects messages whose subject contains this text, in any case.
            pub fn subject(self, part: impl AsRef<str>) -> Self {
                self.query("subject", part)
            }

            /// Selects messages after this time, or after the message with this ID.
            pub fn after(self, time_or_id: impl fmt::Display) -> Self {
                self.query("after", time_or_id.to_string())
            }
        }
    };
}

selection!(Request<Page<MessageSummary>>);
selection!(WaitForMessage);

impl IntoFuture for WaitForMessage {
    type Output = Result<Message, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        self.into_request().into_future()
    }
}

impl fmt::Debug for WaitForMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitForMessage").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}
