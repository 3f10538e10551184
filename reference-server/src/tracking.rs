//! Open and click tracking: a pixel and redirect links in the HTML of an email.
//!
//! An email is tracked if a webhook subscribes to `email.opened` or `email.clicked`
//! when the email is accepted. Every recipient of a tracked email gets a message of
//! its own, because the pixel and the links contain the recipient's index.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::routing::get;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, LOCATION};
use http::{HeaderValue, Method, Response, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::app::{App, Shared};
use crate::compatibility::ErrorFormat;
use crate::email::stored;
use crate::engine::{Change, apply_event};
use crate::error::ApiError;
use crate::links;
use crate::web::response;
use crate::webhooks::Event;

/// What is tracked of an email, and the base URL of the pixel and the links.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tracking {
    base_url: String,
    opens: bool,
    clicks: bool,
}

impl Tracking {
    /// The tracking that the organization's webhooks subscribe to, if any.
    pub(crate) fn for_organization(app: &App, organization: i64) -> Option<Self> {
        let subscribed = |event| !app.webhooks.subscribers(organization, event).is_empty();
        let (opens, clicks) = (subscribed(Event::EmailOpened), subscribed(Event::EmailClicked));
        let base_url = base_url(app.addresses.get()?.http);
        (opens || clicks).then_some(Self { base_url, opens, clicks })
    }

    /// Returns the HTML for one recipient: its links redirect through the server, and
    /// the pixel is at the end of the body.
    pub(crate) fn add_to(&self, email: &str, recipient: usize, html: &str) -> String {
        let base = &self.base_url;
        let mut tracked = if self.clicks {
            links::replace(html, |number| format!("{base}/t/c/{email}/{recipient}/{number}"))
        } else {
            html.to_owned()
        };
        if self.opens {
            let url = format!("{base}/t/o/{email}/{recipient}");
            let pixel = format!(r#"<img src="{url}" width="1" height="1" alt="">"#);
            let end = tracked.to_ascii_lowercase().rfind("</body").unwrap_or(tracked.len());
            tracked.insert_str(end, &pixel);
        }
        tracked
    }
}

/// The base URL for a browser: `localhost` if the server listens on all addresses.
fn base_url(addr: SocketAddr) -> String {
    if addr.ip().is_unspecified() {
        return format!("http://localhost:{}", addr.port());
    }
    format!("http://{addr}")
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
    let mut response = Response::new(Body::from(PIXEL));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("image/gif"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
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
    let html = app.store.read(move |connection| {
        let tracked = stored::find(connection, &id)?.is_some_and(|email| {
            position < email.recipients.len()
                && email.meta.tracking.is_some_and(|tracking| tracking.clicks)
        });
        Ok(if tracked { stored::content(connection, &id, false)?.html } else { None })
    });
    let html = html.await?.ok_or_else(not_found)?;
    // The HTML may be large, and anyone can follow a link.
    let found = tokio::task::spawn_blocking(move || links::nth(&html, number)).await;
    let url = found.map_err(ApiError::internal)?.ok_or_else(not_found)?;
    let location = HeaderValue::try_from(url::Url::parse(&url).map_err(|_| not_found())?.as_str());
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
            let mut email = stored::find(tx.connection(), &id)?.ok_or_else(not_found)?;
            let wanted = email.meta.tracking.as_ref().is_some_and(|tracking| match change {
                Change::Clicked => tracking.clicks,
                _ => tracking.opens,
            });
            if !wanted || position >= email.recipients.len() {
                return Err(not_found());
            }
            apply_event(tx, &context, &mut email, position, change, detail.as_ref())?;
            stored::update(tx, &email)
        })
        .await
}

/// A transparent GIF of one pixel.
const PIXEL: &[u8] = b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff!\xf9\x04\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_url_is_reachable_from_a_browser() {
        let base = |addr: &str| base_url(addr.parse().expect("an address"));
        assert_eq!(base("127.0.0.1:80"), "http://127.0.0.1:80");
        assert_eq!(base("0.0.0.0:4080"), "http://localhost:4080");
        assert_eq!(base("[::]:4080"), "http://localhost:4080");
    }

    #[test]
    fn redirects_links_and_appends_the_pixel() {
        let tracking =
            Tracking { base_url: "http://127.0.0.1:1".to_owned(), opens: true, clicks: true };
        let html = r#"<HTML><body><a class=x href="https://a.test/?a=1&amp;b=2">A</a> <a href='mailto:x@y.test'>M</a><img src="https://a.test/i.png"><a href=http://b.test/>B</a></BODY></html>"#;
        assert_eq!(
            tracking.add_to("eml_1", 2, html),
            r#"<HTML><body><a class=x href="http://127.0.0.1:1/t/c/eml_1/2/0">A</a> <a href='mailto:x@y.test'>M</a><img src="https://a.test/i.png"><a href=http://127.0.0.1:1/t/c/eml_1/2/1>B</a><img src="http://127.0.0.1:1/t/o/eml_1/2" width="1" height="1" alt=""></BODY></html>"#
        );
        assert_eq!(links::nth(html, 0).as_deref(), Some("https://a.test/?a=1&b=2"));
        assert_eq!(links::nth(html, 1).as_deref(), Some("http://b.test/"));
        assert_eq!(links::nth(html, 2), None);
    }
}
