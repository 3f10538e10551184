//! Replaces secrets in recorded requests and responses: bodies, paths and headers. The text may be
//! the beginning of a JSON document, so it is not parsed.

const REDACTED: &str = "[redacted]";

/// What the secrets of both services begin with.
const PREFIXES: [&str; 3] = ["whsec_", "mk_", "sk_"];
/// The length from which what follows a prefix is a secret.
const MIN_SECRET: usize = 6;
/// A JSON field or a query parameter whose name contains one of these, in any case, has a secret
/// value.
const NAMES: [&str; 12] = [
    "secret",
    "password",
    "passwd",
    "pwd",
    "passphrase",
    "token",
    "apikey",
    "accesskey",
    "privatekey",
    "credential",
    "authorization",
    "cookie",
];

/// Returns the text without its secrets: those of both services, the values of JSON fields and of
/// query parameters with such a name, what follows `Bearer`, and the passwords of URLs.
pub(crate) fn redact(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    let mut previous = ' ';
    while let Some(next) = rest.chars().next() {
        if next == '"'
            && let Some((name, after)) = secret_value(rest)
        {
            clean.push_str(&rest[..name]);
            // In place of a number, too, it is a text.
            let quote = if rest[..name].ends_with('"') { "" } else { "\"" };
            clean.extend([quote, REDACTED, quote]);
            rest = &rest[after..];
            previous = ' ';
            continue;
        }
        if let Some(start) = parameter(rest).or_else(|| bearer(rest, previous)) {
            let end = rest[start..]
                .find(|letter: char| "&#\"'\\<> ".contains(letter) || letter.is_whitespace());
            clean.push_str(&rest[..start]);
            clean.push_str(REDACTED);
            rest = &rest[end.map_or(rest.len(), |end| start + end)..];
            previous = ' ';
            continue;
        }
        let secret = (!is_word(previous)).then(|| secret_length(rest)).flatten();
        if let Some(length) = secret {
            clean.push_str(REDACTED);
            rest = &rest[length..];
            previous = ' ';
            continue;
        }
        if let Some((start, end)) = password(rest) {
            clean.push_str(&rest[..start]);
            clean.push_str(REDACTED);
            rest = &rest[end..];
            previous = ' ';
            continue;
        }
        clean.push(next);
        previous = next;
        rest = &rest[next.len_utf8()..];
    }
    clean
}

/// The length of the secret that the text begins with.
fn secret_length(text: &str) -> Option<usize> {
    let prefix = PREFIXES.into_iter().find(|prefix| text.starts_with(prefix))?;
    let rest = &text[prefix.len()..];
    let end = rest.find(|letter: char| !is_word(letter) && !"+/=-".contains(letter));
    let length = end.unwrap_or(rest.len());
    // A secret may be cut off at the end of the text.
    (length >= MIN_SECRET || end.is_none()).then_some(prefix.len() + length)
}

/// Where the value of the JSON field begins that the text begins with, and where it ends, if it is
/// a secret text or number.
fn secret_value(text: &str) -> Option<(usize, usize)> {
    let name_end = 1 + text[1..].find(['"', '\\'])?;
    let name = &text[1..name_end];
    let rest = text[name_end..].strip_prefix('"')?;
    let value = rest.trim_start().strip_prefix(':')?.trim_start();
    if !is_secret_name(name) {
        return None;
    }
    if value.starts_with(|first: char| first.is_ascii_digit() || first == '-') {
        // The number of `tokens` is not a secret.
        NAMES.iter().find(|part| plain(name).ends_with(*part))?;
        let start = text.len() - value.len();
        let end =
            value.find(|letter: char| !letter.is_ascii_alphanumeric() && !"+-.".contains(letter));
        return Some((start, start + end.unwrap_or(value.len())));
    }
    let rest = value.strip_prefix('"')?;
    let start = text.len() - rest.len();
    let mut escaped = false;
    let end = rest.find(|letter: char| {
        let is_end = letter == '"' && !escaped;
        escaped = letter == '\\' && !escaped;
        is_end
    });
    Some((start, start + end.unwrap_or(rest.len())))
}

fn is_secret_name(name: &str) -> bool {
    let name = plain(name);
    NAMES.iter().any(|part| name.contains(part))
}

fn plain(name: &str) -> String {
    name.to_ascii_lowercase().replace(['_', '-'], "")
}

/// Where the value of the query parameter begins that the text begins with, if it is a secret.
fn parameter(text: &str) -> Option<usize> {
    let rest = text.strip_prefix(['?', '&'])?;
    let name = rest.find(|letter: char| !is_word(letter) && letter != '-')?;
    (rest[name..].starts_with('=') && is_secret_name(&rest[..name])).then_some(name + 2)
}

/// Where the token begins, in a text such as `Bearer abc`.
fn bearer(text: &str, previous: char) -> Option<usize> {
    const SCHEME: &str = "Bearer ";
    (text.starts_with(SCHEME) && !is_word(previous)).then_some(SCHEME.len())
}

/// Where the password of a URL begins and ends; the text begins after its scheme. Some programs
/// write JSON with an escaped slash.
fn password(text: &str) -> Option<(usize, usize)> {
    let slashes = ["://", r":\/\/"].into_iter().find(|slashes| text.starts_with(slashes))?;
    let authority = &text[slashes.len()..];
    let end = authority.find(|letter: char| "/?#\"\\<>".contains(letter) || letter.is_whitespace());
    let userinfo = authority[..end.unwrap_or(authority.len())].rfind('@')?;
    let colon = authority[..userinfo].find(':')?;
    Some((slashes.len() + colon + 1, slashes.len() + userinfo))
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_replaced() {
        for (text, clean) in [
            (r#"{"secret":"whsec_AbC+/12=="}"#, r#"{"secret":"[redacted]"}"#),
            (
                r#"{"signing_secret" : "a\"b","id":1}"#,
                r#"{"signing_secret" : "[redacted]","id":1}"#,
            ),
            (r#"{"resetToken":"abc"}"#, r#"{"resetToken":"[redacted]"}"#),
            (
                r#"{"variables":{"name":"Ada","password":"hunter2"}}"#,
                r#"{"variables":{"name":"Ada","password":"[redacted]"}}"#,
            ),
            (r#"{"door_passphrase": 4711, "a":1}"#, r#"{"door_passphrase": "[redacted]", "a":1}"#),
            ("key mk_test_sandbox here", "key [redacted] here"),
            ("sk_live_0123456789", "[redacted]"),
            (
                r#"{"url":"https://ada:pw@shop.test/x"}"#,
                r#"{"url":"https://ada:[redacted]@shop.test/x"}"#,
            ),
            (
                r#"{"url":"https:\/\/ada:pw@shop.test\/"}"#,
                r#"{"url":"https:\/\/ada:[redacted]@shop.test\/"}"#,
            ),
            (
                "/v1/me?api_key=a1&x=1&Token=b2#c",
                "/v1/me?api_key=[redacted]&x=1&Token=[redacted]#c",
            ),
            (
                r#"{"url":"https://a.test/?token=a"}"#,
                r#"{"url":"https://a.test/?token=[redacted]"}"#,
            ),
            ("curl/8 Bearer abc.def x", "curl/8 Bearer [redacted] x"),
            // Cut off.
            (r#"{"secret":"whsec_Ab"#, r#"{"secret":"[redacted]"#),
            ("whsec_A", "[redacted]"),
        ] {
            assert_eq!(redact(text), clean, "{text}");
        }
    }

    #[test]
    fn other_text_is_kept() {
        for text in [
            r#"{"subject":"The secret is out","to":["ada@example.test"],"id":"whk_0193"}"#,
            r#"{"tokens":12,"html":"<a href=\"https://shop.test:80/v?a=@b\">x</a>"}"#,
            "task_list desk_top mk_1 Grüße",
            "/api/v1/emails?cursor=a&status=sent",
            "the bearer of this letter, and Forbearer x",
            "",
        ] {
            assert_eq!(redact(text), text);
        }
    }
}
