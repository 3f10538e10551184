//! Encoded words (RFC 2047) of header fields and file names.

use super::{charset, transfer};

struct Word<'x> {
    charset: &'x str,
    bytes: Vec<u8>,
}

/// Decodes the words. `write` writes what they encode.
pub(super) fn decode_with(text: &str, write: impl Fn(&str) -> String) -> String {
    let mut decoded = String::with_capacity(text.len());
    let mut run: Vec<Word<'_>> = Vec::new();
    let mut rest = text;
    let last_end = text.rfind("?=").unwrap_or(0);
    while let Some((before, from)) = rest.find("=?").map(|at| rest.split_at(at)) {
        let Some((word, after)) = Word::read(from) else {
            if text.len() - from.len() > last_end {
                break;
            }
            flush(&mut run, &mut decoded, &write);
            decoded.push_str(before);
            decoded.push_str("=?");
            rest = &from[2..];
            continue;
        };
        rest = after;
        // White space between words is not part of the text.
        let is_next = !run.is_empty() && before.trim().is_empty();
        let is_same = is_next && run[0].charset.eq_ignore_ascii_case(word.charset);
        if !is_same {
            flush(&mut run, &mut decoded, &write);
        }
        if !is_next {
            decoded.push_str(before);
        }
        run.push(word);
    }

    flush(&mut run, &mut decoded, &write);
    decoded.push_str(rest);
    decoded
}

pub(super) fn decode(text: &str) -> String {
    decode_with(text, str::to_owned)
}

/// Writes words of one charset. A character may be split between them, unless each begins in the
/// initial state of its charset.
fn flush(run: &mut Vec<Word<'_>>, decoded: &mut String, write: impl Fn(&str) -> String) {
    let Some(first) = run.first() else { return };
    let apart: String = run
        .iter()
        .map(|word| charset::decode(&word.bytes, word.charset))
        .collect();
    let text = if apart.contains(char::REPLACEMENT_CHARACTER) || run.len() > 1 {
        let bytes: Vec<u8> = run.iter().flat_map(|word| &word.bytes).copied().collect();
        let joined = charset::decode(&bytes, first.charset);
        if joined.contains(char::REPLACEMENT_CHARACTER) {
            apart
        } else {
            joined
        }
    } else {
        apart
    };
    // A line break in a word would be one in the header.
    decoded.push_str(&write(&text.replace(['\r', '\n'], " ")));
    run.clear();
}

impl<'x> Word<'x> {
    /// The word that the text begins with, and what follows it.
    fn read(text: &'x str) -> Option<(Self, &'x str)> {
        let (charset, rest) = text.strip_prefix("=?")?.split_once('?')?;
        let (encoding, rest) = rest.split_once('?')?;
        let is_base64 = match encoding {
            "B" | "b" => true,
            "Q" | "q" => false,
            _ => return None,
        };
        let (encoded, rest) = rest.split_once("?=")?;
        let bytes = if is_base64 {
            transfer::base64(encoded.as_bytes())
        } else {
            let text = encoded.replace('_', " ");
            transfer::quoted_printable(&charset::as_sent(&text, charset))
        };
        // RFC 2231 adds a language to the charset.
        let charset = charset.split('*').next().unwrap_or(charset);
        Some((Self { charset, bytes }, rest))
    }
}
