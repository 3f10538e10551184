//! Opens and clicks, from a real pixel and real redirect links. An email is
//! tracked where a webhook hears of it when the email is accepted; all others
//! go out as they were given.
//!
//! Each recipient of a tracked email gets a message of its own: the pixel and
//! the links name the recipient by its place among them.

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
use crate::email::stored;
use crate::engine::{Change, apply_event};
use crate::error::ApiError;
use crate::links;
use crate::switches::ErrorShape;
use crate::web::answer;
use crate::webhooks::Event;

/// What of an email is tracked, and at which address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tracking {
    base: String,
    opens: bool,
    clicks: bool,
}

impl Tracking {
    /// What the organization's webhooks want to hear of, if anything.
    pub(crate) fn wanted(app: &App, organization: i64) -> Option<Self> {
        let heard = |event| !app.webhooks.subscribers(organization, event).is_empty();
        let (opens, clicks) = (heard(Event::EmailOpened), heard(Event::EmailClicked));
        let base = base(app.addresses.get()?.http);
        (opens || clicks).then_some(Self { base, opens, clicks })
    }

    /// The HTML for one recipient, with its links led through the server and the
    /// pixel at its end.
    pub(crate) fn put_in(&self, email: &str, recipient: usize, html: &str) -> String {
        let base = &self.base;
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

/// Where a browser finds a server that listens there: at no `0.0.0.0`.
fn base(at: SocketAddr) -> String {
    if at.ip().is_unspecified() {
        return format!("http://localhost:{}", at.port());
    }
    format!("http://{at}")
}

/// Adds what the links and pixels in messages lead to.
pub(crate) fn routes(router: Router<Shared>) -> Router<Shared> {
    router
        .route("/t/o/{email}/{recipient}", get(open))
        .route("/t/c/{email}/{recipient}/{number}", get(click))
}

/// A path that is not UTF-8 names nothing.
type Named<T> = Result<Path<T>, PathRejection>;

async fn open(
    State(app): State<Shared>,
    method: Method,
    path: Named<(String, String)>,
) -> Response<Body> {
    // A picture is answered whatever comes of it: somebody looks at a message.
    if let (Ok(Path((email, recipient))), Method::GET) = (path, method)
        && let Err(error) = happened(&app, email, &recipient, Change::Opened, None).await
    {
        tracing::debug!(message = error.message(), "an open that was not counted");
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
    path: Named<(String, String, String)>,
) -> Response<Body> {
    let followed = match path {
        Ok(Path((email, recipient, number))) => {
            // Who only asks where it leads, as link checkers do, has clicked nothing.
            follow(&app, email, &recipient, &number, method == Method::GET).await
        }
        Err(_) => Err(ApiError::not_found("link")),
    };
    match followed {
        Ok(url) => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::FOUND;
            let headers = response.headers_mut();
            headers.insert(LOCATION, url);
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response
        }
        Err(error) => answer::error(&error, ErrorShape::Nested),
    }
}

/// Where the link of this number leads: only ever where the email itself says.
async fn follow(
    app: &Shared,
    email: String,
    recipient: &str,
    number: &str,
    clicked: bool,
) -> Result<HeaderValue, ApiError> {
    let gone = || ApiError::not_found("link");
    let number: usize = number.parse().map_err(|_| gone())?;
    let position: usize = recipient.parse().map_err(|_| gone())?;
    let id = email.clone();
    let html = app.store.read(move |connection| {
        let tracked = stored::find(connection, &id)?.is_some_and(|email| {
            position < email.recipients.len()
                && email.meta.tracking.is_some_and(|tracking| tracking.clicks)
        });
        Ok(if tracked { stored::content(connection, &id, false)?.html } else { None })
    });
    let html = html.await?.ok_or_else(gone)?;
    let url = links::nth(&html, number).ok_or_else(gone)?;
    let location = HeaderValue::try_from(url::Url::parse(&url).map_err(|_| gone())?.as_str());
    let location = location.map_err(|_| gone())?;
    if clicked && let Err(error) = happened(app, email, recipient, Change::Clicked, Some(url)).await
    {
        tracing::debug!(message = error.message(), "a click that was not counted");
    }
    Ok(location)
}

async fn happened(
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
            let gone = || ApiError::not_found("email");
            let mut email = stored::find(tx.connection(), &id)?.ok_or_else(gone)?;
            let wanted = email.meta.tracking.as_ref().is_some_and(|tracking| match change {
                Change::Clicked => tracking.clicks,
                _ => tracking.opens,
            });
            if !wanted || position >= email.recipients.len() {
                return Err(gone());
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
    fn links_lead_to_where_a_browser_finds_the_server() {
        let base = |at: &str| base(at.parse().expect("an address"));
        assert_eq!(base("127.0.0.1:80"), "http://127.0.0.1:80");
        assert_eq!(base("0.0.0.0:4080"), "http://localhost:4080");
        assert_eq!(base("[::]:4080"), "http://localhost:4080");
    }

    #[test]
    fn links_are_led_through_and_the_pixel_stands_last() {
        let tracking =
            Tracking { base: "http://127.0.0.1:1".to_owned(), opens: true, clicks: true };
        let html = r#"<HTML><body><a class=x href="https://a.test/?a=1&amp;b=2">A</a> <a href='mailto:x@y.test'>M</a><img src="https://a.test/i.png"><a href=http://b.test/>B</a></BODY></html>"#;
        assert_eq!(
            tracking.put_in("eml_1", 2, html),
            r#"<HTML><body><a class=x href="http://127.0.0.1:1/t/c/eml_1/2/0">A</a> <a href='mailto:x@y.test'>M</a><img src="https://a.test/i.png"><a href=http://127.0.0.1:1/t/c/eml_1/2/1>B</a><img src="http://127.0.0.1:1/t/o/eml_1/2" width="1" height="1" alt=""></BODY></html>"#
        );
        assert_eq!(links::nth(html, 0).as_deref(), Some("https://a.test/?a=1&b=2"));
        assert_eq!(links::nth(html, 1).as_deref(), Some("http://b.test/"));
        assert_eq!(links::nth(html, 2), None);
    }
}
