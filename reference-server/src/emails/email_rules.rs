//! What an email may be (`docs/email-service/README.md#limits`), and what happens to it: it is sent, and its
//! recipients change, with a message and events for each change. One file: the life of an email.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use svc_sdk::{Dialect, Point};

use crate::app::App;
use crate::deliveries::delivery_rules::{self, About, emit};
use crate::domains::domain_rows;
use crate::emails::email_rows::{self, Content, StoredEmail};
use crate::emails::email_wire::EmailSummary;
use crate::jobs::{Job, Queue, job_rows};
use crate::mail::mime::{Attachment, check_content_type};
use crate::mail::preview::preview;
use crate::messages::message_rules;
use crate::model::address::{check_header, reject_line_breaks, without_final_dot};
use crate::model::one_or_many::OneOrMany;
use crate::model::{
    Address, Change, Code, Event, Failure, Mailbox, Millis, Problems, RecipientState, Result,
    Status, Timestamp, schema, status, time,
};
use crate::store::{MAX_LEVELS, NO_ORGANIZATION, Tx, levels};

/// Applies a change to one recipient and emits its events. The caller stores the email.
///
/// # Errors
///
/// `Conflict` (409) if the change is not possible in the recipient's status.
pub(crate) fn apply(
    tx: &mut Tx<'_>,
    app: &App,
    email: &mut StoredEmail,
    position: usize,
    change: Change,
    detail: Option<&Value>,
) -> Result<()> {
    let Some(from) = email
        .recipients
        .get(position)
        .map(|recipient| recipient.status)
    else {
        return Ok(());
    };
    let Some(steps) = change.steps(from) else {
        let message = format!(
            "this event is not possible for a recipient with the status {}",
            from.as_str()
        );
        return Err(Failure::new(Code::Conflict, message));
    };

    let last_event = steps.last().map(|(_, event)| *event);
    for (status, event) in steps {
        let last = Some(event) == last_event;
        let recipient = &mut email.recipients[position];
        recipient.status = status;
        if last {
            recipient.detail = detail.cloned().or(recipient.detail.take());
        }
        if status == Status::Delivered && event == Event::EmailDelivered {
            message_rules::deliver(tx, app, email, &email.recipients[position].address)?;
        }
        let now = tx.now;
        let organization = email.organization;
        let detail = detail.filter(|_| last);
        email.note(now, status, Some(event.as_str()), Some(position));
        let recipient = &email.recipients[position];
        let about = About {
            email: Some(&email.id),
            recipient: Some(&recipient.address),
            subject: Some(&email.subject),
        };
        emit(tx, organization, event, about, |_| {
            delivery_rules::outgoing(email, recipient, event, detail, now)
        })?;
        email.last_event = Some(event.as_str().to_owned());
    }

    email.updated_at = tx.now.into();
    email.status = status::overall(&email.recipients);
    Ok(())
}

/// Number of written rows after which a transaction leaves other emails to the next one, so that
/// no request waits long for it.
pub(crate) const MAX_ROWS: u64 = 4_000;

/// How long a `delayed@…` recipient stays in `sending`, in milliseconds.
const DELAY: Millis = 60_000;

/// Sends a queued email. The caller stores it.
pub(crate) fn send(tx: &mut Tx<'_>, app: &App, email: &mut StoredEmail) -> Result<()> {
    // Check again: the domain of a scheduled email may have been deleted since
    // (`docs/undocumented/services.md#addresses`).
    let verified = email.scheduled_at.is_none()
        || !domain_rows::owners(tx.reader(), &email.domain, Some(email.organization))?.is_empty();
    email.sent_at = Some(tx.now);
    let mut relayed = false;
    for position in 0..email.recipients.len() {
        email.recipients[position].status = Status::Sending;
        if !verified {
            let reason = json!({"reason": "the sender's domain is no longer verified"});
            apply(tx, app, email, position, Change::Failed, Some(&reason))?;
            continue;
        }
        let address = &email.recipients[position].address;
        if app
            .relay
            .as_ref()
            .is_some_and(|relay| relay.is_for(address))
        {
            relayed = true;
            continue;
        }
        let changes = status::simulated(address);
        if changes.is_empty() {
            let position = Some(position);
            let job = Job {
                queue: Queue::Mail,
                subject: email.id.clone(),
                position,
            };
            job_rows::add(tx, email.organization, &job, tx.now + DELAY, 0, None)?;
        }
        for change in changes {
            let detail = match change {
                Change::Bounced => json!({"reason": "550 5.1.1 no such mailbox", "type": "hard"}),
                Change::Complained => json!({"reason": "marked as spam by the recipient"}),
                Change::Failed => json!({"reason": "the mail engine could not send the message"}),
                _ => Value::Null,
            };
            let detail = Some(&detail).filter(|detail| !detail.is_null());
            apply(tx, app, email, position, *change, detail)?;
        }
    }

    email.updated_at = tx.now.into();
    email.status = status::overall(&email.recipients);
    if relayed {
        let job = Job::new(Queue::Relay, &email.id);
        job_rows::add(tx, email.organization, &job, tx.now, 0, None)?;
    }
    Ok(())
}

/// The four limits of the reference.
pub(crate) struct Limits {
    recipients: usize,
    /// Characters.
    subject: usize,
    attachments: usize,
    /// Emails in a batch.
    pub(crate) batch: usize,
}

impl Limits {
    /// The limits of a dialect. Where the documented ones do not apply, ten times as much is allowed, so
    /// that the memory of a request stays bounded.
    pub(crate) fn of(dialect: &Dialect) -> Self {
        let factor = match dialect.choice(Point::Limits) {
            "other" => 10,
            _ => 1,
        };
        Self {
            recipients: MAX_RECIPIENTS * factor,
            subject: MAX_SUBJECT * factor,
            attachments: MAX_ATTACHMENTS * factor,
            batch: MAX_BATCH * factor,
        }
    }
}

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
/// Maximum number of emails in a batch.
const MAX_BATCH: usize = 100;
/// Maximum size of the name of an attachment, in bytes: that of most file systems.
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
    #[schemars(
        required,
        length(min = 1),
        regex(pattern = r"^[^\u0000-\u001f\u007f-\u009f]*$")
    )]
    filename: Option<String>,
    #[schemars(with = "schema::Base64")]
    content: Option<String>,
    /// The MIME type. Default: derived from the file name.
    #[schemars(regex(pattern = r"^[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+(;[ -~]*)?$"))]
    content_type: Option<String>,
    /// The id by which the HTML shows the attachment (`cid:`). Not in the reference, but services of
    /// this kind take it; so it is not described.
    #[schemars(skip)]
    content_id: Option<String>,
}

/// A valid email. Only the sender's domain is still to be checked.
#[derive(Debug)]
pub(crate) struct Checked {
    /// The email as it will be accepted, without its times.
    pub(crate) email: StoredEmail,
    pub(crate) content: Content,
    /// The variables of the template, which is still to be rendered.
    pub(crate) variables: Value,
}

impl NewEmail {
    /// Validates the email. The error lists all invalid fields.
    pub(crate) fn check(self, dialect: &Dialect) -> Result<Checked> {
        let limits = Limits::of(dialect);
        let mut problems = Problems::default();
        let count = |list: &Option<OneOrMany>| list.as_ref().map_or(0, |list| list.0.len());
        let all = count(&self.to) + count(&self.cc) + count(&self.bcc);
        if all > MAX_ALL_RECIPIENTS {
            let message = format!(
                "to, cc and bcc have {all} recipients together, at most {MAX_ALL_RECIPIENTS} are \
                 allowed; send several emails"
            );
            return Err(Failure::field("", message));
        }

        Failure::at_most("replyTo", count(&self.reply_to), MAX_REPLY_TO, "addresses")?;
        let attachments = self.attachments.unwrap_or_default();
        let most = limits.attachments;
        Failure::at_most("attachments", attachments.len(), most, "items")?;

        let from = problems
            .ok("from", self.from.ok_or("is required"))
            .map(without_final_dot);
        let sender = from
            .as_deref()
            .and_then(|from| problems.ok("from", parse_mailbox(from)));
        let (to, mut addresses) = parse_mailboxes(&mut problems, "to", self.to);
        if to.is_empty() {
            problems.add("to", "is required: at least one recipient");
        }
        problems.at_most("to", to.len(), limits.recipients, "recipients");
        let (cc, cc_addresses) = parse_mailboxes(&mut problems, "cc", self.cc);
        let (bcc, bcc_addresses) = parse_mailboxes(&mut problems, "bcc", self.bcc);
        addresses.extend(cc_addresses.into_iter().chain(bcc_addresses));
        let (reply_to, _) = parse_mailboxes(&mut problems, "replyTo", self.reply_to);
        let subject = problems.ok("subject", self.subject.ok_or("is required"));
        let subject = subject.unwrap_or_default();
        problems.ok("subject", reject_line_breaks(&subject));
        problems.at_most(
            "subject",
            subject.chars().count(),
            limits.subject,
            "characters",
        );
        let headers = self.headers.unwrap_or_default();
        for (name, value) in &headers {
            // Do not repeat an invalid name in the error: it may contain anything.
            let printable = name.bytes().all(|byte| byte.is_ascii_graphic()) && name.len() <= 100;
            let field = if printable {
                format!("headers.{name}")
            } else {
                "headers".to_owned()
            };
            let value = value.as_str().ok_or("must be a string");
            let has_reply_to = !reply_to.is_empty();
            problems.ok(
                field,
                value.and_then(|value| check_header(name, value, has_reply_to)),
            );
        }

        let attachments = attachments.into_iter().enumerate();
        let attachments = attachments.filter_map(|(index, new)| new.check(index, &mut problems));
        let attachments: Vec<Attachment> = attachments.collect();
        let tags = self.tags.unwrap_or_default();
        problems.at_most("tags", tags.len(), MAX_TAGS, "tags");
        let size = serde_json::to_vec(&tags).map_or(0, |json| json.len());
        problems.at_most("tags", size, MAX_TAGS_SIZE, "bytes as JSON");
        let deepest = tags.values().map(levels).max();
        problems.at_most("tags", deepest.unwrap_or(0), MAX_LEVELS, "levels");
        let scheduled_at = self.scheduled_at.and_then(|text| {
            let message = "must be an ISO 8601 date-time with an offset or Z, or a date";
            problems.ok("scheduledAt", time::parse(&text).ok_or(message))
        });
        problems.check()?;
        Ok(Checked {
            email: StoredEmail {
                shown: EmailSummary {
                    id: String::new(),
                    status: Status::Queued,
                    from: from.unwrap_or_default(),
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
                sent_at: None,
                request: None,
                domain: sender
                    .map(|from| from.address.domain().to_string())
                    .unwrap_or_default(),
                tracking: None,
                preview: preview(self.html.as_deref(), self.text.as_deref()),
                attachments: attachments.len(),
                recipients: recipients(&addresses),
                history: Vec::new(),
            },
            content: Content {
                html: self.html,
                text: self.text,
                headers,
                attachments,
            },
            variables: Value::Object(self.variables.unwrap_or_default()),
        })
    }
}

/// The mailboxes of a field as they are, and their addresses.
fn parse_mailboxes(
    problems: &mut Problems,
    field: &str,
    values: Option<OneOrMany>,
) -> (Vec<String>, Vec<Address>) {
    let texts = values.unwrap_or_default().0;
    let mut addresses = Vec::with_capacity(texts.len());
    for (index, text) in texts.iter().enumerate() {
        let path = if texts.len() == 1 {
            field.to_owned()
        } else {
            format!("{field}[{index}]")
        };
        addresses.extend(
            problems
                .ok(path, parse_mailbox(text))
                .map(|mailbox| mailbox.address),
        );
    }
    (texts, addresses)
}

fn parse_mailbox(text: &str) -> Result<Mailbox, String> {
    if text.len() > MAX_MAILBOX {
        return Err(format!(
            "has {} bytes, at most {MAX_MAILBOX} are allowed",
            text.len()
        ));
    }
    Mailbox::parse(text).map_err(str::to_owned)
}

/// The recipients with these addresses, each once.
fn recipients(addresses: &[Address]) -> Vec<RecipientState> {
    let mut seen = HashSet::new();
    let unique = addresses
        .iter()
        .filter(|one| seen.insert((one.local(), one.domain())));
    let state = |address: &Address| RecipientState {
        address: address.as_str().to_owned(),
        status: Status::Queued,
        detail: None,
    };

    unique.map(state).collect()
}

impl NewAttachment {
    fn check(self, index: usize, problems: &mut Problems) -> Option<Attachment> {
        let path = |field: &str| format!("attachments[{index}].{field}");
        let filename = self
            .filename
            .filter(|name| !name.is_empty())
            .ok_or("is required");
        let filename = filename.and_then(|name| {
            if name.chars().any(char::is_control) {
                Err("must not contain a line break or another control character")
            } else {
                Ok(name)
            }
        });
        let filename = problems.ok(path("filename"), filename);
        let size = filename.as_ref().map_or(0, String::len);
        problems.at_most(path("filename"), size, MAX_FILENAME, "bytes");
        let content_type = self.content_type;
        let checked = content_type.as_deref().map_or(Ok(()), check_content_type);
        problems.ok(path("contentType"), checked);
        let decode = |text| STANDARD.decode(text).map_err(|_| "is not valid Base64");
        let content = self.content.ok_or("is required").and_then(decode);
        let content = problems.ok(path("content"), content)?;
        Some(Attachment {
            filename: filename?,
            content_type,
            content_id: self.content_id,
            size: content.len(),
            content,
        })
    }
}

/// Sends up to `limit` queued emails that are due up to `until`. Moves on to the next due time only if
/// nothing else is due before it. Returns the time that it has reached.
pub(crate) fn send_due(tx: &mut Tx<'_>, app: &App, until: Millis, limit: usize) -> Result<Millis> {
    for (job, at) in job_rows::due(tx.reader(), &Queue::Mail, until.max(tx.now), limit)? {
        if tx.rows_written() > MAX_ROWS {
            break;
        }
        if at > tx.now {
            let queues = job_rows::queues(tx.reader(), app.relay.is_some())?;
            if queues
                .iter()
                .any(|(queue, due)| *queue != Queue::Mail && *due < at)
            {
                break;
            }
            tx.now = at;
        }
        job_rows::done(tx, &job)?;
        match job.position {
            None => send_queued(tx, app, &job.subject)?,
            Some(position) => deliver_delayed(tx, app, &job.subject, position)?,
        }
    }
    Ok(tx.now)
}

fn send_queued(tx: &mut Tx<'_>, app: &App, id: &str) -> Result<()> {
    let email = email_rows::find(tx.reader(), id)?.filter(|email| email.status == Status::Queued);
    let Some(mut email) = email else {
        return Ok(());
    };
    send(tx, app, &mut email)?;
    email_rows::update(tx, &email)
}

fn deliver_delayed(tx: &mut Tx<'_>, app: &App, id: &str, position: usize) -> Result<()> {
    let Some(mut email) = email_rows::find(tx.reader(), id)? else {
        return Ok(());
    };

    // The control interface may have changed the recipient in the meantime.
    let status = email
        .recipients
        .get(position)
        .map(|recipient| recipient.status);
    if status != Some(Status::Sending) {
        return Ok(());
    }

    apply(tx, app, &mut email, position, Change::Delivered, None)?;
    email_rows::update(tx, &email)
}
