//! Which features of HTML and CSS a message uses that mail programs do not support, by the data of
//! [Can I email](https://www.caniemail.com/).

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::LazyLock;

use mail_parser::decoders::html::html_to_text;
use regex_lite::{Captures, Regex};
use serde::Deserialize;

use super::html::tags;
use super::links::start_of;
use crate::messages::message_wire::{HtmlCheck, HtmlFeature};
use crate::model::error::Failure;

/// How much of the HTML is read, in bytes.
const MAX_READ: usize = 1 << 20;

/// Checks the HTML, with images of these types embedded in the message. If programs are named, only
/// these count.
pub(crate) fn check<'m>(
    html: &str,
    embedded: impl Iterator<Item = &'m str>,
    programs: Option<&str>,
) -> Result<HtmlCheck, Failure> {
    let counting: Option<Vec<&str>> =
        programs.map(|programs| programs.split(',').map(str::trim).collect());
    let mut named = counting.iter().flatten();
    if let Some(unknown) = named.find(|name| !TABLE.programs.iter().any(|one| one == *name)) {
        let known = TABLE.programs.join(", ");
        let message = format!("there is no data about {unknown:?}, but about {known}");
        return Err(Failure::field("programs", message));
    }

    // The platforms are in parentheses after the name.
    let counts = |program: &String| {
        let name = program.split(" (").next().unwrap_or_default();
        counting
            .as_ref()
            .is_none_or(|counting| counting.contains(&name))
    };

    let mut facts = Facts::default();
    facts.read_html(start_of(html, MAX_READ));
    for content_type in embedded {
        facts.add(Part::Images, format!("embedded {content_type}"));
    }

    let mut features = facts.features();
    for feature in &mut features {
        feature.none.retain(counts);
        feature.partial.retain(counts);
    }

    features.sort_by_key(|one| (Reverse(one.none.len()), Reverse(one.partial.len())));
    Ok(HtmlCheck {
        date: TABLE.date.clone(),
        programs: TABLE.programs.clone(),
        features,
        unknown: facts.unknown(),
    })
}

/// The data, as `tests/page/caniemail.mjs` writes it.
#[derive(Deserialize)]
struct Table {
    date: String,
    programs: Vec<String>,
    /// Elements and properties that need no feature.
    known: HashSet<String>,
    /// By title.
    features: Vec<Feature>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    serde_json::from_str(include_str!("html_check/caniemail.json")).expect("a valid table")
});

#[derive(Deserialize)]
struct Feature {
    #[serde(flatten)]
    shown: HtmlFeature,
    /// Names that show that the HTML uses it.
    #[serde(default)]
    names: Vec<String>,
    /// Patterns that show it.
    #[serde(default)]
    pattern: HashMap<Part, Pattern>,
}

#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Pattern(Regex);

impl TryFrom<String> for Pattern {
    type Error = regex_lite::Error;

    fn try_from(pattern: String) -> Result<Self, Self::Error> {
        Regex::new(&format!("(?m){pattern}")).map(Self)
    }
}

/// The part of the HTML that a fact is about.
#[derive(Clone, Copy, Deserialize, PartialEq, Eq, Hash)]
#[serde(rename_all = "lowercase")]
enum Part {
    /// Elements as `<video>`, attributes as `[dir]`, and as `<input type=file>`, properties as `color:`.
    Names,
    /// Declarations such as `color:red`.
    Declarations,
    /// Without what is in parentheses and brackets.
    Selectors,
    /// Rules such as `@media print`.
    Rules,
    /// The element, and start and end of the URL.
    Images,
}

/// The parts that the HTML has, each once and in lower case.
#[derive(Default)]
struct Facts(HashMap<Part, BTreeSet<String>>);

impl Facts {
    fn add(&mut self, part: Part, fact: String) {
        self.0.entry(part).or_default().insert(fact);
    }

    fn add_name(&mut self, name: String) {
        self.add(Part::Names, name);
    }

    fn read_html(&mut self, html: &str) {
        for tag in tags(html) {
            let name = tag.name.to_ascii_lowercase();
            self.add_name(format!("<{name}>"));
            for (attribute, value) in tag.attributes() {
                let attribute = attribute.to_ascii_lowercase();
                let value = if value.contains('&') {
                    Cow::from(html_to_text(value))
                } else {
                    Cow::from(value)
                };
                match &*attribute {
                    "style" => self.read_css(&value),
                    "src" | "srcset" | "background" | "poster" => self.add_image(&name, &value),
                    _ => {}
                }
                let start = start_of(&value, 40).to_lowercase();
                self.add_name(format!("<{name} {attribute}={start}>"));
                self.add_name(format!("[{attribute}]"));
            }
            if name == "style" {
                self.read_css(tag.content);
            }
        }
    }

    /// The start of a URL has the type of a `data:` URL, and its end the name of the file.
    fn add_image(&mut self, element: &str, url: &str) {
        let path = url.split(['?', '#']).next().unwrap_or_default();
        let file = path.rsplit('/').next().unwrap_or_default();
        let image = format!("{element} {} {}", start_of(url, 40), start_of(file, 200));
        self.add(Part::Images, image.to_lowercase());
    }

    /// Reads a style sheet, or the declarations of an attribute.
    fn read_css(&mut self, css: &str) {
        for url in URL.captures_iter(css) {
            self.add_image("url", &url[1]);
        }

        // What is in a URL or quoted names no feature.
        let css = URL.replace_all(css, "url(");
        let mut has_comments = false;
        let css = COMMENT_OR_STRING.replace_all(&css, |found: &Captures<'_>| {
            let is_comment = found[0].starts_with("/*");
            has_comments |= is_comment;
            if is_comment { "" } else { "\"\"" }
        });
        if has_comments {
            self.add_name("/**/".to_owned());
        }

        let css = css.replace("<!--", " ").replace("-->", " ").to_lowercase();
        for part in css.split_inclusive(['{', '}', ';']) {
            let words = part.trim_end_matches(['{', '}', ';']).split_whitespace();
            let text = Vec::from_iter(words).join(" ");
            if text.starts_with('@') {
                self.add(Part::Rules, text);
            } else if part.ends_with('{') {
                self.add_selector(&text);
            } else if let Some((name, value)) = text.split_once(':') {
                self.add_declaration(name.trim_end(), value.trim_start());
            }
        }
    }

    fn add_selector(&mut self, selector: &str) {
        let is_keyframe = matches!(selector, "from" | "to") || selector.ends_with('%');
        if !is_keyframe {
            self.add(Part::Selectors, without_arguments(selector));
        }
    }

    fn add_declaration(&mut self, name: &str, value: &str) {
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if name.is_empty() || !name.bytes().all(is_word) {
            return;
        }
        self.add(Part::Declarations, format!("{name}:{value}"));
        if !name.starts_with("--") {
            self.add_name(format!("{name}:"));
        }
    }

    /// The features that the HTML uses.
    fn features(&self) -> Vec<HtmlFeature> {
        let lines = |facts: &BTreeSet<String>| Vec::from_iter(facts.iter().cloned()).join("\n");
        let parts = self.0.iter();
        let texts: HashMap<Part, String> =
            parts.map(|(part, facts)| (*part, lines(facts))).collect();
        let none = BTreeSet::new();
        let names = self.0.get(&Part::Names).unwrap_or(&none);
        let uses = |feature: &&Feature| {
            let has = |(part, pattern): (&Part, &Pattern)| {
                texts.get(part).is_some_and(|text| pattern.0.is_match(text))
            };
            feature.pattern.iter().any(has) || feature.names.iter().any(|name| names.contains(name))
        };

        let used = TABLE.features.iter().filter(uses);
        used.map(|feature| feature.shown.clone()).collect()
    }

    /// The elements and the properties that no feature is about.
    fn unknown(&self) -> Vec<String> {
        let of_features = TABLE.features.iter().flat_map(|feature| &feature.names);
        let known: HashSet<&String> = of_features.chain(&TABLE.known).collect();
        let names = self.0.get(&Part::Names).into_iter().flatten();
        let unknown = names.filter(|name| !known.contains(name));
        let is_whole =
            |name: &&String| name.ends_with(':') || name.ends_with('>') && !name.contains(' ');
        let unknown = unknown.filter(is_whole);
        unknown
            .map(|name| name.trim_end_matches(':').to_owned())
            .collect()
    }
}

/// A selector with empty parentheses and brackets.
fn without_arguments(selector: &str) -> String {
    let mut depth = 0_usize;
    let is_outside = |sign: &char| {
        if matches!(sign, ')' | ']') {
            depth = depth.saturating_sub(1);
        }
        let is_outside = depth == 0;
        if matches!(sign, '(' | '[') {
            depth += 1;
        }
        is_outside
    };
    selector.chars().filter(is_outside).collect()
}

static URL: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"(?i)url\(\s*["']?([^"')]*)["']?"#).expect("a valid pattern"));

/// The last of a style sheet may lack its end.
static COMMENT_OR_STRING: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r#"(?s)/\*.*?(?:\*/|$)|"(?:\\.|[^"\\])*"?|'(?:\\.|[^'\\])*'?"#;
    Regex::new(pattern).expect("a valid pattern")
});

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(html: &str) -> HtmlCheck {
        check(html, std::iter::empty(), None).expect("no programs are named")
    }

    fn used(html: &str) -> String {
        let features = checked(html).features.into_iter();
        let names: BTreeSet<String> = features.map(|feature| feature.name).collect();
        Vec::from_iter(names).join(" ")
    }

    /// Every feature that the data covers. `<i>` is not among them.
    #[test]
    fn features_are_recognized_and_only_those() {
        for (html, features) in [
            ("<i>x</i>", ""),
            (
                r#"<!doctype html><body lang="en"><!-- <b --><p align="center">x</p>"#,
                "html-align html-comments html-lang html-p",
            ),
            (
                r#"<i style="Border-Radius: 4px !important; COLOR: rgba(0,0,0,.5)">"#,
                "css-border-radius css-important css-rgba css-unit-px",
            ),
            (
                r#"<i style="display:inline-flex; gap: 1em; width: calc(100% - 2rem)">"#,
                "css-display css-display-flex css-gap css-unit-calc css-unit-em css-unit-percent css-unit-rem \
                 css-width",
            ),
            (
                r#"<i style="border-top: solid; margin-left: 0; padding: 0; margin-inline: 0">"#,
                "css-border css-margin css-margin-inline-block css-padding",
            ),
            (
                r#"<i style="font-family: '4px; border-radius: 1px', ui-serif; --size: 1">"#,
                "css-sytem-ui css-variables",
            ),
            (
                r#"<i style="background: url(data:image/png;base64,QUJD4pxvar)">"#,
                "css-background image-base64 image-png",
            ),
            (
                r#"<style>/* x */ @import url("a.css"); @font-face { font-family: x }</style>"#,
                "css-at-font-face css-at-import css-comments html-style",
            ),
            (
                "<style>@media (prefers-color-scheme: dark) and (hover) { .a.b > i { float: left } }</style>",
                "css-at-media css-at-media-hover css-at-media-prefers-color-scheme css-float css-selector-chaining \
                 css-selector-child css-selector-class css-selector-type html-style",
            ),
            (
                r#"<style>#a [title="x>y"], * + i:nth-child(2n+1)::after { content: "a ~ b" }</style>"#,
                "css-pseudo-class-nth-child css-pseudo-element-after css-selector-adjacent-sibling \
                 css-selector-attribute css-selector-descendant css-selector-grouping css-selector-id \
                 css-selector-type css-selector-universal html-style",
            ),
            (
                "<style>.a { &:hover { opacity: max(0.5, 0.4) } } \
                 @keyframes x { from { opacity: 0 } 50% { opacity: 1 } }</style>",
                "css-at-keyframes css-function-max css-nesting css-opacity css-pseudo-class-hover \
                 css-selector-class html-style",
            ),
            (
                r##"<a href="#x" target="_blank">x</a><A HREF='MAILTO:a@b.test'>x</A>"##,
                "html-anchor-links html-mailto-links html-target",
            ),
            (
                r#"<img src="https://x.test/a.PNG?b" srcset="a.webp 2x" loading="lazy" width="4">"#,
                "html-img html-loading-attribute html-srcset html-width image-png image-webp",
            ),
            (
                r#"<form><input type=text><button>x</button><input type="Hidden"></form>"#,
                "html-button-submit html-form html-input-hidden html-input-text",
            ),
            ("<i style='c&#111;lor-scheme: dark'>", "css-color-scheme"),
            // What is unfinished ends nothing else.
            (
                "<style>i { width: 1ch; height: (</style><i style=\"clear: both; '\">",
                "css-clear css-height css-selector-type css-unit-ch css-width html-style",
            ),
        ] {
            assert_eq!(used(html), features, "{html}");
        }
    }

    #[test]
    fn programs_are_named_with_the_platforms_that_lack_a_feature() {
        let html =
            r#"<p style="border-radius: 4px; scroll-behavior: smooth">x</p><center>y</center>"#;
        let found = checked(html);
        let [radius, ..] = &found.features[..] else {
            panic!("{found:?}")
        };
        assert_eq!(radius.title, "border-radius");
        let outlook = "Outlook (Windows, Windows Mail)".to_owned();
        assert!(radius.none.contains(&outlook), "{radius:?}");
        assert!(
            radius.notes.iter().any(|note| note.contains("VML")),
            "{radius:?}"
        );
        assert_eq!(found.unknown, ["<center>", "scroll-behavior"]);

        let of = |programs| check(html, std::iter::once("image/webp"), Some(programs));
        let apple = of("Apple Mail").expect("it is known");
        assert!(
            apple.features.iter().all(|feature| feature.none.is_empty()),
            "{apple:?}"
        );
        let outlook = of("Gmail, Outlook").expect("they are known").features;
        let webp = outlook.iter().find(|feature| feature.name == "image-webp");
        assert_eq!(webp.expect("it is embedded").none, ["Outlook (Windows)"]);
        assert!(of("Gmail,Elm").is_err());
    }

    #[test]
    fn hostile_style_sheets_take_linear_time() {
        for part in [
            "(", "\"", "/*", "{", "}", "1", "a:", "url(", "[", " + ", "-", "@media ", "\\", " ",
            "@a{", "<style>", "</", "<a ", "<!--", "a{b:c;",
        ] {
            let long = part.repeat(300_000 / part.len());
            let html = format!(
                "<style>{long}{{}} i {{ width: {long}; }} {long}</style><i style='width: {long}'>"
            );
            let started = std::time::Instant::now();
            let found = checked(&html).features.len();
            let took = started.elapsed();
            assert!(
                took < std::time::Duration::from_secs(10),
                "{part}: {took:?}, {found} found"
            );
        }
    }
}
