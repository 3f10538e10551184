//! A single message: its parts, source, HTML and links.

use axum::body::Body;
use http::Response;
use http::header::{CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};

use crate::api::framework::{ControlCall, memory};
use crate::app::Shared;
use crate::control::messages::{
    Authentication, Direction, Message, MessageAttachment, MessageLinks,
};
use crate::delivery::source;
use crate::mail::codes::codes;
use crate::mail::links::{self, Targets};
use crate::mail::mime::Incoming;
use crate::model::error::ApiError;
use crate::model::time::Millis;
use crate::runtime::heavy;
use crate::store::Reader;
use crate::store::emails;
use crate::store::messages;

impl MessageLinks {
    fn of(message: Option<&Incoming>, tracked: &Targets) -> Self {
        let html = message.and_then(|message| message.html.as_deref());
        let text = message.and_then(|message| message.text.as_deref());
        let subject = message.map(|message| &*message.subject);
        Self { links: links::links(html, text, tracked), codes: codes(subject, html, text) }
    }
}

pub(crate) async fn get(call: ControlCall) -> Result<Message, ApiError> {
    show(&call.data.app, call.data.organization, call.id()).await
}

/// Returns the message with its content.
pub(crate) async fn show(app: &Shared, organization: i64, id: String) -> Result<Message, ApiError> {
    let (found, source) = source(app, organization, id).await?;
    heavy::run(move || Ok(found.into_message(&source))).await
}

/// Returns the RFC 5322 source.
pub(crate) async fn raw(call: ControlCall) -> Result<Response<Body>, ApiError> {
    let (_, source) = source(&call.data.app, call.data.organization, call.id()).await?;
    Ok(typed("message/rfc822", source))
}

/// Returns the HTML part. A content security policy disables scripts and forms, because
/// the page has the same origin as the control interface.
pub(crate) async fn html(call: ControlCall) -> Result<Response<Body>, ApiError> {
    let (_, source) = source(&call.data.app, call.data.organization, call.id()).await?;
    let read = move || Ok(Incoming::parse(&source).and_then(|message| message.html));
    let html = heavy::run(read).await?.ok_or_else(|| ApiError::not_found("HTML part"))?;
    let mut page = typed("text/html; charset=utf-8", html.into_bytes());
    page.headers_mut().insert(CONTENT_SECURITY_POLICY, HTML_POLICY);
    Ok(page)
}

const HTML_POLICY: HeaderValue = HeaderValue::from_static(
    "sandbox allow-popups; default-src 'none'; img-src * data:; style-src * 'unsafe-inline'; font-src *",
);

/// Returns an attachment. Whatever its type is, a browser saves it, or shows it as an image, but
/// does not run it.
pub(crate) async fn attachment(call: ControlCall) -> Result<Response<Body>, ApiError> {
    let position = call.input.param("n").parse::<usize>().ok().and_then(|n| n.checked_sub(1));
    let (_, source) = source(&call.data.app, call.data.organization, call.id()).await?;
    let found = heavy::run(move || {
        let message = Incoming::parse(&source).unwrap_or_default();
        Ok(position.and_then(|position| message.attachments.into_iter().nth(position)))
    });
    let attachment = found.await?.ok_or_else(|| ApiError::not_found("attachment"))?;
    let mut response = typed("application/octet-stream", attachment.content);
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

/// Returns the links and the one-time codes of the message.
pub(crate) async fn links(call: ControlCall) -> Result<MessageLinks, ApiError> {
    let (found, source) = source(&call.data.app, call.data.organization, call.id()).await?;
    heavy::run(move || Ok(MessageLinks::of(Incoming::parse(&source).as_ref(), &found.tracked)))
        .await
}

/// A message without its source.
struct Found {
    id: String,
    recipient: String,
    created_at: Millis,
    /// The ID, the sender and the tags of the email, for an outgoing message.
    email: Option<(String, String, Map<String, Value>)>,
    authentication: Option<Authentication>,
    tracked: Targets,
}

/// Outgoing messages are rendered on demand; incoming ones are stored.
enum StoredSource {
    Outgoing(Box<source::Message>),
    Incoming(Vec<u8>),
}

/// Loads or renders a message, when there is memory for it.
async fn source(app: &Shared, organization: i64, id: String) -> Result<(Found, Vec<u8>), ApiError> {
    let message = id.clone();
    let size = app.store.read(move |reader| {
        let found = messages::find(reader, organization, &message)?;
        match found.and_then(|found| found.email) {
            Some(email) => emails::content_size(reader, &email),
            None => messages::source_size(reader, &message),
        }
    });
    memory::reserve_response(size.await?).await;
    let (mut found, stored) = app.store.read(move |reader| load(reader, organization, id)).await?;
    let source = match stored {
        StoredSource::Incoming(source) => source,
        StoredSource::Outgoing(message) => {
            let exposed = app.settings.is_exposed();
            let recipient = found.recipient.clone();
            let render = move || Ok((message.source(&recipient, exposed)?, message.targets()));
            let (source, targets) = heavy::run(render).await?;
            found.tracked = targets;
            source
        }
    };
    Ok((found, source))
}

fn load(
    reader: Reader<'_>,
    organization: i64,
    id: String,
) -> Result<(Found, StoredSource), ApiError> {
    let not_found = || ApiError::not_found("message");
    let Some(found) = messages::find(reader, organization, &id)? else {
        return Err(ApiError::not_found(&format!("message{}", messages::has_it(reader, &id)?)));
    };
    let messages::Message { recipient, created_at, email, authentication, .. } = found;
    let authentication = authentication.and_then(|json| serde_json::from_str(&json).ok());
    let Some(email) = email else {
        let source = messages::source(reader, &id)?.ok_or_else(not_found)?;
        let found = Found {
            id,
            recipient,
            created_at,
            email: None,
            authentication,
            tracked: Targets::default(),
        };
        return Ok((found, StoredSource::Incoming(source)));
    };
    let message = source::Message::load(reader, &email)?.ok_or_else(not_found)?;
    let fields = &message.email.fields;
    let email = Some((email, fields.from.clone(), fields.tags.clone()));
    let found =
        Found { id, recipient, created_at, email, authentication, tracked: Targets::default() };
    Ok((found, StoredSource::Outgoing(Box::new(message))))
}

impl Found {
    fn into_message(self, source: &[u8]) -> Message {
        let parsed = Incoming::parse(source);
        let direction = Direction::of(self.email.as_ref().map(|(id, ..)| id));
        let MessageLinks { links, codes } = MessageLinks::of(parsed.as_ref(), &self.tracked);
        // A source that cannot be parsed has no content.
        let parsed = parsed.unwrap_or_default();
        let (email_id, from, tags) = match self.email {
            Some((id, from, tags)) => (Some(id), from, Some(tags)),
            None => (None, parsed.from, None),
        };
        let attachments = parsed.attachments.into_iter().map(|attachment| MessageAttachment {
            filename: attachment.filename,
            content_type: attachment.content_type,
            content_id: attachment.content_id,
            size: attachment.size,
        });
        Message {
            id: self.id,
            direction,
            email_id,
            from,
            tags,
            recipient: self.recipient,
            created_at: self.created_at.into(),
            authentication: self.authentication,
            size: source.len(),
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

fn typed(content_type: &'static str, body: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
