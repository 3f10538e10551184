//! The email of a request: read, and checked against every documented limit
//! (`docs/email-service/emails.md`, `docs/email-service/limits.md`, `docs/undocumented/email-service.md#past-schedule`, `docs/undocumented/email-service.md#empty-content`, `docs/undocumented/email-service.md#addresses`, `docs/undocumented/email-service.md#invalid-content`).

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::one_or_many::OneOrMany;
use super::stored::{Attachment, Content, Meta};
use crate::address::{Mailbox, check_header, reject_line_breaks};
use crate::engine::{RecipientState, Status};
use crate::error::{ApiError, Problems};
use crate::mime::check_content_type;
use crate::openapi::schema;
use crate::time::{self, Millis};
use crate::web::Object;

/// Recipients in `to`.
const RECIPIENTS: usize = 50;
/// Characters of the subject.
const SUBJECT: usize = 998;
const ATTACHMENTS: usize = 20;

/// An email to send.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewEmail {
    /// Of a verified domain.
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
    /// Custom headers; not those that every message has of its own.
    #[schemars(with = "Option<schema::MessageHeaders>")]
    headers: Option<Map<String, Value>>,
    #[schemars(length(max = 20))]
    attachments: Option<Vec<Object<NewAttachment>>>,
    tags: Option<Map<String, Value>>,
    /// ISO 8601 with an offset or `Z`, or a date alone (midnight UTC); at once where it is past.
    #[schemars(default, with = "schema::SendingTime")]
    scheduled_at: Option<String>,
    /// Gives each part that the request does not give itself.
    template_id: Option<String>,
    /// For the template.
    variables: Option<Map<String, Value>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct NewAttachment {
    #[schemars(required, length(min = 1), regex(pattern = r"^[^\u0000-\u001f\u007f-\u009f]*$"))]
    filename: Option<String>,
    #[schemars(with = "schema::Base64")]
    content: Option<String>,
    /// A MIME type; found from the file's name where it is not given.
    #[schemars(regex(pattern = r"^[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+(;[ -~]*)?$"))]
    content_type: Option<String>,
}

/// An email that can be accepted, if its sender's domain is verified.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) meta: Meta,
    pub(super) recipients: Vec<RecipientState>,
    pub(super) content: Content,
    pub(super) scheduled_at: Option<Millis>,
    /// For the template, whose parts are still to be put in.
    pub(super) variables: Value,
}

impl NewEmail {
    /// Everything that is wrong with it in one answer.
    pub(super) fn check(self) -> Result<Checked, ApiError> {
        let mut problems = Problems::default();
        let from = self.from.unwrap_or_else(|| {
            problems.add("from", "is required");
            String::new()
        });
        let mut domain = String::new();
        if !from.is_empty() || problems.is_empty() {
            match Mailbox::parse(&from) {
                Ok(mailbox) => mailbox.address.domain().as_str().clone_into(&mut domain),
                Err(error) => problems.add("from", error.to_string()),
            }
        }
        let mut recipients = Recipients::default();
        let to = recipients.take(&mut problems, "to", self.to);
        match to.len() {
            0 => problems.add("to", "is required: at least one recipient"),
            count if count > RECIPIENTS => {
                problems
                    .add("to", format!("has {count} recipients, at most {RECIPIENTS} are allowed"));
            }
            _ => {}
        }
        let cc = recipients.take(&mut problems, "cc", self.cc);
        let bcc = recipients.take(&mut problems, "bcc", self.bcc);
        let reply_to = self.reply_to.unwrap_or_default().0;
        for (index, text) in reply_to.iter().enumerate() {
            if let Err(error) = Mailbox::parse(text) {
                problems.add(at("replyTo", index, reply_to.len()), error.to_string());
            }
        }
        let subject = self.subject.unwrap_or_else(|| {
            problems.add("subject", "is required");
            String::new()
        });
        if let Err(error) = reject_line_breaks(&subject) {
            problems.add("subject", error.to_string());
        }
        let length = subject.chars().count();
        if length > SUBJECT {
            problems
                .add("subject", format!("has {length} characters, at most {SUBJECT} are allowed"));
        }
        let headers = self.headers.unwrap_or_default();
        check_headers(&mut problems, &headers, !reply_to.is_empty());
        let attachments = check_attachments(&mut problems, self.attachments.unwrap_or_default());
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
            meta: Meta {
                from,
                to,
                cc,
                bcc,
                reply_to,
                subject,
                tags: self.tags.unwrap_or_default(),
                template_id: self.template_id,
                domain,
                tracking: None,
            },
            recipients: recipients.states,
            content: Content { html: self.html, text: self.text, headers, attachments },
            scheduled_at,
            variables: Value::Object(self.variables.unwrap_or_default()),
        })
    }
}

/// Each address once, whichever field names it.
#[derive(Default)]
struct Recipients {
    seen: HashSet<String>,
    states: Vec<RecipientState>,
}

impl Recipients {
    fn take(
        &mut self,
        problems: &mut Problems,
        field: &str,
        given: Option<OneOrMany>,
    ) -> Vec<String> {
        let texts = given.unwrap_or_default().0;
        for (index, text) in texts.iter().enumerate() {
            match Mailbox::parse(text) {
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
                Err(error) => problems.add(at(field, index, texts.len()), error.to_string()),
            }
        }
        texts
    }
}

/// `to` where there is one, `to[3]` where there are several.
fn at(field: &str, index: usize, count: usize) -> String {
    if count == 1 { field.to_owned() } else { format!("{field}[{index}]") }
}

fn check_headers(problems: &mut Problems, headers: &Map<String, Value>, reply_to: bool) {
    for (name, value) in headers {
        // A name that is none is not repeated: it may be anything.
        let shown = name.bytes().all(|byte| byte.is_ascii_graphic()) && name.len() <= 100;
        let field = if shown { format!("headers.{name}") } else { "headers".to_owned() };
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

fn check_attachments(
    problems: &mut Problems,
    given: Vec<Object<NewAttachment>>,
) -> Vec<Attachment> {
    let count = given.len();
    if count > ATTACHMENTS {
        problems
            .add("attachments", format!("has {count} items, at most {ATTACHMENTS} are allowed"));
        return Vec::new();
    }
    let mut attachments = Vec::with_capacity(count);
    for (index, Object(new)) in given.into_iter().enumerate() {
        let mut wrong = |field: &str, message: &str| {
            problems.add(format!("attachments[{index}].{field}"), message);
        };
        let filename = new.filename.unwrap_or_default();
        if filename.is_empty() {
            wrong("filename", "is required");
        } else if filename.chars().any(char::is_control) {
            wrong("filename", "must not contain a line break or another control character");
        }
        if let Some(Err(error)) = new.content_type.as_deref().map(check_content_type) {
            wrong("contentType", &error.to_string());
        }
        let content = match new.content.map(|text| STANDARD.decode(text)) {
            Some(Ok(content)) => content,
            Some(Err(_)) => {
                wrong("content", "is not Base64");
                Vec::new()
            }
            None => {
                wrong("content", "is required");
                Vec::new()
            }
        };
        attachments.push(Attachment {
            filename,
            content_type: new.content_type,
            size: content.len(),
            content,
        });
    }
    attachments
}
