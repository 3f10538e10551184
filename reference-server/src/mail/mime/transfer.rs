//! Content transfer encodings, as damaged as they arrive.

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Decodes content in the transfer encoding of this name. With an unknown one, it stays as it is.
pub(super) fn decode<'x>(content: &'x [u8], encoding: &str) -> Cow<'x, [u8]> {
    match encoding {
        "base64" => base64(content).into(),
        "quoted-printable" => quoted_printable(content).into(),
        "uuencode" | "x-uuencode" | "uue" | "x-uue" => uuencoded(content).into(),
        _ => content.into(),
    }
}

/// How many digits are collected before they are decoded.
const MAX_DIGITS: usize = 1 << 16;

/// Ignores foreign characters. After padding, or an empty line, a line that has some is a footer,
/// which a mailing list added.
pub(super) fn base64(content: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(content.len() / 4 * 3);
    let mut digits = Vec::new();
    let mut may_end = false;
    for line in content.split(|&byte| byte == b'\n') {
        let line = line.trim_ascii();
        if line.is_empty() {
            may_end |= !digits.is_empty() || !decoded.is_empty();
            continue;
        }
        if may_end && !line.iter().all(|&byte| is_digit(byte) || byte == b'=') {
            break;
        }
        for &byte in line {
            if is_digit(byte) {
                digits.push(byte);
            } else if byte == b'=' && digits.len() % 4 >= 2 {
                flush(&mut digits, &mut decoded);
                may_end = true;
            }
        }
        if digits.len() >= MAX_DIGITS && digits.len() % 4 == 0 {
            flush(&mut digits, &mut decoded);
        }
    }

    flush(&mut digits, &mut decoded);
    decoded
}

pub(super) fn is_digit(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/'
}

fn flush(digits: &mut Vec<u8>, decoded: &mut Vec<u8>) {
    if digits.len() % 4 == 1 {
        digits.pop();
    }
    // It has only digits, and enough of them.
    let _ = UNPADDED.decode_vec(&*digits, decoded);
    digits.clear();
}

const UNPADDED: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);

/// Leaves a `=` that encodes nothing.
pub(super) fn quoted_printable(content: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(content.len());
    let mut rest = content;
    while let Some(at) = rest.iter().position(|&byte| byte == b'=') {
        decoded.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(byte) = rest.get(..2).and_then(|pair| hex::decode(pair).ok()) {
            decoded.extend(byte);
            rest = &rest[2..];
            continue;
        }

        let blanks = rest
            .iter()
            .take_while(|&&byte| byte == b' ' || byte == b'\t')
            .count();
        let after = rest[blanks..]
            .strip_prefix(b"\r")
            .unwrap_or(&rest[blanks..]);
        match after {
            [b'\n', next @ ..] => rest = next,
            [] => rest = after,
            _ => decoded.push(b'='),
        }
    }

    decoded.extend_from_slice(rest);
    decoded
}

fn uuencoded(content: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(content.len() / 4 * 3);
    let lines = content
        .split(|&byte| byte == b'\n')
        .map(<[u8]>::trim_ascii_end);
    let lines = lines
        .skip_while(|line| !line.starts_with(b"begin "))
        .skip(1);
    for line in lines {
        let value = |at: usize| line.get(at).map_or(0, |byte| byte.wrapping_sub(b' ') & 63);
        let length = usize::from(value(0));
        if length == 0 || line == b"end" {
            break;
        }
        let end = decoded.len() + length;
        for start in (1..=length.div_ceil(3) * 4).step_by(4) {
            let [a, b, c, d] = [0, 1, 2, 3].map(|at| value(start + at));
            decoded.extend([a << 2 | b >> 4, b << 4 | c >> 2, c << 6 | d]);
        }
        decoded.truncate(end);
    }
    decoded
}
