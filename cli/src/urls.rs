//! Checks of URLs that users name: whether one is a valid http or https URL
//! (`check_url`), whether it leads to this machine or the local network (`is_loopback`,
//! `is_local`), which one a host or port without a scheme means, and how it is shown.
//! `without_password` masks a password for messages and hints, also in text that is not a valid
//! URL.

use url::Url;

use crate::failure::Failure;

/// Whether a URL certainly leads to this machine: to a loopback address, or to `localhost`.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}

/// Whether a URL certainly leads to this machine or to an address of the local network.
pub fn is_local(url: &str) -> bool {
    parse_url(url).is_some_and(|url| match url.host() {
        Some(url::Host::Ipv4(ip)) => ip.is_loopback() || ip.is_private() || ip.is_link_local(),
        Some(url::Host::Ipv6(ip)) => {
            ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local()
        }
        _ => is_loopback(&url),
    })
}

/// The URL, if it is an absolute http or https URL.
pub fn parse_url(url: &str) -> Option<Url> {
    let url = Url::parse(url).ok()?;
    (matches!(url.scheme(), "http" | "https") && url.has_host()).then_some(url)
}

/// Checks that an option's value is an absolute http or https URL.
pub fn check_url(option: &str, url: &str) -> Result<(), Failure> {
    if parse_url(url).is_some() {
        return Ok(());
    }

    let failure = Failure::usage(format!(
        "{option}: `{}` is not an absolute http or https URL",
        without_password(url)
    ));
    // A single word may be anything.
    let meant = with_scheme(url).filter(|_| url.contains(['.', ':', '/']) || is_port(url));
    Err(match meant {
        Some(meant) => failure.hint(format!("did you mean {}?", without_password(&meant))),
        None => failure.hint("such as https://example.com/hooks or http://localhost:3000/hooks"),
    })
}

/// The URL that a host or a port without a scheme means: http for this machine, https for others.
pub fn with_scheme(text: &str) -> Option<String> {
    if text.contains("://") {
        return None;
    }

    let after_host = text.strip_prefix(':').unwrap_or(text);
    let port = after_host.split('/').next().unwrap_or_default();
    if is_port(port) {
        return Some(format!("http://localhost:{after_host}"));
    }

    let http = format!("http://{text}");
    let is_local = is_loopback(&parse_url(&http)?);
    Some(if is_local {
        http
    } else {
        format!("https://{text}")
    })
}

fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok()
}

/// Masks a password in a URL, also in one without a scheme or with mistakes.
pub fn without_password(url: &str) -> String {
    // The host comes first, after the scheme, or after two slashes.
    let mut may_be_host = true;
    let mut shown = Vec::new();
    for segment in url.split('/') {
        shown.push(if may_be_host {
            masked_password(segment)
        } else {
            segment.to_owned()
        });
        may_be_host = segment.is_empty() || may_be_host && segment.ends_with(':');
    }
    shown.join("/")
}

fn masked_password(host: &str) -> String {
    let end = host.find(['?', '#']).unwrap_or(host.len());
    let user = host[..end].rfind('@');
    let password = user.and_then(|user| Some((host[..user].find(':')? + 1, user)));
    match password {
        Some((from, to)) => format!("{}***{}", &host[..from], &host[to..]),
        None => host.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_urls_that_are_not_absolute_http() {
        for text in ["localhost:3000", "/hooks", "ftp://x", "http://"] {
            assert!(check_url("--to", text).is_err(), "{text}");
        }
        assert!(check_url("--to", "http://localhost:3000/hooks?a=b").is_ok());
    }

    #[test]
    fn passwords_are_masked_wherever_they_are() {
        for (url, shown) in [
            ("https://u:secret@h.test/x", "https://u:***@h.test/x"),
            ("redis://:secret@h:1", "redis://:***@h:1"),
            ("u:secret@h.test/x", "u:***@h.test/x"),
            ("ftp://u:se:cr@et@h.test", "ftp://u:***@h.test"),
            ("https://h.test/a:b@c", "https://h.test/a:b@c"),
            ("https://u@h.test:1/x", "https://u@h.test:1/x"),
            ("a@b.test", "a@b.test"),
            ("https://htp//u:secret@h", "https://htp//u:***@h"),
            ("https:/u:secret@h", "https:/u:***@h"),
        ] {
            assert_eq!(without_password(url), shown);
        }

        let refused = check_url("--to", "ftp://u:secret@h.test").expect_err("refused");
        assert!(!format!("{refused:?}").contains("secret"), "{refused:?}");
        let refused = check_url("--to", "u:secret@h.test/x").expect_err("refused");
        assert!(!format!("{refused:?}").contains("secret"), "{refused:?}");
    }

    #[test]
    fn local_urls_are_of_this_machine_or_network() {
        for url in [
            "https://localhost:1",
            "https://127.0.0.2",
            "https://192.168.1.9",
            "https://[fd00::1]",
        ] {
            assert!(is_local(url), "{url}");
        }
        for url in [
            "https://mail.example",
            "https://8.8.8.8",
            "https://[2606::1]",
            "localhost",
        ] {
            assert!(!is_local(url), "{url}");
        }
    }

    #[test]
    fn a_url_without_a_scheme_is_completed() {
        for (text, meant) in [
            ("localhost:3000/hooks", Some("http://localhost:3000/hooks")),
            ("127.0.0.1", Some("http://127.0.0.1")),
            ("[::1]:80/x", Some("http://[::1]:80/x")),
            ("3000", Some("http://localhost:3000")),
            (":3000/x", Some("http://localhost:3000/x")),
            ("shop.example/hooks", Some("https://shop.example/hooks")),
            ("ftp://shop.example", None),
            ("two words", None),
            ("", None),
        ] {
            assert_eq!(with_scheme(text).as_deref(), meant, "{text}");
        }
    }
}
