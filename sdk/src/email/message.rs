//! An email to send, see
//! <https://github.com/svc-tools/svc/blob/main/docs/email-service/emails.md>.

use std::fmt;

use chrono::{DateTime, SecondsFormat, TimeZone, Utc};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use super::attachment::Attachment;
use super::recipients::Recipients;
use crate::decode;

/// An email to send: sender, recipients, content and options.
///
/// [`Email::new`] takes the required fields; chain the other methods, or set the public
/// fields, for the rest. The content is `html`, `text` or both, or a
/// [`template`](Self::template). See the descriptions of the
/// [fields](https://github.com/svc-tools/svc/blob/main/docs/email-service/emails.md) and the
/// [limits](https://github.com/svc-tools/svc/blob/main/docs/email-service/limits.md), which
/// [`check`](Self::check) checks.
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
#[derive(Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Email {
    /// The sender, as `a@b` or `Name <a@b>`. Its domain must be verified.
    pub from: String,
    /// The recipients; 1 to 50.
    #[serde(deserialize_with = "decode::one_or_many")]
    pub to: Vec<String>,
    /// The subject, at most 998 characters.
    pub subject: String,
    /// The HTML body.
    pub html: Option<String>,
    /// The plain-text body.
    pub text: Option<String>,
    /// Recipients of copies (Cc).
    #[serde(deserialize_with = "decode::one_or_many")]
    pub cc: Vec<String>,
    /// Recipients of blind copies (Bcc).
    #[serde(deserialize_with = "decode::one_or_many")]
    pub bcc: Vec<String>,
    /// Addresses for replies (`Reply-To`).
    #[serde(deserialize_with = "decode::one_or_many")]
    pub reply_to: Vec<String>,
    /// Additional headers of the email.
    pub headers: Map<String, Value>,
    /// Attachments; at most 20.
    pub attachments: Vec<Attachment>,
    /// Tags for tracking.
    pub tags: Map<String, Value>,
    /// When to send the email. If `None`, it is sent immediately.
    pub scheduled_at: Option<ScheduledAt>,
    /// The id of the template to use.
    pub template_id: Option<String>,
    /// The variables of the template.
    pub variables: Map<String, Value>,
    /// Additional fields without a setter of their own; sent as given.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Email {
    /// Creates an email with its required fields. `to` is one address or many: a text, or
    /// an array, a slice or a `Vec` of texts.
    ///
    /// ```
    /// use svc_sdk::email::Email;
    ///
    /// let one = Email::new("hello@shop.example", "ada@example.com", "Hi");
    /// let two = Email::new("hello@shop.example", ["ada@example.com", "bob@example.com"], "Hi");
    /// assert_eq!((one.to.len(), two.to.len()), (1, 2));
    /// ```
    pub fn new(
        from: impl Into<String>,
        to: impl Into<Recipients>,
        subject: impl Into<String>,
    ) -> Self {
        let to = to.into().into_vec();
        Self { from: from.into(), to, subject: subject.into(), ..Self::default() }
    }

    /// Adds one or more recipients.
    #[must_use]
    pub fn to(mut self, addresses: impl Into<Recipients>) -> Self {
        self.to.extend(addresses.into().into_vec());
        self
    }

    /// Adds one or more recipients of copies (Cc).
    #[must_use]
    pub fn cc(mut self, addresses: impl Into<Recipients>) -> Self {
        self.cc.extend(addresses.into().into_vec());
        self
    }

    /// Adds one or more recipients of blind copies (Bcc).
    #[must_use]
    pub fn bcc(mut self, addresses: impl Into<Recipients>) -> Self {
        self.bcc.extend(addresses.into().into_vec());
        self
    }

    /// Adds one or more addresses for replies (`Reply-To`).
    #[must_use]
    pub fn reply_to(mut self, addresses: impl Into<Recipients>) -> Self {
        self.reply_to.extend(addresses.into().into_vec());
        self
    }

    /// Sets the HTML body.
    #[must_use]
    pub fn html(mut self, html: impl Into<String>) -> Self {
        self.html = Some(html.into());
        self
    }

    /// Sets the plain-text body.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }

    /// Adds a header to the email itself.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), Value::String(value.into()));
        self
    }

    /// Adds an attachment.
    #[must_use]
    pub fn attachment(mut self, attachment: Attachment) -> Self {
        self.attachments.push(attachment);
        self
    }

    /// Adds a tag for tracking.
    #[must_use]
    pub fn tag(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.tags.insert(name.into(), value.into());
        self
    }

    /// Schedules the email: an RFC 3339 string such as `2030-01-01T09:00:00Z`, or a
    /// `chrono::DateTime`. A string is sent unmodified.
    #[must_use]
    pub fn scheduled_at(mut self, at: impl Into<ScheduledAt>) -> Self {
        self.scheduled_at = Some(at.into());
        self
    }

    /// Sets the id of the template to use.
    #[must_use]
    pub fn template(mut self, id: impl Into<String>) -> Self {
        self.template_id = Some(id.into());
        self
    }

    /// Sets a variable of the template.
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

    /// Whether the typed field with this JSON name is written.
    pub(super) fn is_set(&self, name: &str) -> bool {
        match name {
            "from" | "to" | "subject" => true,
            "html" => self.html.is_some(),
            "text" => self.text.is_some(),
            "cc" => !self.cc.is_empty(),
            "bcc" => !self.bcc.is_empty(),
            "replyTo" => !self.reply_to.is_empty(),
            "headers" => !self.headers.is_empty(),
            "attachments" => !self.attachments.is_empty(),
            "tags" => !self.tags.is_empty(),
            "scheduledAt" => self.scheduled_at.is_some(),
            "templateId" => self.template_id.is_some(),
            "variables" => !self.variables.is_empty(),
            _ => false,
        }
    }
}

/// Writes all fields but the attachments: these are written as they are sent.
pub(crate) struct WithoutAttachments<'a>(pub(crate) &'a Email);

impl Serialize for WithoutAttachments<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.0.write_fields(&mut map)?;
        map.end()
    }
}

impl Email {
    fn write_fields<M: SerializeMap>(&self, fields: &mut M) -> Result<(), M::Error> {
        fields.serialize_entry("from", &self.from)?;
        fields.serialize_entry("to", &self.to)?;
        fields.serialize_entry("subject", &self.subject)?;
        for (name, text) in [("html", &self.html), ("text", &self.text)] {
            if let Some(text) = text {
                fields.serialize_entry(name, text)?;
            }
        }
        for (name, list) in [("cc", &self.cc), ("bcc", &self.bcc), ("replyTo", &self.reply_to)] {
            if !list.is_empty() {
                fields.serialize_entry(name, list)?;
            }
        }
        for (name, object) in [("headers", &self.headers), ("tags", &self.tags)] {
            if !object.is_empty() {
                fields.serialize_entry(name, object)?;
            }
        }
        if let Some(at) = &self.scheduled_at {
            fields.serialize_entry("scheduledAt", at)?;
        }
        if let Some(id) = &self.template_id {
            fields.serialize_entry("templateId", id)?;
        }
        if !self.variables.is_empty() {
            fields.serialize_entry("variables", &self.variables)?;
        }
        // A typed field wins: a name may occur once.
        for (name, value) in self.extra.iter().filter(|(name, _)| !self.is_set(name)) {
            fields.serialize_entry(name, value)?;
        }
        Ok(())
    }
}

/// Holds encoded attachments in memory. `Emails::send` does not if they come from a path.
impl Serialize for Email {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.write_fields(&mut map)?;
        if !self.attachments.is_empty() {
            map.serialize_entry("attachments", &self.attachments)?;
        }
        map.end()
    }
}

/// Shows counts and lengths only, no content.
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

/// The time at which to send an email. Any string is sent unmodified; [`at`](Self::at)
/// formats an instant as RFC 3339.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ScheduledAt(String);

impl ScheduledAt {
    /// Formats an instant in UTC with milliseconds.
    pub fn at<Tz: TimeZone>(instant: &DateTime<Tz>) -> Self {
        Self(instant.with_timezone(&Utc).to_rfc3339_opts(SecondsFormat::Millis, true))
    }

    /// The text as it is sent.
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
