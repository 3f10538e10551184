//! One strict header grammar per scheme.

use proptest::prelude::*;
use webhook_verify::{Extraction, Mail, Signature, VerifyError};

const DIGITS: &str = "0123456789abcdef0123456789ABCDEF0123456789aBcDeF0123456789AbCdEf";

#[test]
fn either_case_of_the_digits_is_the_same_signature() {
    let signature = Signature::<Mail>::parse(DIGITS).unwrap();
    assert_eq!(signature.to_string(), DIGITS.to_lowercase());
    let signature = Signature::<Extraction>::parse(format!("sha256={DIGITS}")).unwrap();
    assert_eq!(signature.to_string(), format!("sha256={}", DIGITS.to_lowercase()));
}

#[test]
fn what_the_grammar_does_not_name_is_malformed() {
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
        // Digits elsewhere: Arabic-Indic, full width.
        format!("sha256={}\u{661}", &DIGITS[2..]),
        format!("sha256={}\u{ff11}", &DIGITS[3..]),
        format!("sha256={}", "\u{661}".repeat(32)),
        format!("\u{feff}sha256={DIGITS}"),
        format!("sha256={DIGITS}\u{a0}"),
    ];
    for header in malformed {
        let error = Signature::<Extraction>::parse(&header).unwrap_err();
        assert_eq!(error, VerifyError::MalformedSignature, "{header:?}");
        // The same without the prefix, for the scheme that has none.
        let header = header.strip_prefix("sha256=").unwrap_or(&header);
        if header != DIGITS {
            let error = Signature::<Mail>::parse(header).unwrap_err();
            assert_eq!(error, VerifyError::MalformedSignature, "{header:?}");
        }
    }
}

#[test]
fn exactly_one_line() {
    let none: [&str; 0] = [];
    let error = |lines: &[&str]| Signature::<Mail>::from_lines(lines).unwrap_err();
    assert_eq!(error(&none), VerifyError::MissingSignature);
    assert_eq!(error(&[DIGITS, DIGITS]), VerifyError::RepeatedSignature);
    assert_eq!(error(&[DIGITS, ""]), VerifyError::RepeatedSignature);
    assert_eq!(error(&[""]), VerifyError::MalformedSignature);
    assert!(Signature::<Mail>::from_lines([DIGITS]).is_ok());
}

proptest! {
    #[test]
    fn only_64_hex_digits(header: Vec<u8>) {
        let named = header.len() == 64 && header.iter().all(u8::is_ascii_hexdigit);
        prop_assert_eq!(Signature::<Mail>::parse(&header).is_ok(), named);
    }

    #[test]
    fn one_other_byte_spoils_it(at in 0..64_usize, byte: u8) {
        let mut header = DIGITS.as_bytes().to_vec();
        header[at] = byte;
        prop_assert_eq!(Signature::<Mail>::parse(&header).is_ok(), byte.is_ascii_hexdigit());
    }

    #[test]
    fn only_the_exact_prefix(prefix in "[ -~]{0,9}") {
        let header = format!("{prefix}{DIGITS}");
        prop_assert_eq!(Signature::<Extraction>::parse(header).is_ok(), prefix == "sha256=");
    }
}
