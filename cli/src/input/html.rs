//! Generates the text part of an email from its HTML part.

/// Converts HTML to plain text. Links show their URLs, and list items start with a dash.
pub fn to_text(html: &str) -> String {
    let text = nanohtml2text::html2text(&with_dashes(html));
    let text = text.replace("\r\n", "\n").replace('\u{a0}', " ");
    let lines = text.trim().lines().map(str::trim_end);
    lines.collect::<Vec<_>>().join("\n")
}

/// Inserts a dash after each `<li>`, because the converter does not mark list items.
fn with_dashes(html: &str) -> String {
    let mut marked = String::with_capacity(html.len() + 16);
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        let tag = &rest.as_bytes()[at..];
        let is_item = tag.get(..3).is_some_and(|name| name.eq_ignore_ascii_case(b"<li"))
            && tag.get(3).is_some_and(|after| *after == b'>' || after.is_ascii_whitespace());
        let end = if is_item { rest[at..].find('>') } else { None };
        let until = at + end.map_or(1, |end| end + 1);
        marked.push_str(&rest[..until]);
        if end.is_some() {
            marked.push_str("- ");
        }
        rest = &rest[until..];
    }
    marked.push_str(rest);
    marked
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
