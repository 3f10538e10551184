//! Adds open and click tracking to the HTML of an email: a pixel and redirect links.

use serde::{Deserialize, Serialize};

use super::links::{self, Targets};

/// The tracking options of an email, and the base URL of the pixel and the links.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tracking {
    pub(crate) base_url: String,
    pub(crate) opens: bool,
    pub(crate) clicks: bool,
}

/// Returns the HTML for one recipient: its links redirect through the server, and
/// the pixel is at the end of the body.
pub(crate) fn add_to(tracking: &Tracking, email: &str, recipient: usize, html: &str) -> String {
    let base = &tracking.base_url;
    let mut tracked = if tracking.clicks {
        links::replace(html, |number| {
            format!("{base}/t/c/{email}/{recipient}/{number}")
        })
    } else {
        html.to_owned()
    };
    if tracking.opens {
        let url = format!("{base}/t/o/{email}/{recipient}");
        let pixel = format!(r#"<img src="{url}" width="1" height="1" alt="">"#);
        let end = tracked
            .to_ascii_lowercase()
            .rfind("</body")
            .unwrap_or(tracked.len());
        tracked.insert_str(end, &pixel);
    }
    tracked
}

/// Where the links that [`add_to`] has replaced lead.
pub(crate) fn targets(tracking: &Tracking, email: &str, html: &str) -> Targets {
    let html = if tracking.clicks { html } else { "" };
    Targets::of(format!("{}/t/c/{email}/", tracking.base_url), html)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_links_and_appends_the_pixel() {
        let tracking = Tracking {
            base_url: "http://127.0.0.1:1".to_owned(),
            opens: true,
            clicks: true,
        };
        let html = r#"<HTML><body><a class=x href="https://a.test/?a=1&amp;b=2">A</a> <a href='mailto:x@y.test'>M</a><img src="https://a.test/i.png"><a href=http://b.test/>B</a></BODY></html>"#;
        assert_eq!(
            add_to(&tracking, "eml_1", 2, html),
            r#"<HTML><body><a class=x href="http://127.0.0.1:1/t/c/eml_1/2/0">A</a> <a href='mailto:x@y.test'>M</a><img src="https://a.test/i.png"><a href=http://127.0.0.1:1/t/c/eml_1/2/1>B</a><img src="http://127.0.0.1:1/t/o/eml_1/2" width="1" height="1" alt=""></BODY></html>"#
        );
        let targets = targets(&tracking, "eml_1", html);
        let resolved = |url| targets.resolve(url);
        assert_eq!(
            resolved("http://127.0.0.1:1/t/c/eml_1/0/0"),
            Some("https://a.test/?a=1&b=2")
        );
        assert_eq!(
            resolved("http://127.0.0.1:1/t/c/eml_1/2/1"),
            Some("http://b.test/")
        );
        for other in [
            "http://127.0.0.1:1/t/c/eml_1/2/2",
            "http://127.0.0.1:1/t/c/eml_2/2/1",
            "",
        ] {
            assert_eq!(resolved(other), None, "{other}");
        }
    }
}
