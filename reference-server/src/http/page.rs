//! The page at `/`, which shows people what the control interface offers to programs. Its files
//! are in `page/`, and part of the binary.

use std::sync::LazyLock;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::HeaderValue;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use sha2::{Digest as _, Sha256};

use crate::app::Shared;
use crate::http::Input;
use crate::http::auth::guard_host;
use crate::http::error::ApiError;
use crate::model::{Failure, Result};

/// Adds the routes of the page. Its files hold no data, so they need no control token: the
/// page asks for it.
pub(crate) fn routes(mut router: Router<Shared>) -> Router<Shared> {
    for (path, content) in ASSETS {
        let content_type = mime_guess::from_path(path).first_raw();
        let content_type = content_type.unwrap_or("text/html; charset=utf-8");
        let handler = move |State(app): State<Shared>, request: Request| async move {
            guard_host(&app, &request.into_parts().0)?;
            let headers = [
                (CONTENT_TYPE, HeaderValue::from_static(content_type)),
                (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
                (CONTENT_SECURITY_POLICY, PAGE_POLICY.clone()),
                // A form in the page must send its origin.
                (REFERRER_POLICY, HeaderValue::from_static("same-origin")),
                (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
                (OPENER_POLICY, HeaderValue::from_static("same-origin")),
            ];
            Ok::<_, ApiError>((headers, content))
        };
        router = router.route(path, get(handler));
    }
    router.route("/page/preview", post(preview))
}

/// Returns the HTML of a form, which the page shows in a frame. A frame that the page filled
/// itself would have the policy of the page; this one has its own, without scripts, without the
/// page's origin and, unless the query is `remote=1`, without content from elsewhere.
async fn preview(
    State(app): State<Shared>,
    request: Request,
) -> Result<impl IntoResponse, ApiError> {
    let (parts, body) = request.into_parts();
    guard_host(&app, &parts)?;
    let remote = parts.uri.query() == Some("remote=1");
    let body = Input::receive(app, parts, Vec::new(), body).await.bytes()?;
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (
            CONTENT_SECURITY_POLICY,
            if remote {
                REMOTE_PREVIEW_POLICY
            } else {
                PREVIEW_POLICY
            },
        ),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
    ];
    Ok((headers, html(&body)?))
}

pub(crate) const PREVIEW_POLICY: &str = "sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none'; \
     style-src 'unsafe-inline'; img-src data:; font-src data:; form-action 'none'; \
     frame-ancestors 'self'";
const REMOTE_PREVIEW_POLICY: &str = "sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none'; \
     style-src 'unsafe-inline' http: https:; img-src data: http: https:; \
     font-src data: http: https:; media-src http: https:; form-action 'none'; \
     frame-ancestors 'self'";

/// The field `html` of a form with the encoding `text/plain`, which is the only one.
fn html(form: &Bytes) -> Result<Bytes> {
    let html = form
        .strip_prefix(b"html=")
        .ok_or_else(|| Failure::field("html", "is required"))?;
    Ok(form.slice_ref(html.strip_suffix(b"\r\n").unwrap_or(html)))
}

const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const INDEX: &str = include_str!("../../page/index.html");

/// Scripts are those of `page/`, and the import map in `index.html`, which has to be inline.
static PAGE_POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let map = INDEX
        .split_once("<script type=\"importmap\">")
        .expect("index.html has an import map");
    let map = map.1.split("</script>").next().unwrap_or_default();
    let hash = STANDARD.encode(Sha256::digest(map));
    let policy = format!(
        "default-src 'none'; script-src 'self' 'sha256-{hash}'; style-src 'self'; img-src 'self' \
         data: blob:; connect-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; \
         frame-ancestors 'none'"
    );
    HeaderValue::try_from(policy).expect("printable")
});

macro_rules! assets {
    ($($file:literal),* $(,)?) => {
        [
            ("/", INDEX.as_bytes()),
            $((concat!("/page/", $file), include_bytes!(concat!("../../page/", $file)))),*
        ]
    };
}

const ASSETS: [(&str, &[u8]); 29] = assets![
    "app.js",
    "icon.svg",
    "lib/api.js",
    "lib/calls.js",
    "lib/data.js",
    "lib/frame.js",
    "lib/live.js",
    "lib/read.js",
    "lib/route.js",
    "lib/text.js",
    "lib/ui.js",
    "style.css",
    "vendor/htm.js",
    "vendor/preact-hooks.js",
    "vendor/preact.js",
    "views/audiences.js",
    "views/clock.js",
    "views/compatibility.js",
    "views/deliveries.js",
    "views/domains.js",
    "views/due.js",
    "views/emails.js",
    "views/faults.js",
    "views/keys.js",
    "views/mailbox.js",
    "views/requests.js",
    "views/templates.js",
    "views/webhooks.js",
];
