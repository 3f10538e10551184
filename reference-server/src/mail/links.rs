//! Extracts the links of a message, which tests often need.

use std::collections::HashSet;

use crate::control::messages::Link;
use linkify::{LinkFinder, LinkKind};
use mail_parser::decoders::html::html_to_text;

/// How much of each part is searched for links and codes, in bytes.
pub(super) const MAX_SEARCHED: usize = 4 << 20;
/// How much HTML is read for the visible text of one link, in bytes.
const MAX_LINK_TEXT: usize = 4096;

/// The start of a text, of at most this many bytes.
pub(super) fn start_of(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The links of the HTML part in order, then those that only the text part contains.
/// Searches the first 4 MiB of each part.
pub(crate) fn links(html: Option<&str>, text: Option<&str>, tracked: &Targets) -> Vec<Link> {
    let html = html.map(|html| start_of(html, MAX_SEARCHED));
    let text = text.map(|text| start_of(text, MAX_SEARCHED));
    let mut links = html.map(|html| anchors(html, tracked)).unwrap_or_default();
    let mut known: HashSet<String> = links.iter().map(|link| link.url.clone()).collect();
    let mut finder = LinkFinder::new();
    finder.kinds(&[LinkKind::Url]);
    for found in text.into_iter().flat_map(|text| finder.links(text)) {
        if known.insert(found.as_str().to_owned()) {
            links.push(Link { url: found.as_str().to_owned(), tracked_url: None, text: None });
        }
    }
    links
}

/// Replaces the URL of every tracked link in the HTML; `with` gets the index of the link.
pub(crate) fn replace(html: &str, mut with: impl FnMut(usize) -> String) -> String {
    let mut replaced = String::with_capacity(html.len() + 64);
    let mut at = 0;
    for (number, (raw, _)) in tracked_links(html).enumerate() {
        // `raw` is a slice of `html`, so the pointers give its offset.
        let start = raw.as_ptr() as usize - html.as_ptr() as usize;
        replaced.push_str(&html[at..start]);
        replaced.push_str(&with(number));
        at = start + raw.len();
    }
    replaced.push_str(&html[at..]);
    replaced
}

/// Where the tracked links of a message lead.
#[derive(Default)]
pub(crate) struct Targets {
    /// What the tracked URLs begin with; `RECIPIENT/NUMBER` follows.
    prefix: String,
    urls: Vec<String>,
}

impl Targets {
    /// The targets of the links in the HTML before [`replace`].
    pub(crate) fn of(prefix: String, html: &str) -> Self {
        Self { prefix, urls: targets(html).collect() }
    }

    pub(crate) fn resolve(&self, url: &str) -> Option<&str> {
        let (_, number) = url.strip_prefix(&self.prefix)?.split_once('/')?;
        self.urls.get(number.parse::<usize>().ok()?).map(String::as_str)
    }
}

/// The targets of the tracked links, as `replace` counts them.
pub(crate) fn targets(html: &str) -> impl Iterator<Item = String> {
    tracked_links(html).map(|(_, url)| url)
}

/// Maximum number of tracked links.
const MAX_TRACKED: usize = 1_000;
/// Maximum size of the URL of a tracked link in the HTML, in bytes.
const MAX_TRACKED_URL: usize = 8 * 1024;

/// The first web links in the first 4 MiB: the raw attribute value and the decoded URL.
fn tracked_links(html: &str) -> impl Iterator<Item = (&str, String)> {
    let anchors = tags(start_of(html, MAX_SEARCHED)).filter(|tag| tag.is("a") || tag.is("area"));
    let links = anchors.filter_map(|tag| {
        let raw = tag.raw_attribute("href")?.trim();
        if raw.len() > MAX_TRACKED_URL {
            return None;
        }
        let url = html_to_text(raw);
        let web = url.starts_with("http://") || url.starts_with("https://");
        web.then_some((raw, url))
    });
    links.take(MAX_TRACKED)
}

fn anchors(html: &str, tracked: &Targets) -> Vec<Link> {
    let (mut links, mut known): (Vec<Link>, HashSet<String>) = Default::default();
    for tag in tags(html).filter(|tag| tag.is("a") || tag.is("area")) {
        let Some(url) = tag.attribute("href") else { continue };
        let (url, tracked_url) = match tracked.resolve(&url) {
            Some(target) => (target.to_owned(), Some(url)),
            None => (url, None),
        };
        let web = url.starts_with("http://") || url.starts_with("https://");
        if !web || !known.insert(url.clone()) {
            continue;
        }
        let text = tag.is("a").then(|| {
            let rest = start_of(&html[tag.end..], MAX_LINK_TEXT);
            // A link ends where the next one begins.
            let next = rest.as_bytes().windows(3).position(|window| {
                window[..2].eq_ignore_ascii_case(b"<a") && window[2].is_ascii_whitespace()
            });
            let rest = &rest[..next.unwrap_or(rest.len())];
            let close = find_ignoring_case(rest, "</a").unwrap_or(rest.len());
            visible_text(&rest[..close])
        });
        links.push(Link { url, tracked_url, text: text.filter(|text| !text.is_empty()) });
    }
    links
}

/// A start or end tag. The `name` of an end tag includes its slash; `end` is the offset
/// after the tag.
struct Tag<'a> {
    name: &'a str,
    attributes: &'a str,
    end: usize,
}

impl<'a> Tag<'a> {
    fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    fn attribute(&self, wanted: &str) -> Option<String> {
        self.raw_attribute(wanted).map(|value| html_to_text(value.trim()))
    }

    fn raw_attribute(&self, wanted: &str) -> Option<&'a str> {
        let mut rest = self.attributes;
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '/');
            if rest.is_empty() {
                return None;
            }
            let end = rest.find(|c: char| c.is_whitespace() || c == '=').unwrap_or(rest.len());
            let name = &rest[..end];
            rest = rest[end..].trim_start();
            let mut value = "";
            if let Some(after) = rest.strip_prefix('=') {
                let after = after.trim_start();
                let quote = after.chars().next().filter(|&c| c == '"' || c == '\'');
                (value, rest) = match quote {
                    Some(quote) => after[1..].split_once(quote).unwrap_or((&after[1..], "")),
                    None => after.split_at(after.find(char::is_whitespace).unwrap_or(after.len())),
                };
            } else if end == 0 {
                return None;
            }
            if name.eq_ignore_ascii_case(wanted) {
                return Some(value);
            }
        }
    }
}

/// The tags of a document, without comments.
fn tags(html: &str) -> impl Iterator<Item = Tag<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let start = at + html[at..].find('<')?;
            if html[start..].starts_with("<!--") {
                at = html[start..].find("-->").map_or(html.len(), |end| start + end + 3);
                continue;
            }
            let Some(end) = tag_end(&html[start..]).map(|end| start + end) else {
                at = html.len();
                return None;
            };
            at = end + 1;
            let inside = &html[start + 1..end];
            let name = inside.find(char::is_whitespace).unwrap_or(inside.len());
            let (name, attributes) = inside.split_at(name);
            return Some(Tag { name, attributes, end: at });
        }
    })
}

/// The offset of the `>` that ends the tag; a quoted `>` does not end it.
fn tag_end(tag: &str) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in tag.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Some(at),
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), _) if open == byte => quote = None,
            _ => {}
        }
    }
    None
}

/// The visible text: without tags, styles and scripts, and with collapsed white space.
fn visible_text(html: &str) -> String {
    let apart = html.replace('<', " <");
    html_to_text(&apart).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn find_ignoring_case(text: &str, needle: &str) -> Option<usize> {
    text.as_bytes().windows(needle.len()).position(|w| w.eq_ignore_ascii_case(needle.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mail::codes::codes;

    fn links(html: Option<&str>, text: Option<&str>) -> Vec<Link> {
        super::links(html, text, &Targets::default())
    }

    /// Each of these took from seconds to hours.
    #[test]
    fn hostile_html_takes_linear_time() {
        let many: String = (0..20_000).map(|n| format!("<a href=http://a.test/{n}>")).collect();
        for html in [
            format!("<a href=\"http://a.test/?{}\">x</a>", "&".repeat(400_000)),
            format!("<a href=\"http://a.test/?{}\">x</a>", "&#;".repeat(100_000)),
            many,
            "<a ".repeat(200_000),
            "<!--".repeat(100_000),
            "<a href='".repeat(50_000),
        ] {
            let started = std::time::Instant::now();
            let _ = targets(&html).count();
            let found = links(Some(&html), Some(&html)).len();
            let found = found + codes(None, Some(&html), None).len();
            let took = started.elapsed();
            assert!(took < std::time::Duration::from_secs(5), "{took:?}, {found} found");
        }
    }

    fn link(url: &str, text: Option<&str>) -> Link {
        Link { url: url.to_owned(), tracked_url: None, text: text.map(str::to_owned) }
    }

    #[test]
    fn finds_links_of_both_parts_in_order() {
        let html = r#"<!-- <a href="https://no.test"> --><p>Hi</p>
            <A class=x HREF = 'https://a.test/verify?t=1&amp;u=%3C2'><b>Verify &gt;</b> now</A>
            <a href=https://b.test/>B</a> <a href="mailto:x@y">mail</a> <a name="x">none</a>
            <a title="a > b" href="https://c.test"><img src=x></a> <a href="https://b.test/">again</a>"#;
        let text = "Visit https://a.test/verify?t=1&u=%3C2 or (see https://d.test/x_(y)). x@y.test";
        assert_eq!(
            links(Some(html), Some(text)),
            [
                link("https://a.test/verify?t=1&u=%3C2", Some("Verify > now")),
                link("https://b.test/", Some("B")),
                link("https://c.test", None),
                link("https://d.test/x_(y)", None),
            ]
        );
        assert_eq!(links(None, None), []);
    }

    #[test]
    fn tolerates_broken_html() {
        for html in
            ["<", "<a", "<a href", "<a href=", "<a href='x", "</a", "<a =x>", "<!--", "&", "<a =>"]
        {
            assert_eq!(links(Some(html), None), [], "{html}");
            let _ = codes(None, Some(html), None);
        }
        assert_eq!(links(Some("<a href=\"https://ü.test/\">"), None).len(), 1);
    }
}
