//! Reads a message as a mail program shows it: the text and the HTML of its parts, in order. All else
//! is a file (as RFC 8621 §4.1.4 decides it).

use std::borrow::Cow;

use super::charset;
use super::part::{Part, without_brackets};
use crate::mail::links::visible_text;

/// The parts that are shown as text, and those that are shown as HTML.
#[derive(Default)]
pub(super) struct Shown {
    pub(super) text: Option<String>,
    pub(super) html: Option<String>,
}

/// Where a part is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The whole message, the first of its multipart, or one of alternatives.
    Body,
    /// Later in a multipart.
    Later,
    /// A part that the HTML beside it refers to.
    Resource,
}

/// How much HTML is searched for its charset, in bytes.
const MAX_META: usize = 1024;

impl Shown {
    /// The shown parts of a message, and its files.
    pub(super) fn of<'p, 'x>(message: &'p Part<'x>) -> (Self, Vec<&'p Part<'x>>) {
        let mut files = Vec::new();
        let shown = Self::within(message, Place::Body, &mut files);
        (shown.unwrap_or_default(), files)
    }

    fn within<'p, 'x>(
        part: &'p Part<'x>,
        place: Place,
        files: &mut Vec<&'p Part<'x>>,
    ) -> Option<Self> {
        let kind = &*part.content_type.value;
        if part.parts.is_empty() {
            if !is_shown(part, place) {
                files.push(part);
                return None;
            }
            return Some(match kind {
                "text/html" => Self {
                    text: None,
                    html: Some(html(part)),
                },
                _ => Self {
                    text: Some(text(part)),
                    html: None,
                },
            });
        }

        let root = part.content_type.get("start", "").and_then(|id| {
            part.parts
                .iter()
                .position(|inner| inner.id().as_deref() == Some(without_brackets(&id)))
        });
        let mut shown = Vec::new();
        for (number, inner) in part.parts.iter().enumerate() {
            let place = match kind {
                "multipart/related" if number != root.unwrap_or(0) => Place::Resource,
                "multipart/related" | "multipart/alternative" => Place::Body,
                _ if number == 0 => Place::Body,
                _ => Place::Later,
            };
            shown.extend(Self::within(inner, place, files));
        }

        match kind {
            "multipart/alternative" => Self::one_of(shown),
            _ => Self::all_of(shown),
        }
    }

    /// Parts that are shown one after the other, in either form.
    fn all_of(mut parts: Vec<Self>) -> Option<Self> {
        if parts.len() < 2 {
            return parts.pop();
        }

        let has_text = parts.iter().any(|part| part.text.is_some());
        let has_html = parts.iter().any(|part| part.html.is_some());
        let mut all = Self::default();
        for Self { text, html } in parts {
            let text = text.as_deref();
            let html = html.as_deref();
            if has_html {
                let converted = || as_html(text.unwrap_or_default()).into();
                append(&mut all.html, &html.map_or_else(converted, Cow::from));
            }
            if has_text {
                let converted = || visible_text(html.unwrap_or_default()).into();
                append(&mut all.text, &text.map_or_else(converted, Cow::from));
            }
        }

        Some(all)
    }

    /// Parts of which a mail program shows one: those with HTML, or the others.
    fn one_of(parts: Vec<Self>) -> Option<Self> {
        let has_plain = parts.iter().any(|part| part.html.is_none());
        let is_none = parts.is_empty();
        let mut one = Self::default();
        for Self { text, html } in parts {
            if let Some(text) = text.filter(|_| html.is_none() || !has_plain) {
                append(&mut one.text, &text);
            }
            if let Some(html) = html {
                append(&mut one.html, &html);
            }
        }
        (!is_none).then_some(one)
    }
}

fn is_shown(part: &Part<'_>, place: Place) -> bool {
    let is_text = matches!(&*part.content_type.value, "text/plain" | "text/html");
    if !is_text || part.disposition.value == "attachment" {
        return false;
    }
    match place {
        // Some programs name the body, too.
        Place::Body => true,
        Place::Later => part.file_name("").is_none(),
        Place::Resource => false,
    }
}

fn append(all: &mut Option<String>, next: &str) {
    let all = all.get_or_insert_default();
    if !all.is_empty() && !all.ends_with('\n') {
        all.push_str("\r\n");
    }
    all.push_str(next);
}

fn as_html(text: &str) -> String {
    if text.trim().is_empty() {
        return String::new();
    }

    let escaped = text.bytes().filter(|byte| b"&<>".contains(byte)).count();
    let mut html = String::with_capacity(text.len() + 4 * escaped + 64);
    html.push_str("<div style=\"white-space: pre-wrap\">");
    let mut rest = text;
    while let Some(at) = rest.find(['&', '<', '>']) {
        let entity = match rest.as_bytes()[at] {
            b'&' => "&amp;",
            b'<' => "&lt;",
            _ => "&gt;",
        };
        html.extend([&rest[..at], entity]);
        rest = &rest[at + 1..];
    }

    html.extend([rest, "</div>"]);
    html
}

fn html(part: &Part<'_>) -> String {
    let content = part.content();
    if let Some(label) = part.content_type.get("charset", "") {
        return charset::decode(&content, &label);
    }

    let start = String::from_utf8_lossy(&content[..content.len().min(MAX_META)]).to_lowercase();
    let label = start
        .split_once("charset=")
        .map(|(_, after)| after.trim_start_matches(['"', '\'']));
    let label = label.and_then(|label| label.split(['"', '\'', '>', ';', ' ', '/']).next());
    charset::undeclared(&content, label.unwrap_or_default())
}

fn text(part: &Part<'_>) -> String {
    let label = part.content_type.get("charset", "").unwrap_or_default();
    let text = charset::decode(&part.content(), &label);
    let parameter = |name| part.content_type.get(name, "").unwrap_or_default();
    if !parameter("format").eq_ignore_ascii_case("flowed") {
        return text;
    }

    // RFC 3676: a line with a space at its end goes on in the next one, if that is quoted as deeply.
    let deletes_space = parameter("delsp").eq_ignore_ascii_case("yes");
    let mut flowed = String::with_capacity(text.len());
    let mut open_depth = None;
    for line in text.split_inclusive('\n') {
        let unquoted = line.trim_start_matches('>');
        let depth = line.len() - unquoted.len();
        let unstuffed = unquoted.strip_prefix(' ').unwrap_or(unquoted);
        let content = unstuffed.trim_end_matches(['\r', '\n']);
        let is_signature = content == "-- ";
        if open_depth != Some(depth) || is_signature {
            if open_depth.is_some() {
                flowed.push_str("\r\n");
            }
            if depth > 0 {
                flowed.push_str(&line[..line.len() - unstuffed.len()]);
            }
        }

        let goes_on = content.ends_with(' ') && !is_signature;
        open_depth = goes_on.then_some(depth);
        if !goes_on {
            flowed.push_str(unstuffed);
        } else if deletes_space {
            flowed.push_str(&content[..content.len() - 1]);
        } else {
            flowed.push_str(content);
        }
    }

    flowed
}
