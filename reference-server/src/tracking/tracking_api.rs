//! Open and click tracking: a pixel and redirect links in the HTML of an email.
//!
//! An email is tracked if a webhook subscribes to `email.opened` or `email.clicked`
//! when the email is accepted. Every recipient of a tracked email gets a message of
//! its own, because the pixel and the links contain the recipient's index.

use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use axum::routing::get;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, LOCATION};
use http::{Method, StatusCode};
use serde_json::json;
use url::Url;

use crate::app::Shared;
use crate::emails::email_rows::{self, StoredEmail};
use crate::emails::email_rules;
use crate::http::ApiError;
use crate::mail::links;
use crate::model::{Change, Failure, Result};
use crate::runtime::heavy;

/// Adds the routes of the pixels and the links.
pub(crate) fn routes(router: Router<Shared>) -> Router<Shared> {
    router
        .route("/t/o/{email}/{recipient}", get(open))
        .route("/t/c/{email}/{recipient}/{number}", get(click))
}

async fn open(
    State(app): State<Shared>,
    method: Method,
    path: Result<Path<(String, usize)>, PathRejection>,
) -> impl IntoResponse {
    // Return the image even if the open cannot be recorded: a person may be looking at
    // the message.
    if let (Ok(Path((email, recipient))), Method::GET) = (path, method)
        && let Err(error) = record(&app, email, recipient, Change::Opened, None).await
    {
        tracing::debug!(message = error.message(), "did not record an open");
    }
    (
        [(CONTENT_TYPE, "image/gif"), (CACHE_CONTROL, "no-store")],
        PIXEL,
    )
}

/// Redirects to the target of a link, which is always a URL from the email itself, and records the
/// click.
async fn click(
    State(app): State<Shared>,
    method: Method,
    path: Result<Path<(String, usize, usize)>, PathRejection>,
) -> Result<impl IntoResponse, ApiError> {
    let not_found = || Failure::not_found("link");
    let Path((id, recipient, number)) = path.map_err(|_| not_found())?;
    let wanted = id.clone();
    let html = app.store.read(move |reader| {
        let email = email_rows::find(reader, &wanted)?;
        let is_tracked = email.is_some_and(|email| email.tracks(recipient, Change::Clicked));
        Ok(if is_tracked {
            email_rows::content(reader, &wanted, false)?.html
        } else {
            None
        })
    });
    let html = html.await?.ok_or_else(not_found)?;
    let url = heavy::run_on(html.len(), move || Ok(links::targets(&html).nth(number))).await?;
    let url = url.ok_or_else(not_found)?;
    let location = Url::parse(&url).map_err(|_| not_found())?.to_string();
    // A HEAD request, such as one from a link checker, is not a click.
    if method == Method::GET
        && let Err(error) = record(&app, id, recipient, Change::Clicked, Some(url)).await
    {
        tracing::debug!(message = error.message(), "did not record a click");
    }

    let headers = [(LOCATION, location), (CACHE_CONTROL, "no-store".to_owned())];
    Ok((StatusCode::FOUND, headers))
}

async fn record(
    app: &Shared,
    id: String,
    recipient: usize,
    change: Change,
    url: Option<String>,
) -> Result<()> {
    let context = Arc::clone(app);
    let detail = url.map(|url| json!({"url": url}));
    let record = app.store.write(move |tx| {
        let email = email_rows::find(tx.reader(), &id)?;
        let email = email.filter(|email| email.tracks(recipient, change));
        let mut email = email.ok_or_else(|| Failure::not_found("email"))?;
        email_rules::apply(tx, &context, &mut email, recipient, change, detail.as_ref())?;
        email_rows::update(tx, &email)
    });
    record.await
}

impl StoredEmail {
    /// Whether this change of this recipient is tracked.
    fn tracks(&self, recipient: usize, change: Change) -> bool {
        let is_wanted = self.tracking.as_ref().is_some_and(|tracking| match change {
            Change::Clicked => tracking.clicks,
            _ => tracking.opens,
        });
        is_wanted && recipient < self.recipients.len()
    }
}

/// A transparent GIF of one pixel.
const PIXEL: &[u8] = b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff!\xf9\x04\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;";
