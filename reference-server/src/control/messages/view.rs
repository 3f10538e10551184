//! One message: its parts, its source, its HTML, its links.

use std::sync::Arc;

use axum::body::Body;
use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::{Response, StatusCode};
use rusqlite::Connection;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::super::{Reply, json as reply, organization, organization_of_query};
use crate::app::Shared;
use crate::email::source::Message;
use crate::error::ApiError;
use crate::links::{self, Link};
use crate::mime::Incoming;
use crate::openapi::schema;
use crate::store;
use crate::time::{self, Millis};
use crate::web::Input;

/// A message with all that is in it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Message")]
pub(crate) struct View {
    id: String,
    #[schemars(extend("enum" = ["outgoing", "incoming"]))]
    direction: &'static str,
    /// Of an outgoing one.
    #[serde(skip_serializing_if = "Option::is_none")]
    email_id: Option<String>,
    from: String,
    /// Of an outgoing one.
    #[serde(skip_serializing_if = "Option::is_none")]
    tags: Option<Map<String, Value>>,
    recipient: String,
    #[schemars(with = "schema::Time")]
    created_at: String,
    /// Of the source, in bytes.
    size: usize,
    /// Not there where the source cannot be read as a message.
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

/// The links of a message, and the one-time codes in it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "MessageLinks")]
pub(crate) struct Links {
    links: Vec<Link>,
    codes: Vec<String>,
}

pub(in super::super) async fn get(input: Input) -> Reply {
    let (organization, id) = own(&input).await?;
    show(&input.app, organization, id).await
}

/// The message with all that is in it.
pub(super) async fn show(app: &Shared, organization: i64, id: String) -> Reply {
    let (found, source) = source(app, organization, id).await?;
    let shown = blocking(move || Ok(found.show(&source))).await?;
    reply(StatusCode::OK, &shown)
}

/// The RFC 5322 source.
pub(in super::super) async fn raw(input: Input) -> Reply {
    let (organization, id) = own(&input).await?;
    let (_, source) = source(&input.app, organization, id).await?;
    Ok(typed("message/rfc822", source))
}

/// The HTML part, as a page that can do nothing but be looked at: it comes
/// from the same address as the control interface.
pub(in super::super) async fn html(input: Input) -> Reply {
    let (organization, id) = own(&input).await?;
    let (_, source) = source(&input.app, organization, id).await?;
    let html = blocking(move || Ok(Incoming::parse(&source).and_then(|message| message.html)));
    let html = html.await?.ok_or_else(|| ApiError::not_found("HTML part"))?;
    let mut page = typed("text/html; charset=utf-8", html.into_bytes());
    page.headers_mut().insert(CONTENT_SECURITY_POLICY, LOOK_ONLY);
    Ok(page)
}

const LOOK_ONLY: HeaderValue = HeaderValue::from_static(
    "sandbox allow-popups; default-src 'none'; img-src * data:; style-src * 'unsafe-inline'; font-src *",
);

/// The links of the message, and the one-time codes in it.
pub(in super::super) async fn links(input: Input) -> Reply {
    let (organization, id) = own(&input).await?;
    let (_, source) = source(&input.app, organization, id).await?;
    let found = blocking(move || {
        let message = Incoming::parse(&source);
        let (html, text) = message.map(|message| (message.html, message.text)).unwrap_or_default();
        let (html, text) = (html.as_deref(), text.as_deref());
        Ok(Links { links: links::links(html, text), codes: links::codes(html, text) })
    });
    reply(StatusCode::OK, &found.await?)
}

/// The organization that is meant, and the id of the path where it is a message of it.
async fn own(input: &Input) -> Result<(i64, String), ApiError> {
    let (app, id) = (Arc::clone(&input.app), input.id().to_owned());
    let named = organization_of_query(input);
    let found = input.app.store.read(move |connection| {
        let organization = organization(connection, &app.settings, named.as_deref())?;
        let sql = "SELECT id FROM message WHERE organization = ?1 AND id = ?2";
        Ok(store::find(connection, sql, (organization, &id), |row| {
            Ok((organization, row.get(0)?))
        })?)
    });
    found.await?.ok_or_else(|| ApiError::not_found("message"))
}

/// What the database says of a message beside its source.
struct Found {
    id: String,
    recipient: String,
    created_at: Millis,
    /// Of an outgoing one: the email's id, its sender and its tags.
    email: Option<(String, String, Map<String, Value>)>,
}

enum Kept {
    Outgoing(Box<Message>),
    Incoming(Vec<u8>),
}

async fn source(app: &Shared, organization: i64, id: String) -> Result<(Found, Vec<u8>), ApiError> {
    let (found, kept) =
        app.store.read(move |connection| load(connection, organization, id)).await?;
    let source = match kept {
        Kept::Incoming(source) => source,
        Kept::Outgoing(message) => {
            let open = app.settings.is_open();
            let recipient = found.recipient.clone();
            blocking(move || message.source(&recipient, open)).await?
        }
    };
    Ok((found, source))
}

fn load(connection: &Connection, organization: i64, id: String) -> Result<(Found, Kept), ApiError> {
    let gone = || ApiError::not_found("message");
    let sql =
        "SELECT recipient, created_at, email FROM message WHERE organization = ?1 AND id = ?2";
    let row = store::find(connection, sql, (organization, &id), |row| {
        Ok((row.get(0)?, row.get(1)?, row.get::<_, Option<String>>(2)?))
    })?;
    let (recipient, created_at, email) = row.ok_or_else(gone)?;
    let Some(email) = email else {
        let sql = "SELECT source FROM message_source WHERE message = ?1";
        let source = store::find(connection, sql, [&id], |row| row.get(0))?.ok_or_else(gone)?;
        return Ok((Found { id, recipient, created_at, email: None }, Kept::Incoming(source)));
    };
    let message = Message::load(connection, &email)?.ok_or_else(gone)?;
    let meta = &message.email.meta;
    let email = Some((email, meta.from.clone(), meta.tags.clone()));
    Ok((Found { id, recipient, created_at, email }, Kept::Outgoing(Box::new(message))))
}

impl Found {
    fn show(self, source: &[u8]) -> View {
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
            parts: parsed.map(Parts::of),
        }
    }
}

impl Parts {
    fn of(message: Incoming) -> Self {
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
