//! Open and click tracking: a pixel and redirect links in the HTML of an email.
//!
//! An email is tracked if a webhook subscribes to `email.opened` or `email.clicked`
//! when the email is accepted. Every recipient of a tracked email gets a message of
//! its own, because the pixel and the links contain the recipient's index.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::routing::get;
use http::header::{CACHE_CONTROL, LOCATION};
use http::{HeaderValue, Method, Response, StatusCode};
use serde_json::json;
use url::{Position, Url};

use crate::api::framework::response;
use crate::app::{App, Shared};
use crate::delivery::events;
use crate::mail::links;
use crate::model::compatibility::ErrorFormat;
use crate::model::error::ApiError;
use crate::model::event::Event;
use crate::model::status::Change;
use crate::model::tracking::Tracking;
use crate::runtime::heavy;
use crate::store::{Reader, emails, webhooks};

/// The base URL of the pixels and links in an email that was sent to this `host`, at which its
/// readers probably reach the server, too.
pub(crate) fn base_url(app: &App, host: Option<&str>) -> String {
    // Parsing leaves nothing in it that HTML could misread.
    let asked = host.and_then(|host| Url::parse(&format!("http://{host}")).ok());
    match asked.filter(|_| app.settings.public_url.is_none()) {
        Some(url) => url[Position::BeforeScheme..Position::BeforePath].to_owned(),
        None => app.settings.base_url(app.addresses.http),
    }
}

/// The tracking that the organization's webhooks subscribe to, if any.
pub(crate) fn for_organization(
    reader: Reader<'_>,
    organization: i64,
    base_url: &str,
) -> Result<Option<Tracking>, ApiError> {
    let subscribed = |event| -> Result<bool, ApiError> {
        Ok(!webhooks::subscribers(reader, organization, event)?.is_empty())
    };
    let (opens, clicks) = (subscribed(Event::EmailOpened)?, subscribed(Event::EmailClicked)?);
    let tracking = || Tracking { base_url: base_url.to_owned(), opens, clicks };
    Ok((opens || clicks).then(tracking))
}

/// Adds the routes of the pixels and the links.
pub(crate) fn routes(router: Router<Shared>) -> Router<Shared> {
    router
        .route("/t/o/{email}/{recipient}", get(open))
        .route("/t/c/{email}/{recipient}/{number}", get(click))
}

/// The path parameters, or an error if they are not UTF-8.
type PathResult<T> = Result<Path<T>, PathRejection>;

async fn open(
    State(app): State<Shared>,
    method: Method,
    path: PathResult<(String, String)>,
) -> Response<Body> {
    // Return the image even if the open cannot be recorded: a person may be looking at
    // the message.
    if let (Ok(Path((email, recipient))), Method::GET) = (path, method)
        && let Err(error) = record(&app, email, &recipient, Change::Opened, None).await
    {
        tracing::debug!(message = error.message(), "did not record an open");
    }
    let mut response = response::content("image/gif", PIXEL);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

async fn click(
    State(app): State<Shared>,
    method: Method,
    path: PathResult<(String, String, String)>,
) -> Response<Body> {
    let resolved = match path {
        Ok(Path((email, recipient, number))) => {
            // A HEAD request, such as one from a link checker, is not a click.
            resolve_link(&app, email, &recipient, &number, method == Method::GET).await
        }
        Err(_) => Err(ApiError::not_found("link")),
    };
    match resolved {
        Ok(url) => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::FOUND;
            let headers = response.headers_mut();
            headers.insert(LOCATION, url);
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response
        }
        Err(error) => response::error(&error, ErrorFormat::Nested),
    }
}

/// Returns the target of a link, which is always a URL from the email itself, and
/// records the click.
async fn resolve_link(
    app: &Shared,
    email: String,
    recipient: &str,
    number: &str,
    clicked: bool,
) -> Result<HeaderValue, ApiError> {
    let not_found = || ApiError::not_found("link");
    let number: usize = number.parse().map_err(|_| not_found())?;
    let position: usize = recipient.parse().map_err(|_| not_found())?;
    let id = email.clone();
    let html = app.store.read(move |reader| {
        let email = emails::find(reader, &id)?;
        let is_tracked = email.is_some_and(|email| {
            let clicks = email.tracking.is_some_and(|tracking| tracking.clicks);
            clicks && position < email.recipients.len()
        });
        Ok(if is_tracked { emails::content(reader, &id, false)?.html } else { None })
    });
    let html = html.await?.ok_or_else(not_found)?;
    let url = heavy::run_on(html.len(), move || Ok(links::targets(&html).nth(number))).await?;
    let url = url.ok_or_else(not_found)?;
    let location = HeaderValue::try_from(Url::parse(&url).map_err(|_| not_found())?.as_str());
    let location = location.map_err(|_| not_found())?;
    if clicked && let Err(error) = record(app, email, recipient, Change::Clicked, Some(url)).await {
        tracing::debug!(message = error.message(), "did not record a click");
    }
    Ok(location)
}

async fn record(
    app: &Shared,
    id: String,
    recipient: &str,
    change: Change,
    url: Option<String>,
) -> Result<(), ApiError> {
    let context = Arc::clone(app);
    let position: usize = recipient.parse().map_err(|_| ApiError::not_found("recipient"))?;
    let detail = url.map(|url| json!({"url": url}));
    app.store
        .write(move |tx| {
            let not_found = || ApiError::not_found("email");
            let mut email = emails::find(tx.reader(), &id)?.ok_or_else(not_found)?;
            let wanted = email.tracking.as_ref().is_some_and(|tracking| match change {
                Change::Clicked => tracking.clicks,
                _ => tracking.opens,
            });
            if !wanted || position >= email.recipients.len() {
                return Err(not_found());
            }
            events::apply(tx, &context, &mut email, position, change, detail.as_ref())?;
            emails::update(tx, &email)
        })
        .await
}

/// A transparent GIF of one pixel.
const PIXEL: &[u8] = b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff!\xf9\x04\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;";
