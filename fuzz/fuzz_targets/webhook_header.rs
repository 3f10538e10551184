//! Checks that a signature header parses exactly if it has the documented format.
#![no_main]

use libfuzzer_sys::fuzz_target;
use webhook_verify::{Service, Signature};

fuzz_target!(|header: &[u8]| {
    check(Service::Email, header, header);
    let digits = header.strip_prefix(b"sha256=").unwrap_or(b"not the prefix");
    check(Service::Extraction, header, digits);
    let twice = [("mail-signature", header), ("Mail-Signature", header)];
    assert!(Signature::from_headers(twice).is_err());
});

fn check(service: Service, header: &[u8], digits: &[u8]) {
    let valid = digits.len() == 64 && digits.iter().all(u8::is_ascii_hexdigit);
    match Signature::parse(service, header) {
        Ok(signature) => {
            assert!(valid);
            assert_eq!(
                signature.to_string().as_bytes(),
                header.to_ascii_lowercase()
            );
        }
        Err(_) => assert!(!valid),
    }
}
