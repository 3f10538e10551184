//! An email to send, see
//! <https://github.com/svc-tools/svc/blob/main/docs/email-service/README.md#emails>.

use std::borrow::Cow;
use std::fmt;

use chrono::{DateTime, SecondsFormat, TimeZone, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::attachment::Attachment;
use super::field_value::FieldValue;
use crate::decode;
use crate::error::InvalidInput;
use crate::fields::plain;
use crate::names::setters;
use crate::words::WORDS;

/// An email to send: sender, recipients, content and options.
///
/// [`Email::new`] takes the required fields; chain the other methods, or set the public
/// fields, for the rest. The content is `html`, `text` or both, or a
/// [`template`](Self::template). See the descriptions of the
/// [fields](https://github.com/svc-tools/svc/blob/main/docs/email-service/README.md#emails) and the
/// [limits](https://github.com/svc-tools/svc/blob/main/docs/email-service/README.md#limits), which
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
///
/// Serializing it holds the encoded attachments in memory. `Emails::send` does not if they come
/// from a path.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
#[must_use = "it has to be sent"]
pub struct Email {
    /// The sender, as `a@b` or `Name <a@b>`. Its domain must be verified.
    pub from: String,
    /// The recipients; 1 to 50.
    #[serde(deserialize_with = "decode::one_or_many")]
    pub to: Vec<String>,
    /// The subject, at most 998 characters.
    pub subject: String,
    /// The HTML body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
    /// The plain-text body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Recipients of copies (Cc).
    #[serde(
        deserialize_with = "decode::one_or_many",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub cc: Vec<String>,
    /// Recipients of blind copies (Bcc).
    #[serde(
        deserialize_with = "decode::one_or_many",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub bcc: Vec<String>,
    /// Addresses for replies (`Reply-To`).
    #[serde(
        deserialize_with = "decode::one_or_many",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub reply_to: Vec<String>,
    /// Additional headers of the email.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub headers: Map<String, Value>,
    /// Tags for tracking.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub tags: Map<String, Value>,
    /// When to send the email. If `None`, it is sent immediately.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduled_at: Option<ScheduledAt>,
    /// The id of the template to use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template_id: Option<String>,
    /// The variables of the template.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub variables: Map<String, Value>,
    /// Additional fields without a setter of their own; sent as given.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
    /// Attachments; at most 20.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
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
    #[doc(alias = "builder")]
    pub fn new(
        from: impl Into<String>,
        to: impl Into<Recipients>,
        subject: impl Into<String>,
    ) -> Self {
        let to = to.into().0;
        Self {
            from: from.into(),
            to,
            subject: subject.into(),
            ..Self::default()
        }
    }

    /// Checks the documented limits: 1 to 50 recipients in `to`, 998 characters in the
    /// subject, 20 attachments, and plausible email addresses; and that no additional field is
    /// called like a documented one, such as `reply_to` instead of `replyTo`.
    /// [`Emails::send`](super::Emails::send) does this automatically unless the client was built
    /// with `local_checks(false)`.
    ///
    /// # Errors
    ///
    /// The first field that exceeds a limit, with that limit.
    pub fn check(&self) -> Result<(), InvalidInput> {
        has_other_names(&self.extra, &WORDS.email_fields)?;
        for (index, attachment) in self.attachments.iter().enumerate() {
            has_other_names(&attachment.extra, &WORDS.attachment_fields)
                .map_err(|invalid| invalid.within(&format!("attachments[{index}]")))?;
        }

        let not_an_address =
            |field: Cow<'static, str>| Err(InvalidInput::new(field, NOT_AN_ADDRESS));
        if !can_be_address(&self.from) {
            return not_an_address("from".into());
        }
        if self.to.is_empty() {
            return Err(InvalidInput::new(
                "to",
                "at least one recipient is required",
            ));
        }

        for (field, list) in [
            ("to", &self.to),
            ("cc", &self.cc),
            ("bcc", &self.bcc),
            ("replyTo", &self.reply_to),
        ] {
            if let Some(index) = list.iter().position(|address| !can_be_address(address)) {
                return not_an_address(format!("{field}[{index}]").into());
            }
        }

        let subject = self.subject.chars().count();
        at_most("to", "recipients", MAX_TO, self.to.len())?;
        at_most("subject", "characters", MAX_SUBJECT, subject)?;
        let attachments = self.attachments.len();
        at_most("attachments", "attachments", MAX_ATTACHMENTS, attachments)?;
        match self
            .attachments
            .iter()
            .position(|attachment| attachment.filename.is_empty())
        {
            Some(index) => {
                let field = format!("attachments[{index}].filename");
                Err(InvalidInput::new(field, "must not be empty"))
            }
            None => Ok(()),
        }
    }

    /// The name of a field that is set by its own method and by `extra`.
    pub(super) fn given_twice(&self) -> Option<&str> {
        if self.extra.is_empty() {
            return None;
        }

        let typed = Self {
            extra: Map::new(),
            attachments: Vec::new(),
            ..self.clone()
        };
        let typed = serde_json::to_value(typed).unwrap_or_default();
        let is_typed = |name: &str| {
            typed.get(name).is_some() || (name == "attachments" && !self.attachments.is_empty())
        };
        self.extra
            .keys()
            .map(String::as_str)
            .find(|name| is_typed(name))
    }

    /// About how long its JSON is, attachments from files left out.
    pub(super) fn json_length(&self) -> usize {
        /// Names of fields, and what has to be escaped.
        const REST: usize = 512;
        let texts = [&self.html, &self.text].into_iter().flatten();
        let texts: usize = texts.map(|text| text.len() + text.len() / 16).sum();
        let attachments: usize = self.attachments.iter().map(Attachment::json_length).sum();
        REST + self.subject.len() + 64 * self.recipients() as usize + texts + attachments
    }

    /// The number of recipients in `to`, `cc` and `bcc`.
    pub(super) fn recipients(&self) -> u64 {
        (self.to.len() + self.cc.len() + self.bcc.len()) as u64
    }
}

setters! {
    impl Email;

    /// Adds one or more recipients.
    to(addresses: impl Into<Recipients>) { to.extend(addresses.into().0) }

    /// Adds one or more recipients of copies (Cc).
    cc(addresses: impl Into<Recipients>) { cc.extend(addresses.into().0) }

    /// Adds one or more recipients of blind copies (Bcc).
    bcc(addresses: impl Into<Recipients>) { bcc.extend(addresses.into().0) }

    /// Adds one or more addresses for replies (`Reply-To`).
    reply_to(addresses: impl Into<Recipients>) { reply_to.extend(addresses.into().0) }

    /// Sets the HTML body.
    html(html: impl Into<String>) { html = Some(html.into()) }

    /// Sets the plain-text body.
    text(text: impl Into<String>) { text = Some(text.into()) }

    /// Adds a header to the email itself.
    header(name: impl Into<String>, value: impl Into<FieldValue>) {
        headers.insert(name.into(), value.into().into())
    }

    /// Adds an attachment.
    attachment(attachment: Attachment) { attachments.push(attachment) }

    /// Adds a tag for tracking.
    tag(name: impl Into<String>, value: impl Into<FieldValue>) {
        tags.insert(name.into(), value.into().into())
    }

    /// Schedules the email: an RFC 3339 string such as `2030-01-01T09:00:00Z`, or a
    /// `chrono::DateTime`. A string is sent unmodified.
    scheduled_at(at: impl Into<ScheduledAt>) { scheduled_at = Some(at.into()) }

    /// Sets the id of the template to use.
    template(id: impl Into<String>) { template_id = Some(id.into()) }

    /// Sets a variable of the template.
    variable(name: impl Into<String>, value: impl Into<FieldValue>) {
        variables.insert(name.into(), value.into().into())
    }

    /// Adds a field that this type does not model. It is sent as given.
    extra(name: impl Into<String>, value: impl Into<FieldValue>) {
        extra.insert(name.into(), value.into().into())
    }
}

/// Checks that no additional field is called like a documented one, however that is spelled: the
/// service may ignore `reply_to`. Names of recipients are left to the recipient guard.
fn has_other_names(extra: &Map<String, Value>, documented: &[&str]) -> Result<(), InvalidInput> {
    let is_documented = |name: &&String| documented.contains(&plain(name).as_str());
    match extra.keys().find(is_documented) {
        Some(name) => Err(InvalidInput::new(
            name.clone(),
            "has a method of its own; use it",
        )),
        None => Ok(()),
    }
}

const MAX_TO: usize = 50;
const MAX_SUBJECT: usize = 998;
const MAX_ATTACHMENTS: usize = 20;

/// Checks a documented limit.
pub(super) fn at_most(
    field: &'static str,
    unit: &str,
    limit: usize,
    actual: usize,
) -> Result<(), InvalidInput> {
    if actual > limit {
        return Err(InvalidInput::new(
            field,
            format!("{actual} {unit} exceed the limit of {limit}"),
        ));
    }
    Ok(())
}

/// Rejects only what cannot be an email address: a missing `@`, or white space or
/// control characters in the address, which in `Name <a@b>` is the part in angle brackets.
pub(super) fn can_be_address(text: &str) -> bool {
    let text = text.trim();
    let address = match text.strip_suffix('>') {
        Some(named) => named.rfind('<').map_or(text, |open| &named[open + 1..]),
        None => text,
    };
    let mut has_at = false;
    let mut has_bad = false;
    for byte in address.bytes() {
        has_at |= byte == b'@';
        has_bad |= byte <= b' ' || byte == 0x7f;
    }

    has_at && !has_bad
}

const NOT_AN_ADDRESS: &str = "not an email address; use `a@b` or `Name <a@b>`";

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

/// One or many email addresses, as `a@b` or `Name <a@b>`.
///
/// A text, a `String`, and an array, a slice or a `Vec` of them convert into it, so that
/// [`Email::new`] and the methods of [`Email`] take any of
/// these.
///
/// ```
/// use svc_sdk::email::Email;
///
/// let team = vec!["ada@example.com".to_owned(), "bob@example.com".to_owned()];
/// let email = Email::new("hello@shop.example", team, "Hi").cc("carol@example.com");
/// assert_eq!(email.to, ["ada@example.com", "bob@example.com"]);
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Recipients(Vec<String>);

/// Shows the number of addresses only.
impl fmt::Debug for Recipients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recipients({})", self.0.len())
    }
}

macro_rules! recipients_from {
    ($($type:ty),+; $([$($parameters:tt)*] $list:ty),+) => {
        $(impl From<$type> for Recipients {
            fn from(address: $type) -> Self {
                Self(vec![address.to_owned().into()])
            }
        })+
        $(impl<T: Clone + Into<String>, $($parameters)*> From<$list> for Recipients {
            fn from(addresses: $list) -> Self {
                Self(addresses.iter().cloned().map(Into::into).collect())
            }
        })+
    };
}

recipients_from!(
    &str, String, &String;
    [] Vec<T>, [] &[T], [] &Vec<T>, [const N: usize] [T; N], [const N: usize] &[T; N]
);

/// The time at which to send an email. Any string is sent unmodified; [`at`](Self::at)
/// formats an instant as RFC 3339.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ScheduledAt(String);

impl ScheduledAt {
    /// Formats an instant in UTC with milliseconds.
    pub fn at<Tz: TimeZone>(instant: &DateTime<Tz>) -> Self {
        Self(
            instant
                .with_timezone(&Utc)
                .to_rfc3339_opts(SecondsFormat::Millis, true),
        )
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_only_impossible_addresses() {
        for good in [
            "a@b",
            "Ada <a@b>",
            "\"A @ B\" <a@b>",
            "ä@ö.example",
            " a@b ",
            "a@[::1]",
        ] {
            assert!(can_be_address(good), "{good}");
        }
        for bad in [
            "",
            "a",
            "a b@c",
            "Ada <a b@c>",
            "a@b\r\nBcc: x",
            "Ada a@b",
            "<>",
        ] {
            assert!(!can_be_address(bad), "{bad}");
        }
    }

    #[test]
    fn limits_are_inclusive() {
        let email = |to: usize, subject: usize, attachments: usize| {
            let mut email = Email::new("a@b", "c@d", "ü".repeat(subject));
            email.to = vec!["c@d".to_owned(); to];
            email.attachments = vec![Attachment::from_bytes("n", Vec::new()); attachments];
            email
        };
        assert_eq!(email(50, 998, 20).check(), Ok(()));
        for (bad, field, limit) in [
            (email(51, 998, 20), "to", 50),
            (email(50, 999, 20), "subject", 998),
            (email(50, 998, 21), "attachments", 20),
        ] {
            let invalid = bad.check().unwrap_err();
            assert_eq!(invalid.field, field);
            let actual = limit + 1;
            let limit = format!("exceed the limit of {limit}");
            assert!(
                invalid.problem.starts_with(&actual.to_string()),
                "{invalid}"
            );
            assert!(invalid.problem.ends_with(&limit), "{invalid}");
        }
    }
}
