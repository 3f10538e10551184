//! One message: its parts, its source, its HTML, its links.

use std::sync::Arc;

use axum::body::Body;
use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::{Response, StatusCode};
use rusqlite::Connection;
use serde_json::{Map, Value, json};

use super::super::{Reply, json as reply, organization, organization_of_query};
use crate::app::Shared;
use crate::email::source::Message;
use crate::error::ApiError;
use crate::links;
use crate::mime::Incoming;
use crate::store;
use crate::time::{self, Millis};
use crate::web::Input;

pub(in super::super) async fn get(input: Input) -> Reply {
    let id = own(&input).await?;
    show(&input.app, &id).await
}

/// The message with all that is in it.
pub(super) async fn show(app: &Shared, id: &str) -> Reply {
    let (found, source) = source(app, id).await?;
    let shown = blocking(move || Ok(found.show(&source))).await?;
    reply(StatusCode::OK, &shown)
}

/// The RFC 5322 source.
pub(in super::super) async fn raw(input: Input) -> Reply {
    let id = own(&input).await?;
    let (_, source) = source(&input.app, &id).await?;
    Ok(typed("message/rfc822", source))
}

/// The HTML part, as a page that can do nothing but be looked at: it comes
/// from the same address as the control interface.
pub(in super::super) async fn html(input: Input) -> Reply {
    let id = own(&input).await?;
    let (_, source) = source(&input.app, &id).await?;
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
    let id = own(&input).await?;
    let (_, source) = source(&input.app, &id).await?;
    let found = blocking(move || {
        let message = Incoming::parse(&source);
        let (html, text) = message.map(|message| (message.html, message.text)).unwrap_or_default();
        let (html, text) = (html.as_deref(), text.as_deref());
        Ok(json!({"links": links::links(html, text), "codes": links::codes(html, text)}))
    });
    reply(StatusCode::OK, &found.await?)
}

/// The id of the path, where it is a message of the organization that is meant.
async fn own(input: &Input) -> Result<String, ApiError> {
    let (app, id) = (Arc::clone(&input.app), input.id().to_owned());
    let named = organization_of_query(input);
    let found = input.app.store.read(move |connection| {
        let organization = organization(connection, &app.settings, named.as_deref())?;
        let sql = "SELECT id FROM message WHERE organization = ?1 AND id = ?2";
        Ok(store::find(connection, sql, (organization, &id), |row| row.get(0))?)
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

async fn source(app: &Shared, id: &str) -> Result<(Found, Vec<u8>), ApiError> {
    let id = id.to_owned();
    let (found, kept) = app.store.read(move |connection| load(connection, id)).await?;
    let source = match kept {
        Kept::Incoming(source) => source,
        Kept::Outgoing(message) => {
            let public = app.settings.public;
            blocking(move || message.source(public)).await?
        }
    };
    Ok((found, source))
}

fn load(connection: &Connection, id: String) -> Result<(Found, Kept), ApiError> {
    let gone = || ApiError::not_found("message");
    let sql = "SELECT recipient, created_at, email FROM message WHERE id = ?1";
    let row = store::find(connection, sql, [&id], |row| {
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
    fn show(&self, source: &[u8]) -> Value {
        let mut shown = Map::new();
        let mut put = |name: &str, value: Value| shown.insert(name.to_owned(), value);
        put("id", self.id.as_str().into());
        put("direction", if self.email.is_some() { "outgoing" } else { "incoming" }.into());
        let parsed = Incoming::parse(source);
        let parsed = parsed.as_ref();
        let sender = parsed.and_then(|message| message.from.clone());
        match &self.email {
            Some((id, from, tags)) => {
                put("emailId", id.as_str().into());
                put("from", from.as_str().into());
                put("tags", tags.clone().into());
            }
            None => {
                put("from", sender.unwrap_or_default().into());
            }
        }
        put("recipient", self.recipient.as_str().into());
        put("createdAt", time::rfc3339(self.created_at).into());
        put("size", source.len().into());
        if let Some(message) = parsed {
            let (html, text) = (message.html.as_deref(), message.text.as_deref());
            put("to", message.to.clone().into());
            put("cc", message.cc.clone().into());
            put("subject", message.subject.as_deref().unwrap_or_default().into());
            put("text", text.into());
            put("html", html.into());
            put("headers", message.headers.clone().into());
            let attachments = message.attachments.iter().map(|attachment| {
                json!({
                    "filename": attachment.filename,
                    "contentType": attachment.content_type,
                    "contentId": attachment.content_id,
                    "size": attachment.content.len(),
                })
            });
            put("attachments", attachments.collect());
            put("links", json!(links::links(html, text)));
            put("codes", json!(links::codes(html, text)));
        }
        Value::Object(shown)
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
