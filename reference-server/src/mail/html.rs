//! Reads the tags of HTML, in linear time and however broken it is.

use std::collections::HashMap;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::LazyLock;

use base64::engine::general_purpose::STANDARD;
use base64::write::EncoderWriter;
use mail_parser::decoders::html::html_to_text;
use percent_encoding::percent_decode_str;
use regex_lite::Regex;

use super::mime::Incoming;

/// A start tag, or a comment, whose name is `!--`.
pub(super) struct Tag<'h> {
    /// The name as it is written.
    pub(super) name: &'h str,
    attributes: &'h str,
    /// The content of an element that has text only, such as a style sheet.
    pub(super) content: &'h str,
    /// Where the tag is in the HTML.
    pub(super) range: Range<usize>,
}

/// How much of images is written into the HTML, in bytes. One may be shown many times.
const MAX_EMBEDDED: usize = 64 << 20;

/// Writes the HTML of a message. Attached images that it shows as `cid:ID` (RFC 2392) become data
/// URLs.
pub(crate) fn write_with_images(message: &Incoming, to: &mut dyn Write) -> io::Result<()> {
    let html = message.html.as_deref().unwrap_or_default();
    let decoded = |id: &str| percent_decode_str(id).decode_utf8_lossy().into_owned();
    let is_type_char = |c: char| c.is_ascii_alphanumeric() || "/+-.".contains(c);
    let images: HashMap<_, _> = message
        .attachments
        .iter()
        .filter(|file| file.content_type.starts_with("image/"))
        .filter(|file| file.content_type.chars().all(is_type_char))
        .filter_map(|file| Some((decoded(file.content_id.as_deref()?), file)))
        .collect();

    let mut at = 0;
    let mut left = MAX_EMBEDDED;
    for (name, value) in tags(html).flat_map(|tag| tag.attributes()) {
        let is_image = ["src", "background", "poster"]
            .iter()
            .any(|known| name.eq_ignore_ascii_case(known));
        let id = match value.split_once(':') {
            Some((scheme, id)) if is_image && scheme.eq_ignore_ascii_case("cid") => id,
            _ => continue,
        };
        let Some(image) = images.get(&decoded(&html_to_text(id))) else {
            continue;
        };
        let Some(rest) = left.checked_sub(image.size) else {
            break;
        };

        left = rest;
        // `value` is a slice of `html`, so the pointers give its offset.
        let start = value.as_ptr() as usize - html.as_ptr() as usize;
        to.write_all(&html.as_bytes()[at..start])?;
        write!(to, "data:{};base64,", image.content_type)?;
        let mut encoder = EncoderWriter::new(&mut *to, &STANDARD);
        encoder.write_all(&image.content)?;
        encoder.finish()?;
        at = start + value.len();
    }

    to.write_all(&html.as_bytes()[at..])
}

/// Elements without elements in them: what looks like a tag there is none.
const TEXT_ONLY: [&str; 5] = ["style", "script", "title", "textarea", "xmp"];

/// The start tags and the comments. A tag without `>` is none.
pub(super) fn tags(html: &str) -> impl Iterator<Item = Tag<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let start = at + html[at..].find('<')?;
            let rest = &html[start..];
            if rest.starts_with("<!--") {
                at = start + rest.find("-->").map_or(rest.len(), |end| end + "-->".len());
                return Some(Tag {
                    name: "!--",
                    attributes: "",
                    content: "",
                    range: start..at,
                });
            }
            if !rest[1..].starts_with(|first: char| first.is_ascii_alphabetic()) {
                at = start + 1;
                continue;
            }

            let length = tag_length(rest)?;
            let tag = &rest[1..length - 1];
            let end = tag.find(|c: char| c.is_whitespace() || c == '/');
            let (name, attributes) = tag.split_at(end.unwrap_or(tag.len()));
            at = start + length;
            let range = start..at;
            let has_text_only = TEXT_ONLY.iter().any(|one| name.eq_ignore_ascii_case(one));
            let content = if has_text_only {
                until_end_tag(&html[at..], name)
            } else {
                ""
            };
            at += content.len();
            return Some(Tag {
                name,
                attributes,
                content,
                range,
            });
        }
    })
}

impl<'h> Tag<'h> {
    /// Names and values of the attributes as they are written, without quotes.
    pub(super) fn attributes(&self) -> impl Iterator<Item = (&'h str, &'h str)> + use<'h> {
        ATTRIBUTE.captures_iter(self.attributes).map(|found| {
            let value = (2..=4).find_map(|group| found.get(group));
            let name = found.get(1).map_or("", |name| name.as_str());
            (name, value.map_or("", |value| value.as_str().trim()))
        })
    }
}

/// A name, and a value in double, single or no quotes.
static ATTRIBUTE: LazyLock<Regex> = LazyLock::new(|| {
    let value = r#""([^"]*)"|'([^']*)'|([^\s"']\S*)"#;
    Regex::new(&format!(r"([^\s=/]+)(?:\s*=\s*(?:{value}))?")).expect("a valid pattern")
});

/// The length of a tag up to its `>`; a quoted `>` does not end it.
fn tag_length(tag: &str) -> Option<usize> {
    let mut quote = None;
    let end = tag.bytes().position(|byte| {
        match (quote, byte) {
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), _) if open == byte => quote = None,
            _ => {}
        }
        quote.is_none() && byte == b'>'
    });
    Some(end? + 1)
}

fn until_end_tag<'h>(html: &'h str, name: &str) -> &'h str {
    let is_end = |at: &usize| {
        let found = html.get(at + 2..at + 2 + name.len());
        found.is_some_and(|found| found.eq_ignore_ascii_case(name))
    };
    let mut tags = html.match_indices("</").map(|(at, _)| at);
    &html[..tags.find(is_end).unwrap_or(html.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_of_the_message_are_in_its_html() {
        let image = "--b\r\nContent-Type: image/png\r\nContent-ID: <a@b>\r\n\r\nxyz\r\n";
        for (html, expected) in [
            (
                "<img src=\"cid:a@b\"> x",
                "<img src=\"data:image/png;base64,eHl6\"> x",
            ),
            (
                "<td BACKGROUND=CID:a%40b>",
                "<td BACKGROUND=data:image/png;base64,eHl6>",
            ),
            (
                "<img src='cid:a@'><a href='cid:a@b'>",
                "<img src='cid:a@'><a href='cid:a@b'>",
            ),
        ] {
            let source = format!(
                "Content-Type: multipart/related; boundary=b\r\n\r\n--b\r\n\
                 Content-Type: text/html\r\n\r\n{html}\r\n{image}--b--"
            );
            let mut written = Vec::new();
            write_with_images(&Incoming::parse(source.as_bytes()), &mut written).expect("written");
            assert_eq!(String::from_utf8_lossy(&written), expected);
        }
    }
}
