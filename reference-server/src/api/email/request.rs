//! [`NewEmail`]: the email in a request, checked against every documented limit
//! (`docs/email-service/README.md#limits`).

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::control::emails::EmailSummary;
use crate::mail::mime::check_content_type;
use crate::model::address::{Mailbox, check_header, reject_line_breaks, without_final_dot};
use crate::model::error::{ApiError, Problems};
use crate::model::id::{self, Prefix};
use crate::model::one_or_many::OneOrMany;
use crate::model::schema;
use crate::model::status::{RecipientState, Status};
use crate::model::time;
use crate::model::timestamp::Timestamp;
use crate::store::NO_ORGANIZATION;
use crate::store::emails::{Attachment, Content, StoredEmail};

/// Maximum number of recipients in `to`.
const MAX_RECIPIENTS: usize = 50;
/// Maximum number of recipients in `to`, `cc` and `bcc` together
/// (`docs/undocumented/services.md#other-limits`).
const MAX_ALL_RECIPIENTS: usize = 1_000;
/// Maximum number of addresses in `replyTo`.
const MAX_REPLY_TO: usize = 100;
/// Maximum length of the subject, in characters.
const MAX_SUBJECT: usize = 998;
const MAX_ATTACHMENTS: usize = 20;
/// Maximum size of the name of an attachment, in bytes: that of most file systems. Longer names of
/// received messages may not be read (`mail/mime/guard.rs`).
const MAX_FILENAME: usize = 255;
/// Maximum size of an address with its name, in bytes. Every event contains the sender, and
/// every list of messages the recipients.
const MAX_MAILBOX: usize = 1_000;
/// Maximum number of tags, and their size as JSON, in bytes: every event of each recipient
/// contains all of them.
const MAX_TAGS: usize = 100;
const MAX_TAGS_SIZE: usize = 16 * 1024;

/// An email to send.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("examples" = [{
    "from": "Shop <hello@sandbox.test>",
    "to": "ada@example.test",
    "subject": "Your code",
    "text": "Your code is 482913.",
}]))]
#[schemars(rename = "CreateEmail")]
pub(crate) struct NewEmail {
    /// The sender. Its domain must be verified.
    #[schemars(with = "schema::Mailbox")]
    from: Option<String>,
    #[schemars(with = "schema::Recipients")]
    to: Option<OneOrMany>,
    #[schemars(required, length(max = 998), regex(pattern = r"^[^\r\n]*$"))]
    subject: Option<String>,
    html: Option<String>,
    text: Option<String>,
    cc: Option<OneOrMany>,
    bcc: Option<OneOrMany>,
    reply_to: Option<OneOrMany>,
    /// Custom headers, except those that the server sets itself.
    #[schemars(with = "Option<schema::MessageHeaders>")]
    headers: Option<Map<String, Value>>,
    #[schemars(length(max = 20))]
    attachments: Option<Vec<NewAttachment>>,
    tags: Option<Map<String, Value>>,
    /// An ISO 8601 date-time with an offset or `Z`, or a date (midnight UTC). An email with a
    /// time in the past is sent immediately.
    #[schemars(default, with = "schema::SendingTime")]
    scheduled_at: Option<String>,
    /// The template that provides `html` and `text`, unless the request contains them.
    template_id: Option<String>,
    /// The variables of the template.
    variables: Option<Map<String, Value>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CreateAttachment")]
struct NewAttachment {
    #[schemars(required, length(min = 1), regex(pattern = r"^[^\u0000-\u001f\u007f-\u009f]*$"))]
    filename: Option<String>,
    #[schemars(with = "schema::Base64")]
    content: Option<String>,
    /// The MIME type. Default: derived from the file name.
    #[schemars(regex(pattern = r"^[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+(;[ -~]*)?$"))]
    content_type: Option<String>,
}

/// A valid email. Only the sender's domain is still to be checked.
#[derive(Debug)]
pub(super) struct Checked {
    /// As it will be accepted, without its times.
    pub(super) email: StoredEmail,
    pub(super) content: Content,
    /// The variables of the template, which is still to be rendered.
    pub(super) variables: Value,
}

impl NewEmail {
    /// Validates the email. The error lists all invalid fields.
    pub(super) fn check(self) -> Result<Checked, ApiError> {
        let mut problems = Problems::default();
        let from = self.from.map_or_else(
            || {
                problems.add("from", "is required");
                String::new()
            },
            without_final_dot,
        );
        let mut domain = String::new();
        if !from.is_empty() || problems.is_empty() {
            match parse_mailbox(&from) {
                Ok(mailbox) => mailbox.address.domain().as_str().clone_into(&mut domain),
                Err(error) => problems.add("from", error),
            }
        }
        let count = |list: &Option<OneOrMany>| list.as_ref().map_or(0, |list| list.0.len());
        let all = count(&self.to) + count(&self.cc) + count(&self.bcc);
        if all > MAX_ALL_RECIPIENTS {
            problems.add(
                "",
                format!(
                    "to, cc and bcc have {all} recipients together, at most {MAX_ALL_RECIPIENTS} are allowed; send several emails"
                ),
            );
            return Err(problems.into_error());
        }
        if count(&self.reply_to) > MAX_REPLY_TO {
            problems.add("replyTo", format!("has more than {MAX_REPLY_TO} addresses"));
            return Err(problems.into_error());
        }
        let mut recipients = Recipients::default();
        let to = recipients.add(&mut problems, "to", self.to);
        if to.is_empty() {
            problems.add("to", "is required: at least one recipient");
        }
        problems.at_most("to", to.len(), MAX_RECIPIENTS, "recipients");
        let cc = recipients.add(&mut problems, "cc", self.cc);
        let bcc = recipients.add(&mut problems, "bcc", self.bcc);
        let reply_to = self.reply_to.unwrap_or_default().0;
        for (index, text) in reply_to.iter().enumerate() {
            if let Err(error) = parse_mailbox(text) {
                problems.add(field_path("replyTo", index, reply_to.len()), error);
            }
        }
        let subject = self.subject.unwrap_or_else(|| {
            problems.add("subject", "is required");
            String::new()
        });
        if let Err(error) = reject_line_breaks(&subject) {
            problems.add("subject", error.to_string());
        }
        problems.at_most("subject", subject.chars().count(), MAX_SUBJECT, "characters");
        let headers = self.headers.unwrap_or_default();
        check_headers(&mut problems, &headers, !reply_to.is_empty());
        let attachments = check_attachments(&mut problems, self.attachments.unwrap_or_default());
        let tags = self.tags.unwrap_or_default();
        check_tags(&mut problems, &tags);
        let scheduled_at = self.scheduled_at.and_then(|text| {
            let at = time::parse(&text);
            if at.is_none() {
                problems.add(
                    "scheduledAt",
                    "must be an ISO 8601 date-time with an offset or Z, or a date",
                );
            }
            at
        });
        problems.check()?;
        Ok(Checked {
            email: StoredEmail {
                shown: EmailSummary {
                    id: id::new(Prefix::Email),
                    status: Status::Queued,
                    from,
                    to,
                    cc,
                    bcc,
                    reply_to,
                    subject,
                    tags,
                    scheduled_at: scheduled_at.map(Timestamp::from),
                    template_id: self.template_id,
                    created_at: Timestamp::default(),
                    updated_at: Timestamp::default(),
                    last_event: None,
                },
                organization: NO_ORGANIZATION,
                request: None,
                domain,
                tracking: None,
                preview: String::new(),
                attachments: attachments.len(),
                recipients: recipients.states,
                history: Vec::new(),
            },
            content: Content { html: self.html, text: self.text, headers, attachments },
            variables: Value::Object(self.variables.unwrap_or_default()),
        })
    }
}

/// Collects the recipients of `to`, `cc` and `bcc`, without duplicates.
#[derive(Default)]
struct Recipients {
    seen: HashSet<String>,
    states: Vec<RecipientState>,
}

impl Recipients {
    fn add(
        &mut self,
        problems: &mut Problems,
        field: &str,
        values: Option<OneOrMany>,
    ) -> Vec<String> {
        let texts = values.unwrap_or_default().0;
        for (index, text) in texts.iter().enumerate() {
            match parse_mailbox(text) {
                Ok(mailbox) => {
                    let address = mailbox.address;
                    let key = format!("{}@{}", address.local(), address.domain().as_str());
                    if self.seen.insert(key) {
                        self.states.push(RecipientState {
                            address: address.as_str().to_owned(),
                            status: Status::Queued,
                            detail: None,
                        });
                    }
                }
                Err(error) => {
                    problems.add(field_path(field, index, texts.len()), error);
                }
            }
        }
        texts
    }
}

fn parse_mailbox(text: &str) -> Result<Mailbox, String> {
    if text.len() > MAX_MAILBOX {
        return Err(format!("has {} bytes, at most {MAX_MAILBOX} are allowed", text.len()));
    }
    Mailbox::parse(text).map_err(|error| error.to_string())
}

fn check_tags(problems: &mut Problems, tags: &Map<String, Value>) {
    problems.at_most("tags", tags.len(), MAX_TAGS, "tags");
    let size = serde_json::to_vec(tags).map_or(0, |json| json.len());
    problems.at_most("tags", size, MAX_TAGS_SIZE, "bytes as JSON");
}

/// `to` for a single item, `to[3]` for one of several.
fn field_path(field: &str, index: usize, count: usize) -> String {
    if count == 1 { field.to_owned() } else { format!("{field}[{index}]") }
}

fn check_headers(problems: &mut Problems, headers: &Map<String, Value>, reply_to: bool) {
    for (name, value) in headers {
        // Do not repeat an invalid name in the error: it may contain anything.
        let printable = name.bytes().all(|byte| byte.is_ascii_graphic()) && name.len() <= 100;
        let field = if printable { format!("headers.{name}") } else { "headers".to_owned() };
        match value.as_str() {
            None => problems.add(field, "must be a string"),
            Some(value) => {
                if let Err(error) = check_header(name, value, reply_to) {
                    problems.add(field, error.to_string());
                }
            }
        }
    }
}

fn check_attachments(problems: &mut Problems, new: Vec<NewAttachment>) -> Vec<Attachment> {
    let count = new.len();
    problems.at_most("attachments", count, MAX_ATTACHMENTS, "items");
    if count > MAX_ATTACHMENTS {
        return Vec::new();
    }
    let mut attachments = Vec::with_capacity(count);
    for (index, attachment) in new.into_iter().enumerate() {
        let mut invalid = |field: &str, message: &str| {
            problems.add(format!("attachments[{index}].{field}"), message);
        };
        let filename = attachment.filename.unwrap_or_default();
        if filename.is_empty() {
            invalid("filename", "is required");
        } else if filename.chars().any(char::is_control) {
            invalid("filename", "must not contain a line break or another control character");
        } else if filename.len() > MAX_FILENAME {
            let size = filename.len();
            let message = format!("has {size} bytes, at most {MAX_FILENAME} are allowed");
            invalid("filename", &message);
        }
        if let Some(Err(error)) = attachment.content_type.as_deref().map(check_content_type) {
            invalid("contentType", error);
        }
        let content = match attachment.content.map(|text| STANDARD.decode(text)) {
            Some(Ok(content)) => content,
            Some(Err(_)) => {
                invalid("content", "is not valid Base64");
                Vec::new()
            }
            None => {
                invalid("content", "is required");
                Vec::new()
            }
        };
        attachments.push(Attachment {
            filename,
            content_type: attachment.content_type,
            size: content.len(),
            content,
        });
    }
    attachments
}
