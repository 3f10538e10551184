//! Checks that a signature header parses exactly if it has the documented format.
#![no_main]

use libfuzzer_sys::fuzz_target;
use webhook_verify::{Extraction, Mail, Scheme, Signature};

fuzz_target!(|header: &[u8]| {
    check::<Mail>(header, header);
    let digits = header.strip_prefix(b"sha256=").unwrap_or(b"not the prefix");
    check::<Extraction>(header, digits);
    assert!(Signature::<Mail>::from_header_values([header, header]).is_err());
});

fn check<S: Scheme>(header: &[u8], digits: &[u8]) {
    let valid = digits.len() == 64 && digits.iter().all(u8::is_ascii_hexdigit);
    match Signature::<S>::parse(header) {
        Ok(signature) => {
            assert!(valid);
            assert_eq!(signature.to_string().as_bytes(), header.to_ascii_lowercase());
        }
        Err(_) => assert!(!valid),
    }
}
