//! Fast JSON string encoding.
//!
//! An email is mostly text, and most text needs no escapes. This scans and copies it in
//! blocks; serde_json goes byte by byte, which would be half the work of serializing a
//! batch.

/// Appends `text` as a JSON string, with the same output as serde_json.
pub(super) fn push_json_string(out: &mut Vec<u8>, text: &str) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = first_special(rest) {
        out.extend_from_slice(&rest[..at]);
        push_escaped(out, rest[at]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// Whether the byte must be escaped (RFC 8259 §7).
fn is_special(byte: u8) -> bool {
    byte < b' ' || byte == b'"' || byte == b'\\'
}

fn first_special(bytes: &[u8]) -> Option<usize> {
    const BLOCK: usize = 32;
    // Without an early exit, the compiler vectorizes the comparison.
    let any = |block: &&[u8]| block.iter().fold(false, |any, byte| any | is_special(*byte));
    let clean = bytes.chunks_exact(BLOCK).take_while(|block| !any(block)).count() * BLOCK;
    let at = bytes[clean..].iter().position(|byte| is_special(*byte))?;
    Some(clean + at)
}

fn push_escaped(out: &mut Vec<u8>, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let short = match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0c => b'f',
        _ => {
            let digit = |digit: u8| HEX[usize::from(digit & 0xf)];
            out.extend_from_slice(b"\\u00");
            return out.extend_from_slice(&[digit(byte >> 4), digit(byte)]);
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(text: &str) -> String {
        let mut out = Vec::new();
        push_json_string(&mut out, text);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn matches_serde_json_for_every_character_and_position() {
        for character in (0..0x250).filter_map(char::from_u32) {
            for before in [0, 1, 30, 31, 32, 33, 64] {
                let text = format!("{}{character}{}", "a".repeat(before), "b".repeat(40));
                assert_eq!(encoded(&text), serde_json::to_string(&text).unwrap());
            }
        }
    }

    proptest! {
        #[test]
        fn matches_serde_json_for_any_text(text in "(.|\\n|\"|\\\\|\\x00){0,200}") {
            prop_assert_eq!(encoded(&text), serde_json::to_string(&text).unwrap());
        }
    }
}
