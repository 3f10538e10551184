//! Dry runs, and logs of requests: the request that a call would send or has sent.

use std::io;

use http::HeaderValue;
use http::header::CONTENT_LENGTH;

use super::request::{Options, Payload, Request};
use super::target::Target;
use crate::names::debug_fields;

/// The request of a call, with secrets in its headers masked. Returned by
/// [`Call::to_request`](crate::Call::to_request), and by
/// [`Attempt::request`](crate::Attempt::request).
#[derive(Clone)]
#[non_exhaustive]
pub struct RequestPreview {
    /// The HTTP method.
    pub method: String,
    /// The full URL.
    pub url: String,
    /// The headers, including `Host` and `Content-Length`, without those of a header hook.
    ///
    /// The API key is replaced by its documented prefix and `***`, the values of
    /// `Authorization`, `Proxy-Authorization` and `Cookie` by `***`.
    pub headers: Vec<(String, String)>,
    payload: Payload,
}

impl RequestPreview {
    pub(super) fn new(target: &Target, request: &Request, options: &Options) -> Self {
        let url = target.url(&request.path);
        let host = url[url::Position::BeforeHost..url::Position::AfterPort].to_owned();
        let mut headers = vec![("host".to_owned(), host)];
        let has_body = !matches!(request.payload, Payload::Empty);
        for (name, value) in &target.headers(request, options) {
            if *name != CONTENT_LENGTH || !has_body {
                headers.push((name.as_str().to_owned(), shown(value)));
            }
        }

        headers.push((target.key_header.as_str().to_owned(), masked_key(target)));
        if has_body {
            headers.push((
                "content-length".to_owned(),
                request.payload.length().to_string(),
            ));
        }

        Self {
            method: request.method.as_str().to_owned(),
            url: url.as_str().to_owned(),
            headers,
            payload: request.payload.clone(),
        }
    }

    /// Length of the body in bytes; 0 if there is none.
    pub fn content_length(&self) -> u64 {
        self.payload.length()
    }

    /// Returns the body. It includes the attachments, so it may be large.
    ///
    /// # Errors
    ///
    /// If an attachment cannot be read.
    pub fn body(&self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        self.payload.write_to(&mut body)?;
        Ok(body)
    }
}

/// Keeps only the documented prefix of the key.
fn masked_key(target: &Target) -> String {
    let value = target.current_api_key();
    let value = value
        .as_ref()
        .ok()
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let prefix = target.key_form.prefix();
    let api_key = value.strip_prefix(prefix).unwrap_or_default();
    let known = ["sk_live_", "sk_test_"]
        .into_iter()
        .find(|prefix| api_key.starts_with(prefix));
    format!("{prefix}{}***", known.unwrap_or_default())
}

fn shown(value: &HeaderValue) -> String {
    if value.is_sensitive() {
        return "***".to_owned();
    }
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

debug_fields!(RequestPreview: method, url);
