//! Transfer encodings for content that must not leave as it is: a bare CR or a NUL byte,
//! which a relay may change, or take for the end of the message.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Whether the content has a CR without LF, or a NUL byte.
pub(super) fn needs_encoding(content: &[u8]) -> bool {
    let bare = |(at, byte): (usize, &u8)| {
        *byte == 0 || *byte == b'\r' && content.get(at + 1) != Some(&b'\n')
    };
    content.iter().enumerate().any(bare)
}

/// Encodes a text as quoted-printable (RFC 2045 §6.7), with CRLF line breaks.
pub(super) fn quoted_printable(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len() + text.len() / 8);
    let bytes = text.as_bytes();
    let (mut at, mut column) = (0, 0);
    while let Some(&byte) = bytes.get(at) {
        let rest = &bytes[at..];
        if rest.starts_with(b"\r\n") || byte == b'\n' {
            encoded.push_str("\r\n");
            (at, column) = (at + if byte == b'\n' { 1 } else { 2 }, 0);
            continue;
        }
        let ends_line = rest.len() == 1 || rest[1] == b'\n' || rest[1..].starts_with(b"\r\n");
        let literal =
            byte.is_ascii_graphic() && byte != b'=' || matches!(byte, b' ' | b'\t') && !ends_line;
        let width = if literal { 1 } else { 3 };
        if column + width > 75 {
            encoded.push_str("=\r\n");
            column = 0;
        }
        if literal {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("={byte:02X}"));
        }
        (at, column) = (at + 1, column + width);
    }
    encoded
}

/// Encodes a file as Base64 in lines of 76 characters.
pub(super) fn base64_lines(content: &[u8]) -> String {
    let lines: Vec<String> = content.chunks(57).map(|line| STANDARD.encode(line)).collect();
    lines.join("\r\n")
}
