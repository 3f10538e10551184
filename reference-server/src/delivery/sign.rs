//! Request headers of webhook deliveries, including the signature, as each service
//! documents them (`docs/email-service/events.md#signature`,
//! `docs/extraction-service/events.md#signature`).

use hmac::{Hmac, KeyInit as _, Mac as _};
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue};
use sha2::Sha256;
use svc_sdk::Service;

/// The headers of one attempt to deliver a body, which is given in parts.
pub(crate) fn headers(
    service: Service,
    secret: &str,
    event: &str,
    id: &str,
    attempt: i64,
    body: &[impl AsRef<[u8]>],
) -> HeaderMap {
    let signature = signature(secret, body);
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, HeaderValue::from_static(USER_AGENT_VALUE));
    let mut put = |name: &'static str, value: &str| {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    };
    match service {
        Service::Email => {
            put("mail-event", event);
            put("mail-delivery-id", id);
            put("mail-attempt", &attempt.to_string());
            put("mail-signature", &signature);
        }
        _ => {
            put("x-service-event", event);
            put("x-service-signature", &format!("sha256={signature}"));
        }
    }
    headers
}

const USER_AGENT_VALUE: &str = concat!("svc-reference-server/", env!("CARGO_PKG_VERSION"));

/// HMAC-SHA256 of the body, in hex.
fn signature(secret: &str, body: &[impl AsRef<[u8]>]) -> String {
    let mut mac =
        <Hmac<Sha256>>::new_from_slice(secret.as_bytes()).expect("HMAC accepts keys of any length");
    for part in body {
        mac.update(part.as_ref());
    }
    hex::encode(mac.finalize().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, case 2.
    #[test]
    fn the_signature_is_hmac_sha256() {
        assert_eq!(
            signature("Jefe", &["what do ya want ", "for nothing?"]),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    #[test]
    fn each_service_has_its_own_headers() {
        let email = headers(Service::Email, "s", "email.sent", "id", 2, &["{}"]);
        assert_eq!(email["mail-event"], "email.sent");
        assert_eq!(email["mail-attempt"], "2");
        assert_eq!(email["mail-signature"].len(), 64);
        assert!(!email.contains_key("x-service-event"));
        let extraction = headers(Service::Extraction, "s", "extraction.failed", "id", 1, &["{}"]);
        assert_eq!(extraction["x-service-event"], "extraction.failed");
        assert!(extraction["x-service-signature"].as_bytes().starts_with(b"sha256="));
        assert!(!extraction.contains_key("mail-signature"));
    }
}
