//! Checks that parsing any signed body never panics and agrees with `serde_json`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use webhook_verify::{
    EnvelopeError, ExtractionSigner, ExtractionVerifier, HeaderEvent, Secret, Timestamp,
};

fuzz_target!(|body: &[u8]| {
    let secret = Secret::new("whsec_fuzz").unwrap();
    let signature = ExtractionSigner::new(&secret).sign(body);
    let verified = ExtractionVerifier::new(secret).verify_signature(&signature, body).unwrap();
    let value = serde_json::from_slice::<Value>(body);
    match verified.with_event_header("from.header").into_delivery() {
        Ok(delivery) => {
            let event = delivery.event().as_str();
            // serde_json is stricter when it builds a value, because it validates numbers
            // and strings that it otherwise skips.
            if let Ok(value) = value {
                let text = |field: &str| value[field].as_str();
                let in_body = text("event").or_else(|| text("type"));
                assert_eq!(in_body.unwrap_or("from.header"), event);
                assert_eq!(*delivery.header_event() == HeaderEvent::Fallback, in_body.is_none());
                assert_eq!(delivery.created(), text("created"));
                assert_eq!(delivery.data::<Value>().unwrap(), value["data"]);
                if let Some(id) = text("id") {
                    assert_eq!(delivery.id(), Some(id));
                }
            }
            let _ = delivery.key();
            let _ = delivery.check_age(Timestamp::from_unix_millis(0), std::time::Duration::MAX);
        }
        Err(EnvelopeError::NotJson { .. }) => assert!(value.is_err()),
        Err(EnvelopeError::NotAnObject) => assert!(!value.is_ok_and(|value| value.is_object())),
        Err(_) => {}
    }
});
