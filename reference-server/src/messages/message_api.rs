//! `/_sandbox/messages`: lists delivered and received messages, waits for one, and shows one: its parts,
//! source, HTML and links.

use std::io::Write;
use std::time::Duration;

use axum::body::Body;
use http::Response;
use http::header::{CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::time::{Instant, timeout_at};

use crate::app::Shared;
use crate::control::endpoint::Page;
use crate::emails::email_rows::{self, StoredEmail};
use crate::http::ControlCall;
use crate::http::control::find_organization;
use crate::http::page::PREVIEW_POLICY;
use crate::http::response::content;
use crate::http::written::{Written, written};
use crate::mail::codes::codes;
use crate::mail::html_check;
use crate::mail::inline_images::write_with_images;
use crate::mail::links::{self, Targets};
use crate::mail::mime::Incoming;
use crate::mail::relay::Handoff;
use crate::messages::message_rows::{self, Search};
use crate::messages::message_rules;
use crate::messages::message_wire::{
    Authentication, CheckedPrograms, HtmlCheck, Message, MessageAttachment, MessageCount,
    MessageFilter, MessageLinks, MessageSummary, Release, Released,
};
use crate::model::address::Mailbox;
use crate::model::error::{Code, Failure};
use crate::runtime::heavy;
use crate::runtime::memory::{RESPONSES, Reserved};
use crate::store::Reader;

/// Lists one page of the matching messages, newest first.
pub(crate) async fn list(
    call: ControlCall<(), MessageFilter>,
) -> Result<Page<MessageSummary>, Failure> {
    let limit = call.limit;
    let search = Search {
        cursor: call.cursor,
        ..Search::new(&call.query)?
    };
    let found = call
        .input
        .read(move |reader, of| search.find(reader, of, limit + 1));
    Ok(Page::of(found.await?, limit, |last| last.id.clone()))
}

/// Counts the matching messages.
pub(crate) async fn count(call: ControlCall<(), MessageFilter>) -> Result<MessageCount, Failure> {
    let search = Search::new(&call.query)?;
    let count = call.read(move |reader, of| search.count(reader, of));
    Ok(MessageCount {
        count: count.await?,
    })
}

/// How many messages one transaction deletes: others write between two of them.
const DELETED_AT_ONCE: usize = 2_000;

/// Deletes the messages that match when the request arrives. Their emails stay.
pub(crate) async fn delete_all(call: ControlCall<(), MessageFilter>) -> Result<(), Failure> {
    let search = Search::new(&call.query)?;
    let found = call.read(move |reader, of| search.find(reader, of, usize::MAX));
    let ids: Vec<String> = found.await?.into_iter().map(|message| message.id).collect();

    for some in ids.chunks(DELETED_AT_ONCE) {
        let some = some.to_vec();
        call.write(move |tx, _, of| message_rows::delete(tx, of, &some))
            .await?;
    }
    Ok(())
}

/// Returns the newest matching message, or waits for one. Returns 408 after `timeout`, in
/// real time.
pub(crate) async fn wait(
    call: ControlCall<(), MessageFilter>,
) -> Result<Written<Message>, Failure> {
    let mut search = Search::new(&call.query)?;
    let app = &call.app;
    let timeout = call.wait;
    let deadline = Instant::now() + timeout;
    let stopped = app.stop.requested();
    tokio::pin!(stopped);
    loop {
        // Register before the query, so that no message is missed in between.
        let mut stored = app.store.wake.messages.subscribe();
        // A reset gives the organization another number.
        let named = call.query().remove("organization");
        let organization = find_organization(app, named).await?;
        let wanted = search.clone();
        let read = move |reader: Reader<'_>| {
            let newest = message_rows::newest(reader, organization)?;
            Ok((newest, wanted.find(reader, organization, 1)?.pop()))
        };
        let (newest, found) = app.store.read(read).await?;
        if let Some(found) = found {
            return load(app, organization, found.id, READ).await?.shown().await;
        }
        // The next query only needs to look at newer messages.
        search.since = newest.or(search.since);
        tokio::select! {
            arrived = timeout_at(deadline, stored.changed()) => {
                if arrived.is_err() || Instant::now() >= deadline {
                    return Err(none_arrived(app, search, organization, timeout).await?);
                }
            }
            () = &mut stopped => {
                return Err(Failure::new(Code::Unavailable, "the server is stopping"));
            }
        }
    }
}

/// The error at the end of a wait, which says what is in the mailbox instead.
async fn none_arrived(
    app: &Shared,
    mut search: Search,
    organization: i64,
    timeout: Duration,
) -> Result<Failure, Failure> {
    let read = move |reader: Reader<'_>| {
        let newest = Search::default().find(reader, organization, SHOWN_INSTEAD + 1)?;
        (search.elsewhere, search.since) = (true, None);
        let found = search.find(reader, organization, 1)?;
        let elsewhere = found
            .first()
            .map(|found| message_rows::has_it(reader, &found.id));
        Ok((newest, elsewhere.transpose()?.unwrap_or_default()))
    };

    let (newest, elsewhere) = app.store.read(read).await?;
    let shown = newest.iter().take(SHOWN_INSTEAD).map(|message| {
        format!(
            "{:?} to {} at {}",
            message.subject, message.recipient, message.created_at
        )
    });
    let shown = shown.collect::<Vec<_>>().join(", ");
    let instead = match newest.len() {
        0 => "the mailbox is empty".to_owned(),
        1..=SHOWN_INSTEAD => format!("the mailbox has {shown}"),
        _ => format!("the newest messages are {shown}"),
    };
    let text = format!("no matching message arrived within {timeout:?}; {instead}{elsewhere}");
    Ok(Failure::new(Code::RequestTimeout, text))
}

/// How many messages the error at the end of a wait describes.
const SHOWN_INSTEAD: usize = 5;

impl MessageLinks {
    fn of(message: &Incoming, tracked: &Targets) -> Self {
        let html = message.html.as_deref();
        let text = message.text.as_deref();
        Self {
            links: links::links(html, text, tracked),
            codes: codes(Some(&message.subject), html, text),
        }
    }
}

pub(crate) async fn get(call: ControlCall) -> Result<Written<Message>, Failure> {
    opened(&call, READ).await?.shown().await
}

/// Returns the RFC 5322 source.
pub(crate) async fn raw(call: ControlCall) -> Result<Response<Body>, Failure> {
    let Found { memory, unread, .. } = opened(&call, 1).await?;
    let open = move || {
        let head = content("message/rfc822", Body::empty());
        let source = unread.open()?.source;
        Ok((head, move |to: &mut dyn Write| to.write_all(&source)))
    };
    written(memory, open).await
}

/// Returns the HTML part. It runs no scripts and loads nothing from elsewhere, because the page has
/// the same origin as the control interface, and who sent it would see that it is read.
pub(crate) async fn html(call: ControlCall) -> Result<Response<Body>, Failure> {
    let Found { memory, unread, .. } = opened(&call, READ).await?;
    let open = move || {
        let message = Incoming::parse(&unread.open()?.source);
        if message.html.is_none() {
            return Err(Failure::not_found("HTML part"));
        }
        let mut head = content("text/html; charset=utf-8", Body::empty());
        let policy = HeaderValue::from_static(PREVIEW_POLICY);
        head.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
        Ok((head, move |to: &mut dyn Write| {
            write_with_images(&message, to)
        }))
    };
    written(memory, open).await
}

/// Returns an attachment. Whatever its type is, a browser saves it, or shows it as an image, but
/// does not run it.
pub(crate) async fn attachment(call: ControlCall) -> Result<Response<Body>, Failure> {
    let position = call
        .input
        .param("n")
        .parse::<usize>()
        .ok()
        .and_then(|n| n.checked_sub(1));
    let Found { memory, unread, .. } = opened(&call, READ).await?;
    let open = move || {
        let message = Incoming::parse(&unread.open()?.source);
        let found = position.and_then(|position| message.attachments.into_iter().nth(position));
        let attachment = found.ok_or_else(|| Failure::not_found("attachment"))?;
        let mut head = content("application/octet-stream", Body::empty());
        let headers = head.headers_mut();
        if let Ok(content_type) = HeaderValue::try_from(attachment.content_type) {
            headers.insert(CONTENT_TYPE, content_type);
        }
        let name = attachment.filename.as_deref().unwrap_or("attachment");
        // RFC 6266: the name in UTF-8.
        let name = utf8_percent_encode(name, NON_ALPHANUMERIC);
        let disposition = format!("attachment; filename*=UTF-8''{name}");
        let disposition = HeaderValue::try_from(disposition).map_err(Failure::internal)?;
        headers.insert(CONTENT_DISPOSITION, disposition);
        headers.insert(CONTENT_SECURITY_POLICY, ATTACHMENT_POLICY);
        Ok((head, move |to: &mut dyn Write| {
            to.write_all(&attachment.content)
        }))
    };

    written(memory, open).await
}

const ATTACHMENT_POLICY: HeaderValue = HeaderValue::from_static("sandbox; default-src 'none'");

/// Sends the message through the relay.
pub(crate) async fn release(call: ControlCall<Release>) -> Result<Released, Failure> {
    let app = &call.app;
    let Some(relay) = &app.relay else {
        let message = "the server has no relay; start it with --relay URL";
        return Err(Failure::new(Code::Conflict, message));
    };

    let to = Mailbox::parse(&call.body.to).map_err(|error| Failure::field("to", error))?;
    let to = to.address;
    let Found {
        memory,
        summary,
        unread,
    } = opened(&call, 1).await?;
    let source = heavy::run(move || Ok(unread.open()?.source)).await?;
    // Without a sender that the relay could take, it is sent as bounces are.
    let sender = Mailbox::parse(&summary.from).map(|from| from.address.to_ascii().into_owned());
    let sender = sender.unwrap_or_default();

    let recipient = to.to_ascii().into_owned();
    let outcome = relay
        .send(&sender, &[recipient], &source, |_| {
            std::future::ready(Ok(()))
        })
        .await;
    drop(memory);
    let reason = match outcome.into_iter().next() {
        Some(Handoff::Accepted) => {
            return Ok(Released {
                id: summary.id,
                to: to.as_str().to_owned(),
            });
        }
        Some(Handoff::Refused(reason) | Handoff::Deferred(reason) | Handoff::Unknown(reason)) => {
            reason
        }
        None => String::new(),
    };
    Err(Failure::new(
        Code::Conflict,
        format!("the message was not released: {reason}"),
    ))
}

/// Returns the links and the one-time codes of the message.
pub(crate) async fn links(call: ControlCall) -> Result<MessageLinks, Failure> {
    let Found { memory, unread, .. } = opened(&call, READ).await?;
    let read = move || {
        let Opened {
            source, tracked, ..
        } = unread.open()?;
        let links = MessageLinks::of(&Incoming::parse(&source), &tracked);
        drop(memory);
        Ok(links)
    };
    heavy::run(read).await
}

/// Returns what the HTML part uses that mail programs do not support; nothing if there is none.
pub(crate) async fn html_check(
    call: ControlCall<(), CheckedPrograms>,
) -> Result<HtmlCheck, Failure> {
    let Found { memory, unread, .. } = opened(&call, READ).await?;
    let check = move || {
        let message = Incoming::parse(&unread.open()?.source);
        let shown = message
            .attachments
            .iter()
            .filter(|one| one.content_id.is_some());
        let types = shown.map(|one| &*one.content_type);
        let html = message.html.as_deref().unwrap_or_default();
        let checked = html_check::check(html, types, call.query.programs.as_deref());
        drop(memory);
        checked
    };
    heavy::run(check).await
}

/// A message that has been found.
struct Found {
    /// For its source, as often as it is in memory.
    memory: Reserved,
    summary: MessageSummary,
    unread: Unread,
}

/// How often a message that is read is in memory, at most: as its source, and as text, in which a
/// byte may take three.
const READ: usize = 4;

/// A message whose source has not been read yet.
struct Unread {
    authentication: Option<Authentication>,
    content: Stored,
    /// Whether the server is exposed.
    exposed: bool,
}

enum Stored {
    Received(Vec<u8>),
    /// An email of this server, and the recipient of the message.
    Sent(Box<message_rules::Message>, String),
}

/// A message with its source.
struct Opened {
    authentication: Option<Authentication>,
    /// The email of an outgoing message.
    email: Option<StoredEmail>,
    source: Vec<u8>,
    tracked: Targets,
}

/// Finds the message that a request is about.
async fn opened<B, Q>(call: &ControlCall<B, Q>, times: usize) -> Result<Found, Failure> {
    load(&call.app, call.organization, call.id(), times).await
}

/// Loads a message, when there is memory to have it this many times.
async fn load(app: &Shared, organization: i64, id: String, times: usize) -> Result<Found, Failure> {
    let message = id.clone();
    let size = app.store.read(move |reader| {
        match message_rows::find(reader, organization, &message)?
            .0
            .email_id
        {
            Some(email) => email_rows::content_size(reader, &email),
            None => message_rows::source_size(reader, &message),
        }
    });
    let memory = RESPONSES.reserve(size.await? * times).await;
    let load = move |reader: Reader<'_>| {
        let (summary, authentication) = message_rows::find(reader, organization, &id)?;
        let sent = match &summary.email_id {
            Some(email) => message_rules::Message::load(reader, email)?,
            None => None,
        };
        let content = match sent {
            Some(sent) => Stored::Sent(Box::new(sent), summary.recipient.clone()),
            None => {
                let source = message_rows::source(reader, &id)?;
                Stored::Received(source.ok_or_else(|| Failure::not_found("message"))?)
            }
        };
        Ok((summary, authentication, content))
    };

    let (summary, authentication, content) = app.store.read(load).await?;
    Ok(Found {
        memory,
        summary,
        unread: Unread {
            authentication,
            content,
            exposed: app.settings.is_exposed(),
        },
    })
}

impl Unread {
    /// Renders the source of an outgoing message. Blocks for a time that depends on its size.
    fn open(self) -> Result<Opened, Failure> {
        let authentication = self.authentication;
        let (message, recipient) = match self.content {
            Stored::Sent(message, recipient) => (message, recipient),
            Stored::Received(source) => {
                return Ok(Opened {
                    authentication,
                    email: None,
                    source,
                    tracked: Targets::default(),
                });
            }
        };
        Ok(Opened {
            authentication,
            source: message.source(&recipient, self.exposed)?,
            tracked: message.targets(),
            email: Some(message.email),
        })
    }
}

impl Found {
    /// The message with its content.
    async fn shown(self) -> Result<Written<Message>, Failure> {
        let summary = self.summary;
        let unread = self.unread;
        Written::json(self.memory, move || {
            Ok(unread.open()?.into_message(summary))
        })
        .await
    }
}

impl Opened {
    fn into_message(self, summary: MessageSummary) -> Message {
        let parsed = Incoming::parse(&self.source);
        let size = self.source.len();
        drop(self.source);
        let MessageLinks { links, codes } = MessageLinks::of(&parsed, &self.tracked);
        let MessageSummary {
            id,
            direction,
            email_id,
            recipient,
            created_at,
            ..
        } = summary;
        let (from, tags) = match self.email {
            Some(email) => (email.shown.from, Some(email.shown.tags)),
            None => (parsed.from, None),
        };
        let attachments = parsed
            .attachments
            .into_iter()
            .map(|attachment| MessageAttachment {
                filename: attachment.filename,
                content_type: attachment.content_type,
                content_id: attachment.content_id,
                size: attachment.size,
            });
        Message {
            id,
            direction,
            email_id,
            from,
            tags,
            recipient,
            created_at,
            authentication: self.authentication,
            size,
            to: parsed.to,
            cc: parsed.cc,
            subject: parsed.subject,
            headers: parsed.headers,
            attachments: attachments.collect(),
            text: parsed.text,
            html: parsed.html,
            links,
            codes,
        }
    }
}
