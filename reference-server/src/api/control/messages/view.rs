//! A single message: its parts, source, HTML and links.

use axum::body::Body;
use http::Response;
use http::header::{CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::api::framework::response::content;
use crate::api::framework::{ControlCall, memory};
use crate::app::Shared;
use crate::control::messages::{
    Authentication, Message, MessageAttachment, MessageLinks, MessageSummary, Release, Released,
};
use crate::delivery::source;
use crate::mail::codes::codes;
use crate::mail::links::{self, Targets};
use crate::mail::mime::Incoming;
use crate::mail::relay::Handoff;
use crate::model::address::Mailbox;
use crate::model::error::{ApiError, Code};
use crate::runtime::heavy;
use crate::store::Reader;
use crate::store::emails::{self, StoredEmail};
use crate::store::messages;

impl MessageLinks {
    fn of(message: &Incoming, tracked: &Targets) -> Self {
        let (html, text) = (message.html.as_deref(), message.text.as_deref());
        Self {
            links: links::links(html, text, tracked),
            codes: codes(Some(&message.subject), html, text),
        }
    }
}

pub(crate) async fn get(call: ControlCall) -> Result<Message, ApiError> {
    show(&call.data.app, call.data.organization, call.id()).await
}

/// Returns the message with its content.
pub(crate) async fn show(app: &Shared, organization: i64, id: String) -> Result<Message, ApiError> {
    let found = find(app, organization, id).await?;
    heavy::run(move || Ok(found.into_message())).await
}

/// Returns the RFC 5322 source.
pub(crate) async fn raw(call: ControlCall) -> Result<Response<Body>, ApiError> {
    let Found { source, .. } = find(&call.data.app, call.data.organization, call.id()).await?;
    Ok(content("message/rfc822", source))
}

/// Returns the HTML part. A content security policy disables scripts and forms, because
/// the page has the same origin as the control interface.
pub(crate) async fn html(call: ControlCall) -> Result<Response<Body>, ApiError> {
    let Found { source, .. } = find(&call.data.app, call.data.organization, call.id()).await?;
    let read = move || Ok(Incoming::parse(&source).html);
    let html = heavy::run(read)
        .await?
        .ok_or_else(|| ApiError::not_found("HTML part"))?;
    let mut page = content("text/html; charset=utf-8", html.into_bytes());
    page.headers_mut()
        .insert(CONTENT_SECURITY_POLICY, HTML_POLICY);
    Ok(page)
}

const HTML_POLICY: HeaderValue = HeaderValue::from_static(
    "sandbox allow-popups; default-src 'none'; img-src * data:; style-src * 'unsafe-inline'; font-src *",
);

/// Returns an attachment. Whatever its type is, a browser saves it, or shows it as an image, but
/// does not run it.
pub(crate) async fn attachment(call: ControlCall) -> Result<Response<Body>, ApiError> {
    let position = call
        .input
        .param("n")
        .parse::<usize>()
        .ok()
        .and_then(|n| n.checked_sub(1));
    let Found { source, .. } = find(&call.data.app, call.data.organization, call.id()).await?;
    let found = heavy::run(move || {
        let message = Incoming::parse(&source);
        Ok(position.and_then(|position| message.attachments.into_iter().nth(position)))
    });
    let attachment = found
        .await?
        .ok_or_else(|| ApiError::not_found("attachment"))?;
    let mut response = content("application/octet-stream", attachment.content);
    let headers = response.headers_mut();
    if let Ok(content_type) = HeaderValue::try_from(attachment.content_type) {
        headers.insert(CONTENT_TYPE, content_type);
    }
    let name = attachment.filename.as_deref().unwrap_or("attachment");
    // RFC 6266: the name in UTF-8.
    let name = utf8_percent_encode(name, NON_ALPHANUMERIC);
    let disposition = format!("attachment; filename*=UTF-8''{name}");
    headers.insert(
        CONTENT_DISPOSITION,
        HeaderValue::try_from(disposition).map_err(ApiError::internal)?,
    );
    headers.insert(CONTENT_SECURITY_POLICY, ATTACHMENT_POLICY);
    Ok(response)
}

const ATTACHMENT_POLICY: HeaderValue = HeaderValue::from_static("sandbox; default-src 'none'");

/// Sends the message through the relay.
pub(crate) async fn release(call: ControlCall<Release>) -> Result<Released, ApiError> {
    let app = &call.data.app;
    let Some(relay) = &app.relay else {
        let message = "the server has no relay; start it with --relay URL";
        return Err(ApiError::new(Code::Conflict, message));
    };
    let to = Mailbox::parse(&call.body.to).map_err(|error| ApiError::field("to", error))?;
    let to = to.address;
    let Found {
        summary, source, ..
    } = find(app, call.data.organization, call.id()).await?;
    // Without a sender that the relay could take, it is sent as bounces are.
    let sender = Mailbox::parse(&summary.from).map(|from| from.address.to_ascii().into_owned());
    let sender = sender.unwrap_or_default();

    let recipient = to.to_ascii().into_owned();
    let outcome = relay
        .send(&sender, &[recipient], &source, |_| {
            std::future::ready(Ok(()))
        })
        .await;
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
    Err(ApiError::new(
        Code::Conflict,
        format!("the message was not released: {reason}"),
    ))
}

/// Returns the links and the one-time codes of the message.
pub(crate) async fn links(call: ControlCall) -> Result<MessageLinks, ApiError> {
    let Found {
        source, tracked, ..
    } = find(&call.data.app, call.data.organization, call.id()).await?;
    heavy::run(move || Ok(MessageLinks::of(&Incoming::parse(&source), &tracked))).await
}

/// A message with its source.
struct Found {
    summary: MessageSummary,
    authentication: Option<Authentication>,
    /// That of an outgoing message.
    email: Option<StoredEmail>,
    source: Vec<u8>,
    tracked: Targets,
}

/// Loads a message, when there is memory for it. Outgoing ones are rendered.
async fn find(app: &Shared, organization: i64, id: String) -> Result<Found, ApiError> {
    let message = id.clone();
    let size = app.store.read(move |reader| {
        match messages::find(reader, organization, &message)?.0.email_id {
            Some(email) => emails::content_size(reader, &email),
            None => messages::source_size(reader, &message),
        }
    });
    memory::reserve_response(size.await?).await;
    let load = move |reader: Reader<'_>| {
        let (summary, authentication) = messages::find(reader, organization, &id)?;
        let (sent, source) = match &summary.email_id {
            Some(email) => (source::Message::load(reader, email)?, None),
            None => (None, messages::source(reader, &id)?),
        };
        Ok((summary, authentication, sent, source))
    };
    let (summary, authentication, sent, source) = app.store.read(load).await?;
    let Some(message) = sent else {
        let source = source.ok_or_else(|| ApiError::not_found("message"))?;
        let tracked = Targets::default();
        return Ok(Found {
            summary,
            authentication,
            email: None,
            source,
            tracked,
        });
    };
    let (recipient, exposed) = (summary.recipient.clone(), app.settings.is_exposed());
    let render = move || {
        Ok((
            message.source(&recipient, exposed)?,
            message.targets(),
            message.email,
        ))
    };
    let (source, tracked, email) = heavy::run(render).await?;
    Ok(Found {
        summary,
        authentication,
        email: Some(email),
        source,
        tracked,
    })
}

impl Found {
    fn into_message(self) -> Message {
        let parsed = Incoming::parse(&self.source);
        let MessageLinks { links, codes } = MessageLinks::of(&parsed, &self.tracked);
        let MessageSummary {
            id,
            direction,
            email_id,
            recipient,
            created_at,
            ..
        } = self.summary;
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
            size: self.source.len(),
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
