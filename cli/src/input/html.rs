//! Generates the text part of an email from its HTML part.

use std::sync::LazyLock;

use regex_lite::Regex;

/// The start tag of a list item, which the converter does not mark.
static ITEM: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?i)<li(\s[^>]*)?>").expect("a valid pattern"));

/// Converts HTML to plain text. Links show their URLs, and list items start with a dash.
pub fn to_text(html: &str) -> String {
    let text = nanohtml2text::html2text(&ITEM.replace_all(html, "$0- "));
    let text = text.replace("\r\n", "\n").replace('\u{a0}', " ");
    let lines = text.trim().lines().map(str::trim_end);
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converts_a_newsletter() {
        let html = "<html><head><title>T</title><style>p{}</style></head><body><h1>Your order</h1>\
                    <p>Hello&nbsp;<b>Zo&euml;</b>,<br>it&#8217;s on its way.</p>\
                    <ul><li>One</li><LI class=x>Two <i>two</i></LI></ul><link rel=x>\
                    <script>alert(1)</script>\
                    <a href=\"https://x.test/a?b=c&amp;d=e\">Track</a></body></html>";
        let text = to_text(html);
        let start = "Your order\n\nHello Zo\u{eb},\nit\u{2019}s on its way.";
        assert!(text.starts_with(start), "{text}");
        assert!(text.contains("- One\n- Two two"), "{text}");
        assert!(text.contains("Track (https://x.test/a?b=c&d=e)"), "{text}");
        assert!(!text.contains("alert") && !text.contains("p{}"), "{text}");
    }

    #[test]
    fn accepts_malformed_html() {
        for html in ["<li", "<", "a < b", "<li>", "", "<li\u{e4}>", "<LI "] {
            let _ = to_text(html);
        }
        assert_eq!(to_text("a &lt; b"), "a < b");
    }
}
