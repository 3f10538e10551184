//! Whatever a developer has before them: no panic, and what it says about a
//! delivery that verifies is that it verifies.
#![no_main]

use libfuzzer_sys::fuzz_target;
use webhook_verify::diagnose::{Diagnose, Finding};
use webhook_verify::{Extraction, ExtractionVerifier, Secret};

fuzz_target!(|input: (&[u8], &[u8], &[u8])| {
    let (header, secret, body) = input;
    let finding = Diagnose::<Extraction>::new(header, body, secret).old_secret(body).run();
    let verifies = Secret::new(secret)
        .is_ok_and(|secret| ExtractionVerifier::new(secret).verify(header, body).is_ok());
    assert_eq!(finding == Finding::Verifies, verifies);
});
