//! Emails: sending, looking, cancelling (`docs/email-service/emails.md`).

use std::fmt;

use chrono::{DateTime, SecondsFormat, TimeZone, Utc};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

#[cfg(feature = "client")]
use super::BatchResponse;
use super::{Attachment, limits};
#[cfg(feature = "client")]
use crate::client::{Call, Payload, Shared, Wait};
use crate::decode::{record, text_enum};
#[cfg(feature = "client")]
use crate::{Error, Operation};

/// An email to send (`docs/email-service/emails.md`).
///
/// ```
/// use svc_sdk::email::{Attachment, Email};
///
/// let email = Email::new("Shop <hello@shop.example>", "ada@example.com", "Your invoice")
///     .text("Thank you!")
///     .attachment(Attachment::from_bytes("note.txt", "paid"))
///     .tag("kind", "invoice");
/// assert_eq!(email.to, ["ada@example.com"]);
/// ```
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Email {
    /// The sender, `a@b` or `Name <a@b>`; its domain must be verified.
    pub from: String,
    /// The recipients, at most 50.
    #[serde(deserialize_with = "one_or_many")]
    pub to: Vec<String>,
    /// The subject, at most 998 characters.
    pub subject: String,
    /// The HTML body.
    pub html: Option<String>,
    /// The plain-text body.
    pub text: Option<String>,
    /// Recipients of copies.
    #[serde(deserialize_with = "one_or_many")]
    pub cc: Vec<String>,
    /// Recipients of hidden copies.
    #[serde(deserialize_with = "one_or_many")]
    pub bcc: Vec<String>,
    /// Where responses go.
    #[serde(deserialize_with = "one_or_many")]
    pub reply_to: Vec<String>,
    /// The email's own headers.
    pub headers: Map<String, Value>,
    /// Files that go along, at most 20.
    pub attachments: Vec<Attachment>,
    /// Tags for tracking.
    pub tags: Map<String, Value>,
    /// When to send it; at once if not given.
    pub scheduled_at: Option<ScheduledAt>,
    /// The template to use.
    pub template_id: Option<String>,
    /// The template's variables.
    pub variables: Map<String, Value>,
    /// Fields that the documents do not show; they are sent as they are.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Email {
    /// An email with what every email needs.
    pub fn new(from: impl Into<String>, to: impl Into<String>, subject: impl Into<String>) -> Self {
        Self { from: from.into(), to: vec![to.into()], subject: subject.into(), ..Self::default() }
    }

    /// One more recipient.
    #[must_use]
    pub fn to(mut self, address: impl Into<String>) -> Self {
        self.to.push(address.into());
        self
    }

    /// One more recipient of a copy.
    #[must_use]
    pub fn cc(mut self, address: impl Into<String>) -> Self {
        self.cc.push(address.into());
        self
    }

    /// One more recipient of a hidden copy.
    #[must_use]
    pub fn bcc(mut self, address: impl Into<String>) -> Self {
        self.bcc.push(address.into());
        self
    }

    /// One more address for responses.
    #[must_use]
    pub fn reply_to(mut self, address: impl Into<String>) -> Self {
        self.reply_to.push(address.into());
        self
    }

    /// The HTML body.
    #[must_use]
    pub fn html(mut self, html: impl Into<String>) -> Self {
        self.html = Some(html.into());
        self
    }

    /// The plain-text body.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }

    /// A header of the email itself.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), Value::String(value.into()));
        self
    }

    /// One more file.
    #[must_use]
    pub fn attachment(mut self, attachment: Attachment) -> Self {
        self.attachments.push(attachment);
        self
    }

    /// A tag for tracking.
    #[must_use]
    pub fn tag(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.tags.insert(name.into(), value.into());
        self
    }

    /// When to send it: a text, or an instant of chrono's.
    #[must_use]
    pub fn scheduled_at(mut self, at: impl Into<ScheduledAt>) -> Self {
        self.scheduled_at = Some(at.into());
        self
    }

    /// The template to use.
    #[must_use]
    pub fn template(mut self, id: impl Into<String>) -> Self {
        self.template_id = Some(id.into());
        self
    }

    /// A variable of the template.
    #[must_use]
    pub fn variable(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    /// Adds a field that this type does not model. It is sent as given.
    #[must_use]
    pub fn extra(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.extra.insert(name.into(), value.into());
        self
    }

    /// Checks the documented limits: at most 50 recipients in `to`, 998
    /// characters of subject, 20 attachments; and that each address can be one.
    /// Every send does it unless the client was told not to.
    ///
    /// # Errors
    ///
    /// Names the first field that breaks a limit, and the limit.
    pub fn check(&self) -> Result<(), crate::InvalidInput> {
        limits::check_email(self)
    }

    /// Everything but the attachments, as the fields of an object.
    pub(crate) fn write_fields<F: Fields>(&self, fields: &mut F) -> Result<(), F::Error> {
        fields.text("from", &self.from)?;
        fields.value("to", &self.to)?;
        fields.text("subject", &self.subject)?;
        for (name, text) in [("html", &self.html), ("text", &self.text)] {
            if let Some(text) = text {
                fields.text(name, text)?;
            }
        }
        for (name, list) in [("cc", &self.cc), ("bcc", &self.bcc), ("replyTo", &self.reply_to)] {
            if !list.is_empty() {
                fields.value(name, list)?;
            }
        }
        for (name, object) in [("headers", &self.headers), ("tags", &self.tags)] {
            if !object.is_empty() {
                fields.value(name, object)?;
            }
        }
        if let Some(at) = &self.scheduled_at {
            fields.value("scheduledAt", at)?;
        }
        if let Some(id) = &self.template_id {
            fields.text("templateId", id)?;
        }
        if !self.variables.is_empty() {
            fields.value("variables", &self.variables)?;
        }
        for (name, value) in &self.extra {
            fields.value(name, value)?;
        }
        Ok(())
    }
}

/// Takes the fields of an object, texts apart: they are what is long.
pub(crate) trait Fields {
    type Error;

    fn text(&mut self, name: &str, text: &str) -> Result<(), Self::Error>;

    fn value<T: Serialize>(&mut self, name: &str, value: &T) -> Result<(), Self::Error>;
}

/// The fields of a serde map.
struct MapFields<'a, M>(&'a mut M);

impl<M: SerializeMap> Fields for MapFields<'_, M> {
    type Error = M::Error;

    fn text(&mut self, name: &str, text: &str) -> Result<(), M::Error> {
        self.0.serialize_entry(name, text)
    }

    fn value<T: Serialize>(&mut self, name: &str, value: &T) -> Result<(), M::Error> {
        self.0.serialize_entry(name, value)
    }
}

/// Attachments are read and encoded in memory; a client's `send` streams them.
impl Serialize for Email {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.write_fields(&mut MapFields(&mut map))?;
        if !self.attachments.is_empty() {
            map.serialize_entry("attachments", &self.attachments)?;
        }
        map.end()
    }
}

/// Shows how much there is of everything, and no content.
impl fmt::Debug for Email {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Email")
            .field("to", &self.to.len())
            .field("cc", &self.cc.len())
            .field("bcc", &self.bcc.len())
            .field("html", &self.html.as_ref().map(String::len))
            .field("text", &self.text.as_ref().map(String::len))
            .field("attachments", &self.attachments.len())
            .field("scheduled_at", &self.scheduled_at)
            .field("template_id", &self.template_id)
            .finish_non_exhaustive()
    }
}

/// The documents take `string or string[]`.
fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMany {
        None(()),
        One(String),
        Many(Vec<String>),
    }
    Ok(match OneOrMany::deserialize(deserializer)? {
        OneOrMany::None(()) => Vec::new(),
        OneOrMany::One(one) => vec![one],
        OneOrMany::Many(many) => many,
    })
}

/// A date and time of sending: any text passes, [`at`](Self::at) writes
/// RFC 3339.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ScheduledAt(String);

impl ScheduledAt {
    /// An instant, written in UTC with milliseconds.
    pub fn at<Tz: TimeZone>(instant: &DateTime<Tz>) -> Self {
        Self(instant.with_timezone(&Utc).to_rfc3339_opts(SecondsFormat::Millis, true))
    }

    /// The text that is sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ScheduledAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for ScheduledAt {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<String> for ScheduledAt {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl<Tz: TimeZone> From<DateTime<Tz>> for ScheduledAt {
    fn from(instant: DateTime<Tz>) -> Self {
        Self::at(&instant)
    }
}

record! {
    /// An email as the service shows it: accepted, looked at, or cancelled.
    ///
    /// The documents name its status only (`docs/email-service/emails.md#statuses`); what else
    /// the service tells is in `extra`.
    pub struct EmailRecord {
        /// The email's id; empty where the response names none.
        pub id: String = "id";
        /// Where the email is on its way.
        pub status: Option<EmailStatus> = "status";
    }
}

text_enum! {
    /// Where an email is on its way (`docs/email-service/emails.md#statuses`).
    pub enum EmailStatus {
        /// Accepted, waiting to be sent.
        Queued = "queued",
        /// Being processed by the mail engine.
        Sending = "sending",
        /// Handed off to the recipient's mail server.
        Sent = "sent",
        /// Confirmed delivered to the inbox.
        Delivered = "delivered",
        /// Delivery failed (hard or soft bounce).
        Bounced = "bounced",
        /// Sending error.
        Failed = "failed",
        /// The recipient marked it as spam.
        Complained = "complained",
    }
}

impl EmailStatus {
    /// Whether waiting for it to change is over: anything but `queued`,
    /// `sending` and `sent` (`docs/undocumented/email-service.md#status-after-cancel`).
    pub fn is_final(&self) -> bool {
        !matches!(self, Self::Queued | Self::Sending | Self::Sent)
    }
}

/// The operations on emails.
#[cfg(feature = "client")]
#[derive(Clone, Debug)]
pub struct Emails {
    pub(crate) shared: std::sync::Arc<Shared>,
}

#[cfg(feature = "client")]
impl Emails {
    /// Sends an email. Needs the scope `emails:send`.
    ///
    /// It is never sent twice: only what certainly was not processed is tried
    /// again.
    pub fn send(&self, email: &Email) -> Call<EmailRecord> {
        let payload = || -> Result<Payload, Error> {
            if self.shared.local_checks() {
                email.check()?;
            }
            Payload::email(email)
        };
        Call::new(&self.shared, Operation::EmailsSend, &[], payload())
    }

    /// Sends up to 100 emails in one request. Needs the scope `emails:send`.
    ///
    /// Each email stands alone: look at every item of the response.
    ///
    /// ```no_run
    /// # async fn f(client: svc_sdk::EmailClient) -> Result<(), svc_sdk::Error> {
    /// use svc_sdk::email::Email;
    ///
    /// let emails: Vec<_> = ["ada@example.com", "bob@example.com"]
    ///     .map(|to| Email::new("hello@shop.example", to, "News").text("Hello"))
    ///     .into();
    /// let response = client.emails().send_batch(&emails).await?;
    /// for (place, refusal) in response.refused() {
    ///     println!("email {place:?} was refused: {:?}", refusal.code);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn send_batch(&self, emails: &[Email]) -> Call<BatchResponse> {
        let payload = || -> Result<Payload, Error> {
            if self.shared.local_checks() {
                limits::check_batch(emails)?;
            }
            Payload::batch(emails, self.shared.batch_shape())
        };
        Call::new(&self.shared, Operation::EmailsSendBatch, &[], payload())
            .expect_items(emails.len())
    }

    /// The email with its status. Needs the scope `emails:read`.
    pub fn get(&self, id: impl AsRef<str>) -> Call<EmailRecord> {
        Call::new(&self.shared, Operation::EmailsGet, &[id.as_ref()], Ok(Payload::Empty))
    }

    /// Waits until an email's status is final: anything but `queued`,
    /// `sending` and `sent`. Needs the scope `emails:read`.
    pub fn wait(&self, id: impl Into<String>) -> Wait<EmailRecord> {
        let (emails, id) = (self.clone(), id.into());
        let is_final = |email: &EmailRecord| {
            // A service that shows no status will never show a final one.
            email.status.as_ref().is_none_or(EmailStatus::is_final)
        };
        Wait::new(
            Operation::EmailsGet,
            move || emails.get(&id),
            is_final,
            |a, b| a.status == b.status,
        )
    }

    /// Cancels a scheduled email. Which scope it needs is not documented.
    pub fn cancel(&self, id: impl AsRef<str>) -> Call<EmailRecord> {
        Call::new(&self.shared, Operation::EmailsCancel, &[id.as_ref()], Ok(Payload::Empty))
    }
}
