//! Finds the links of a message, and replaces those that are tracked. `links` returns what tests
//! look for: the links of the HTML with their visible text, then those that only the text has, each
//! with the target behind a tracked URL. `replace` and `targets` number the tracked links alike,
//! with `tracked_links`, because a tracked URL holds only the number. At most `MAX_SEARCHED` bytes
//! of each part are read.

use std::collections::HashSet;
use std::ops::Range;

use linkify::{LinkFinder, LinkKind};
use mail_parser::decoders::html::html_to_text;

use super::html::tags;
use crate::messages::message_wire::Link;

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
    let html = start_of(html.unwrap_or_default(), MAX_SEARCHED);
    let text = start_of(text.unwrap_or_default(), MAX_SEARCHED);
    let (mut links, mut known): (Vec<Link>, HashSet<String>) = Default::default();
    let mut outside = String::new();
    let mut at = 0;
    let mut anchors = anchors(html, &["a", "area"]).peekable();
    while let Some(Anchor { url, tag, .. }) = anchors.next() {
        // A link ends where the next one begins.
        let next = anchors.peek().map_or(html.len(), |next| next.tag.start);
        let text = start_of(&html[tag.end..next], MAX_LINK_TEXT);
        let close = text.to_ascii_lowercase().find("</a").unwrap_or(text.len());
        outside.push_str(&html[at..tag.start]);
        at = tag.end + close;
        let (url, tracked_url) = match tracked.resolve(&url) {
            Some(target) => (target.to_owned(), Some(url)),
            None => (url, None),
        };
        if !url.contains("://") || !known.insert(url.clone()) {
            continue;
        }
        let text = Some(visible_text(&text[..close])).filter(|text| !text.is_empty());
        links.push(Link {
            url,
            tracked_url,
            text,
        });
    }

    // Mail programs make links of the URLs in other text of the HTML, too.
    outside.push_str(&html[at..]);
    let outside = visible_text(&outside);
    for url in urls(&outside).chain(urls(text)) {
        if known.insert(url.to_owned()) {
            links.push(Link {
                url: url.to_owned(),
                tracked_url: None,
                text: None,
            });
        }
    }

    links
}

/// The URLs of a text. Punctuation and spaces other than those of ASCII end one, and so does a
/// letter of East Asia that follows a letter or a number: `https://a.test/xを`.
fn urls(text: &str) -> impl Iterator<Item = &str> {
    let mut before = ' ';
    let pieces = text.split(move |c| {
        let before = std::mem::replace(&mut before, c);
        match c {
            '\u{a0}'
            | '«'
            | '»'
            | '\u{2000}'..='\u{206f}'
            | '\u{3000}'..='\u{303f}'
            | '\u{ff00}'..='\u{ffef}' => true,
            '\u{1100}'..='\u{11ff}' | '\u{3040}'..='\u{d7ff}' => before.is_ascii_alphanumeric(),
            _ => false,
        }
    });
    let mut finder = LinkFinder::new();
    finder.kinds(&[LinkKind::Url]);
    pieces.flat_map(move |piece| finder.links(piece).map(|found| found.as_str()))
}

/// Replaces the URL of every tracked link in the HTML; `with` gets the index of the link.
pub(crate) fn replace(html: &str, mut with: impl FnMut(usize) -> String) -> String {
    let mut replaced = String::with_capacity(html.len() + 64);
    let mut at = 0;
    for (number, (raw, _)) in tracked_links(html).enumerate() {
        replaced.push_str(&html[at..raw.start]);
        replaced.push_str(&with(number));
        at = raw.end;
    }

    replaced.push_str(&html[at..]);
    replaced
}

/// Where the tracked links of a message lead.
#[derive(Default)]
pub(crate) struct Targets {
    /// The beginning of the tracked URLs; `RECIPIENT/NUMBER` follows.
    prefix: String,
    urls: Vec<String>,
}

impl Targets {
    /// The targets of the links in the HTML before [`replace`].
    pub(crate) fn of(prefix: String, html: &str) -> Self {
        Self {
            prefix,
            urls: targets(html).collect(),
        }
    }

    pub(crate) fn resolve(&self, url: &str) -> Option<&str> {
        let (_, number) = url.strip_prefix(&self.prefix)?.split_once('/')?;
        self.urls
            .get(number.parse::<usize>().ok()?)
            .map(String::as_str)
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

/// The first web links in the first 4 MiB: where the value of the attribute is, and the URL.
fn tracked_links(html: &str) -> impl Iterator<Item = (Range<usize>, String)> {
    let links = anchors(start_of(html, MAX_SEARCHED), &["a"])
        .filter(|anchor| is_web(&anchor.url) && anchor.raw.len() <= MAX_TRACKED_URL);
    links
        .take(MAX_TRACKED)
        .map(|anchor| (anchor.raw, anchor.url))
}

fn is_web(url: &str) -> bool {
    let scheme = url.split("://").next().unwrap_or_default();
    scheme.len() < url.len()
        && ["http", "https"]
            .iter()
            .any(|one| scheme.eq_ignore_ascii_case(one))
}

/// A start tag of a link.
struct Anchor {
    tag: Range<usize>,
    /// Where its `href` is, as it is written.
    raw: Range<usize>,
    url: String,
}

/// The tags with one of these names and `href`.
fn anchors(html: &str, names: &[&str]) -> impl Iterator<Item = Anchor> {
    tags(html).filter_map(move |tag| {
        if !names.iter().any(|name| tag.name.eq_ignore_ascii_case(name)) {
            return None;
        }
        let mut attributes = tag.attributes();
        let (_, value) = attributes.find(|(name, _)| name.eq_ignore_ascii_case("href"))?;
        if value.is_empty() {
            return None;
        }
        // `value` is a slice of `html`, so the pointers give its offset.
        let start = value.as_ptr() as usize - html.as_ptr() as usize;
        Some(Anchor {
            tag: tag.range,
            raw: start..start + value.len(),
            // A browser leaves out line breaks.
            url: html_to_text(&value.replace(['\r', '\n', '\t'], ""))
                .replace(['\r', '\n', '\t'], ""),
        })
    })
}

/// The visible text: without tags, styles and scripts, and with collapsed white space.
pub(super) fn visible_text(html: &str) -> String {
    let text = html_to_text(&html.replace('<', " <"));
    let mut visible = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !visible.is_empty() {
            visible.push(' ');
        }
        visible.push_str(word);
    }
    visible
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
        let many: String = (0..20_000)
            .map(|n| format!("<a href=http://a.test/{n}>"))
            .collect();
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
            assert!(
                took < std::time::Duration::from_secs(5),
                "{took:?}, {found} found"
            );
        }
    }

    fn link(url: &str, text: Option<&str>) -> Link {
        Link {
            url: url.to_owned(),
            tracked_url: None,
            text: text.map(str::to_owned),
        }
    }

    #[test]
    fn finds_links_of_both_parts_in_order() {
        let html = r#"<!-- <a href="https://no.test"> --><p>Hi</p>
            <A class=x HREF = 'https://a.test/verify?t=1&amp;u=%3C2'><b>Verify &gt;</b> now</A>
            <a href=https://b.test/>B</a> <a href="mailto:x@y">mail</a> <a name="x">none</a>
            <a title="a > b" href="https://c.test"><img src=x></a> <a href="https://b.test/">again</a>
            More text"#;
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
    fn finds_links_however_they_are_written() {
        let urls = |html, text| -> Vec<String> {
            let links = links(html, text);
            links.into_iter().map(|link| link.url).collect()
        };

        for (html, expected) in [
            ("<a href='HTTP://A.test/x'>x</a>", "HTTP://A.test/x"),
            ("<a href='myapp://verify?t=1'>x</a>", "myapp://verify?t=1"),
            (
                "<a href='https://a.test/x\r\ny&#10;z'>x</a>",
                "https://a.test/xyz",
            ),
            (
                "<map><area href='https://a.test/x'></map>",
                "https://a.test/x",
            ),
            (
                "<!DOCTYPE html PUBLIC \"x\" \"http://no.test/\"><title>t</title><!--[if mso]>\
                 <p>http://no.test</p><![endif]--><p title='http://no.test'>Go to \
                 https://a.test/?b&amp;c now",
                "https://a.test/?b&c",
            ),
            (
                "<a href='https://a.test/x'>https://no.test</a>",
                "https://a.test/x",
            ),
        ] {
            assert_eq!(urls(Some(html), None), [expected], "{html}");
        }

        for html in [
            "<a href='javascript:alert(1)'>x</a>",
            "<a href='mailto:a@b.test'>x</a>",
        ] {
            assert_eq!(links(Some(html), None), [], "{html}");
        }

        for (text, expected) in [
            (
                "次のURL（https://a.test/v?t=1）を",
                &["https://a.test/v?t=1"][..],
            ),
            ("https://a.test/v?t=1　から", &["https://a.test/v?t=1"]),
            (
                "https://a.test/v?t=1，完成验证。",
                &["https://a.test/v?t=1"],
            ),
            (
                "「https://a.test/x」https://a.test/yを",
                &["https://a.test/x", "https://a.test/y"],
            ),
            ("https://a.test/x에서", &["https://a.test/x"]),
            ("„https://a.test/x“\u{a0}x", &["https://a.test/x"]),
            ("https://a.test/東京/é", &["https://a.test/東京/é"]),
        ] {
            assert_eq!(urls(None, Some(text)), expected);
        }
    }

    #[test]
    fn tolerates_broken_html() {
        for html in [
            "<",
            "<a",
            "<a href",
            "<a href=",
            "<a href='x",
            "</a",
            "<a =x>",
            "<!--",
            "&",
            "<a =>",
        ] {
            assert_eq!(links(Some(html), None), [], "{html}");
            let _ = codes(None, Some(html), None);
        }
        assert_eq!(links(Some("<a href=\"https://ü.test/\">"), None).len(), 1);
    }
}
