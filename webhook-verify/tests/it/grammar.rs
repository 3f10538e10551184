//! The strict format of the signature headers.

use proptest::prelude::*;
use webhook_verify::{Extraction, Mail, Signature, VerifyError};

const DIGITS: &str = "0123456789abcdef0123456789ABCDEF0123456789aBcDeF0123456789AbCdEf";

#[test]
fn hex_digits_are_case_insensitive() {
    let signature = Signature::<Mail>::parse(DIGITS).unwrap();
    assert_eq!(signature.to_string(), DIGITS.to_lowercase());
    let signature = Signature::<Extraction>::parse(format!("sha256={DIGITS}")).unwrap();
    assert_eq!(signature.to_string(), format!("sha256={}", DIGITS.to_lowercase()));
}

#[test]
fn rejects_malformed_headers() {
    let malformed = [
        String::new(),
        "sha256=".to_owned(),
        format!("SHA256={DIGITS}"),
        format!("Sha256={DIGITS}"),
        format!("md5={DIGITS}"),
        format!("sha1={DIGITS}"),
        format!("sha512={DIGITS}"),
        format!("sha256:{DIGITS}"),
        format!("sha256 ={DIGITS}"),
        format!("sha256= {DIGITS}"),
        format!(" sha256={DIGITS}"),
        format!("sha256={DIGITS} "),
        format!("sha256={DIGITS}\n"),
        format!("sha256=\"{DIGITS}\""),
        format!("sha256={DIGITS},sha256={DIGITS}"),
        format!("sha256={DIGITS}, {DIGITS}"),
        format!("sha256=sha256={DIGITS}"),
        format!("v1={DIGITS}"),
        format!("sha256={}", &DIGITS[1..]),
        format!("sha256={DIGITS}0"),
        format!("sha256=0x{}", &DIGITS[2..]),
        format!("sha256={}g", &DIGITS[1..]),
        format!("sha256={}ü", &DIGITS[2..]),
        format!("sha256={}\0", &DIGITS[1..]),
        format!("sha256={DIGITS}\0"),
        format!("\0sha256={DIGITS}"),
        // Non-ASCII digits: Arabic-Indic and full-width.
        format!("sha256={}\u{661}", &DIGITS[2..]),
        format!("sha256={}\u{ff11}", &DIGITS[3..]),
        format!("sha256={}", "\u{661}".repeat(32)),
        format!("\u{feff}sha256={DIGITS}"),
        format!("sha256={DIGITS}\u{a0}"),
    ];
    for header in malformed {
        let error = Signature::<Extraction>::parse(&header).unwrap_err();
        assert_eq!(error, VerifyError::MalformedSignature, "{header:?}");
        // The same without the prefix, for the scheme without one.
        let header = header.strip_prefix("sha256=").unwrap_or(&header);
        if header != DIGITS {
            let error = Signature::<Mail>::parse(header).unwrap_err();
            assert_eq!(error, VerifyError::MalformedSignature, "{header:?}");
        }
    }
}

#[test]
fn requires_exactly_one_header() {
    let none: [&str; 0] = [];
    let error = |values: &[&str]| Signature::<Mail>::from_header_values(values).unwrap_err();
    assert_eq!(error(&none), VerifyError::MissingSignature);
    assert_eq!(error(&[DIGITS, DIGITS]), VerifyError::DuplicateSignature);
    assert_eq!(error(&[DIGITS, ""]), VerifyError::DuplicateSignature);
    assert_eq!(error(&[""]), VerifyError::MalformedSignature);
    assert!(Signature::<Mail>::from_header_values([DIGITS]).is_ok());
}

proptest! {
    #[test]
    fn accepts_exactly_64_hex_digits(header: Vec<u8>) {
        let valid = header.len() == 64 && header.iter().all(u8::is_ascii_hexdigit);
        prop_assert_eq!(Signature::<Mail>::parse(&header).is_ok(), valid);
    }

    #[test]
    fn rejects_any_byte_that_is_not_a_hex_digit(at in 0..64_usize, byte: u8) {
        let mut header = DIGITS.as_bytes().to_vec();
        header[at] = byte;
        prop_assert_eq!(Signature::<Mail>::parse(&header).is_ok(), byte.is_ascii_hexdigit());
    }

    #[test]
    fn accepts_only_the_exact_prefix(prefix in "[ -~]{0,9}") {
        let header = format!("{prefix}{DIGITS}");
        prop_assert_eq!(Signature::<Extraction>::parse(header).is_ok(), prefix == "sha256=");
    }
}
