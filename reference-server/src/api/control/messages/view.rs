//! A single message: its parts, source, HTML and links.

use std::sync::Arc;

use axum::body::Body;
use http::Response;
use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::api::app::Shared;
use crate::api::control::{organization, organization_param};
use crate::api::framework::{Input, Json};
use crate::delivery::source::Message;
use crate::mail::links::{self, Link};
use crate::mail::mime::Incoming;
use crate::model::error::ApiError;
use crate::model::memory;
use crate::model::schema;
use crate::model::time::{self, Millis};
use crate::store::Reader;
use crate::store::emails;
use crate::store::messages;

/// A message with its content.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Message")]
pub(crate) struct View {
    id: String,
    #[schemars(extend("enum" = ["outgoing", "incoming"]))]
    direction: &'static str,
    /// Only for an outgoing message.
    #[serde(skip_serializing_if = "Option::is_none")]
    email_id: Option<String>,
    from: String,
    /// Only for an outgoing message.
    #[serde(skip_serializing_if = "Option::is_none")]
    tags: Option<Map<String, Value>>,
    recipient: String,
    #[schemars(with = "schema::Time")]
    created_at: String,
    /// Size of the source, in bytes.
    size: usize,
    /// Absent if the source cannot be parsed.
    #[serde(flatten)]
    parts: Option<Parts>,
}

#[derive(Serialize, JsonSchema)]
struct Parts {
    to: Vec<String>,
    cc: Vec<String>,
    subject: String,
    text: Option<String>,
    html: Option<String>,
    headers: Map<String, Value>,
    attachments: Vec<Attachment>,
    #[serde(flatten)]
    links: Links,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "MessageAttachment")]
struct Attachment {
    filename: Option<String>,
    content_type: String,
    content_id: Option<String>,
    /// In bytes.
    size: usize,
}

/// The links and the one-time codes of a message.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "MessageLinks")]
pub(crate) struct Links {
    links: Vec<Link>,
    codes: Vec<String>,
}

pub(crate) async fn get(input: Input) -> Result<Json<View>, ApiError> {
    let (organization, id) = find(&input).await?;
    show(&input.app, organization, id).await
}

/// Returns the message with its content.
pub(crate) async fn show(
    app: &Shared,
    organization: i64,
    id: String,
) -> Result<Json<View>, ApiError> {
    let (found, source) = source(app, organization, id).await?;
    blocking(move || Json::of(&found.into_view(&source))).await
}

/// Returns the RFC 5322 source.
pub(crate) async fn raw(input: Input) -> Result<Response<Body>, ApiError> {
    let (organization, id) = find(&input).await?;
    let (_, source) = source(&input.app, organization, id).await?;
    Ok(typed("message/rfc822", source))
}

/// Returns the HTML part. A content security policy disables scripts and forms, because
/// the page has the same origin as the control interface.
pub(crate) async fn html(input: Input) -> Result<Response<Body>, ApiError> {
    let (organization, id) = find(&input).await?;
    let (_, source) = source(&input.app, organization, id).await?;
    let html = blocking(move || Ok(Incoming::parse(&source).and_then(|message| message.html)));
    let html = html.await?.ok_or_else(|| ApiError::not_found("HTML part"))?;
    let mut page = typed("text/html; charset=utf-8", html.into_bytes());
    page.headers_mut().insert(CONTENT_SECURITY_POLICY, HTML_POLICY);
    Ok(page)
}

const HTML_POLICY: HeaderValue = HeaderValue::from_static(
    "sandbox allow-popups; default-src 'none'; img-src * data:; style-src * 'unsafe-inline'; font-src *",
);

/// Returns the links and the one-time codes of the message.
pub(crate) async fn links(input: Input) -> Result<Json<Links>, ApiError> {
    let (organization, id) = find(&input).await?;
    let (_, source) = source(&input.app, organization, id).await?;
    let found = blocking(move || {
        let message = Incoming::parse(&source);
        let (html, text) = message.map(|message| (message.html, message.text)).unwrap_or_default();
        let (html, text) = (html.as_deref(), text.as_deref());
        Ok(Links { links: links::links(html, text), codes: links::codes(html, text) })
    });
    Json::of(&found.await?)
}

/// Returns the organization and the message ID of the request, or 404 if the organization
/// has no such message.
async fn find(input: &Input) -> Result<(i64, String), ApiError> {
    let (app, id) = (Arc::clone(&input.app), input.id().to_owned());
    let name = organization_param(input);
    let found = input.app.store.read(move |reader| {
        let organization = organization(reader, &app.settings, name.as_deref())?;
        let found = messages::find(reader, organization, &id)?;
        Ok(found.map(|message| (organization, message.id)))
    });
    found.await?.ok_or_else(|| ApiError::not_found("message"))
}

/// A message without its source.
struct Found {
    id: String,
    recipient: String,
    created_at: Millis,
    /// The ID, the sender and the tags of the email, for an outgoing message.
    email: Option<(String, String, Map<String, Value>)>,
}

/// Outgoing messages are rendered on demand; incoming ones are stored.
enum StoredSource {
    Outgoing(Box<Message>),
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
    memory::reserve_response(organization, size.await?).await;
    let (found, stored) = app.store.read(move |reader| load(reader, organization, id)).await?;
    let source = match stored {
        StoredSource::Incoming(source) => source,
        StoredSource::Outgoing(message) => {
            let exposed = app.settings.is_exposed();
            let recipient = found.recipient.clone();
            blocking(move || message.source(&recipient, exposed)).await?
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
    let found = messages::find(reader, organization, &id)?.ok_or_else(not_found)?;
    let messages::Message { recipient, created_at, email, .. } = found;
    let Some(email) = email else {
        let source = messages::source(reader, &id)?.ok_or_else(not_found)?;
        let found = Found { id, recipient, created_at, email: None };
        return Ok((found, StoredSource::Incoming(source)));
    };
    let message = Message::load(reader, &email)?.ok_or_else(not_found)?;
    let meta = &message.email.meta;
    let email = Some((email, meta.from.clone(), meta.tags.clone()));
    Ok((Found { id, recipient, created_at, email }, StoredSource::Outgoing(Box::new(message))))
}

impl Found {
    fn into_view(self, source: &[u8]) -> View {
        let parsed = Incoming::parse(source);
        let direction = if self.email.is_some() { "outgoing" } else { "incoming" };
        let (email_id, from, tags) = match self.email {
            Some((id, from, tags)) => (Some(id), from, Some(tags)),
            None => {
                let from = parsed.as_ref().and_then(|message| message.from.clone());
                (None, from.unwrap_or_default(), None)
            }
        };
        View {
            id: self.id,
            direction,
            email_id,
            from,
            tags,
            recipient: self.recipient,
            created_at: time::rfc3339(self.created_at),
            size: source.len(),
            parts: parsed.map(Parts::from_message),
        }
    }
}

impl Parts {
    fn from_message(message: Incoming) -> Self {
        let (html, text) = (message.html.as_deref(), message.text.as_deref());
        let links = Links { links: links::links(html, text), codes: links::codes(html, text) };
        let attachments = message.attachments.into_iter().map(|attachment| Attachment {
            filename: attachment.filename,
            content_type: attachment.content_type,
            content_id: attachment.content_id,
            size: attachment.content.len(),
        });
        Self {
            to: message.to,
            cc: message.cc,
            subject: message.subject.unwrap_or_default(),
            headers: message.headers,
            attachments: attachments.collect(),
            text: message.text,
            html: message.html,
            links,
        }
    }
}

fn typed(content_type: &'static str, body: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(ApiError::internal(error)))
}
