//! Reads the tags of HTML, in linear time and however broken it is.

use std::ops::Range;
use std::sync::LazyLock;

use regex_lite::Regex;

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
