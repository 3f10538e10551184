//! Checks that a diagnosis never panics, and reports a valid delivery as valid.
#![no_main]

use libfuzzer_sys::fuzz_target;
use webhook_verify::diagnose::{Case, Diagnosis};
use webhook_verify::{Extraction, ExtractionVerifier, Secret};

fuzz_target!(|input: (&[u8], &[u8], &[u8])| {
    let (header, secret, body) = input;
    let diagnosis = Case::<Extraction>::new(header, body, secret).old_secret(body).diagnose();
    let verifies = Secret::new(secret)
        .is_ok_and(|secret| ExtractionVerifier::new(secret).verify(header, body).is_ok());
    assert_eq!(diagnosis == Diagnosis::Verifies, verifies);
});
