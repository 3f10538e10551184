//! Candidates for the bytes that the sender signed.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Read};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};

use super::{BodyCandidate, Hint, Mistake};

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
/// Maximum size of a decompressed body, in bytes.
const MAX_DECOMPRESSED: u64 = 64 * 1024 * 1024;

pub(super) fn candidates(body: &[u8]) -> Vec<BodyCandidate<'_>> {
    let mut candidates: Vec<BodyCandidate<'_>> = vec![(None, Cow::Borrowed(body))];
    let mut add = |mistake, candidate: Cow<'_, [u8]>| {
        if !candidates.iter().any(|(_, known)| *known == candidate) {
            candidates.push((Some(mistake), Cow::Owned(candidate.into_owned())));
        }
    };

    if let Some(rest) = body.strip_suffix(b"\n") {
        add(Mistake::NewlineAdded, rest.into());
        add(Mistake::NewlineAdded, rest.strip_suffix(b"\r").unwrap_or(rest).into());
    }
    for newline in ["\n", "\r\n"] {
        add(Mistake::NewlineRemoved, [body, newline.as_bytes()].concat().into());
    }
    add(Mistake::WhitespaceAdded, body.trim_ascii().into());
    let unix = unix_line_endings(body);
    add(Mistake::LineEndings, with_crlf(&unix).into());
    add(Mistake::LineEndings, unix.into());
    match body.strip_prefix(BYTE_ORDER_MARK) {
        Some(rest) => add(Mistake::ByteOrderMarkAdded, rest.into()),
        None => add(Mistake::ByteOrderMarkRemoved, [BYTE_ORDER_MARK, body].concat().into()),
    }
    let text = body.trim_ascii();
    for decoded in [STANDARD.decode(text), URL_SAFE_NO_PAD.decode(text)].into_iter().flatten() {
        add(Mistake::Base64Body, decoded.into());
    }
    add(Mistake::Base64Signed, STANDARD.encode(body).into_bytes().into());
    if let Some(decompressed) = decompress(body) {
        add(Mistake::CompressedBody, decompressed.into());
    }
    if let Ok(Value::String(inner)) = serde_json::from_slice(body) {
        add(Mistake::JsonInJson, inner.into_bytes().into());
    }
    for serialized in json_serializations(body) {
        add(Mistake::Reserialized, serialized.into());
    }
    if let Ok(text) = std::str::from_utf8(body) {
        let latin: Option<Vec<u8>> = text.chars().map(|c| u8::try_from(c).ok()).collect();
        if let Some(bytes) = latin {
            add(Mistake::Charset, bytes.into());
        }
    } else {
        let text: String = body.iter().map(|byte| char::from(*byte)).collect();
        add(Mistake::Charset, text.into_bytes().into());
    }
    candidates
}

pub(super) fn hint(body: &[u8]) -> Option<Hint> {
    if body.is_empty() {
        Some(Hint::BodyEmpty)
    } else if looks_compressed(body) {
        Some(Hint::BodyCompressed)
    } else if String::from_utf8_lossy(body).contains('\u{FFFD}') {
        Some(Hint::BodyLossy)
    } else if serde_json::from_slice::<serde::de::IgnoredAny>(body).is_err() {
        Some(Hint::BodyNotJson)
    } else {
        None
    }
}

fn unix_line_endings(body: &[u8]) -> Vec<u8> {
    let mut unix = Vec::with_capacity(body.len());
    for (at, byte) in body.iter().enumerate() {
        if *byte != b'\r' || body.get(at + 1) != Some(&b'\n') {
            unix.push(*byte);
        }
    }
    unix
}

fn with_crlf(unix: &[u8]) -> Vec<u8> {
    let mut crlf = Vec::with_capacity(unix.len());
    for byte in unix {
        if *byte == b'\n' {
            crlf.push(b'\r');
        }
        crlf.push(*byte);
    }
    crlf
}

fn looks_compressed(body: &[u8]) -> bool {
    let zlib = body.first() == Some(&0x78)
        && body.get(1).is_some_and(|second| (0x7800 + u16::from(*second)) % 31 == 0);
    zlib || body.starts_with(b"\x1F\x8B") || body.starts_with(b"\x28\xB5\x2F\xFD")
}

fn decompress(body: &[u8]) -> Option<Vec<u8>> {
    if body.starts_with(b"\x1F\x8B") {
        return read_all(flate2::read::MultiGzDecoder::new(body)).ok();
    }
    read_all(flate2::read::ZlibDecoder::new(body))
        .or_else(|_| read_all(flate2::read::DeflateDecoder::new(body)))
        .ok()
}

fn read_all(decoder: impl Read) -> io::Result<Vec<u8>> {
    let mut decompressed = Vec::new();
    decoder.take(MAX_DECOMPRESSED).read_to_end(&mut decompressed)?;
    Ok(decompressed)
}

/// The body's JSON as common libraries serialize it.
fn json_serializations(body: &[u8]) -> Vec<Vec<u8>> {
    let Ok(value) = serde_json::from_slice::<Value>(body) else { return Vec::new() };
    let mut sorted = value.clone();
    sorted.sort_all_objects();
    let mut serializations = Vec::new();
    for value in [&value, &sorted] {
        let layouts = [
            serialize(value, CompactFormatter),
            serialize(value, Spaced),
            serialize(value, PrettyFormatter::with_indent(b"  ")),
            serialize(value, PrettyFormatter::with_indent(b"    ")),
            serialize(value, PrettyFormatter::with_indent(b"\t")),
        ];
        for layout in layouts.into_iter().flatten() {
            let ascii = escape_non_ascii(&layout);
            // PHP escapes slashes by default.
            let slashes = |text: &str| text.replace('/', "\\/").into_bytes();
            serializations.extend([slashes(&layout), slashes(&ascii)]);
            serializations.extend([layout.into_bytes(), ascii.into_bytes()]);
        }
    }
    serializations
}

pub(super) fn serialize(value: &Value, formatter: impl Formatter) -> Option<String> {
    let mut out = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut out, formatter)).ok()?;
    String::from_utf8(out).ok()
}

/// Escapes all non-ASCII characters as `\uXXXX`, which is Python's default.
fn escape_non_ascii(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_ascii() {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a `String` cannot fail.
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    out
}

/// JSON as Python writes it by default.
pub fn spaced(value: &Value) -> String {
    serialize(value, Spaced).unwrap_or_default()
}

/// Puts a space after each comma and colon, which is Python's default.
pub(super) struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        w: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first { Ok(()) } else { w.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        w: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first { Ok(()) } else { w.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, w: &mut W) -> io::Result<()> {
        w.write_all(b": ")
    }
}
