//! Checks that parsing any signed body never panics and agrees with `serde_json`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use webhook_verify::{Delivery, Rejection, Secret, Service, Signature, Verifier};

fuzz_target!(|body: &[u8]| {
    let secret = Secret::new("whsec_fuzz").unwrap();
    let signature = Signature::sign(Service::Extraction, &secret, body);
    let verifier = Verifier::extraction(secret);
    let value = serde_json::from_slice::<Value>(body);
    match verifier.verify_signature(&signature, body.to_vec()) {
        Ok(delivery) => {
            let event = delivery.event().as_str();
            // serde_json is stricter when it builds a value, because it validates numbers
            // and strings that it otherwise skips.
            if let Ok(value) = value {
                let text = |field: &str| value[field].as_str();
                assert_eq!(text("event").or_else(|| text("type")), Some(event));
                assert_eq!(delivery.data::<Value>().unwrap(), value["data"]);
                if let Some(id) = text("id") {
                    assert_eq!(delivery.id(), Some(id));
                }
            }
            let _ = delivery.created_at();
            let key = delivery.key();
            let body = delivery.body().clone();
            let stored = Delivery::from_storage(Service::Extraction, event, key, body);
            assert_eq!(
                (stored.id(), stored.data_json()),
                (delivery.id(), delivery.data_json())
            );
        }
        Err(Rejection::NotJson { .. }) => assert!(value.is_err()),
        Err(Rejection::Mismatch) => panic!("it is signed"),
        Err(_) => {}
    }
});
