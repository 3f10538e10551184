//! Replaces secrets in the recorded bodies of requests and responses. The text may be the
//! beginning of a JSON document, so it is not parsed.

const REDACTED: &str = "[redacted]";

/// What the secrets of both services begin with.
const PREFIXES: [&str; 3] = ["whsec_", "mk_", "sk_"];
/// The length from which what follows a prefix is a secret.
const MIN_SECRET: usize = 6;
/// A JSON field whose name contains one of these, in any case, has a secret value.
const NAMES: [&str; 5] = ["secret", "password", "token", "apikey", "authorization"];

/// Returns the text without its secrets: those of both services, the values of JSON fields with
/// such a name, and the passwords of URLs.
pub(crate) fn redact(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    let mut previous = ' ';
    while let Some(next) = rest.chars().next() {
        if next == '"'
            && let Some((name, after)) = secret_value(rest)
        {
            clean.push_str(&rest[..name]);
            clean.push_str(REDACTED);
            rest = &rest[after..];
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
        if let Some((start, end)) = rest.starts_with("://").then(|| password(rest)).flatten() {
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
/// a secret text.
fn secret_value(text: &str) -> Option<(usize, usize)> {
    let name_end = 1 + text[1..].find(['"', '\\'])?;
    let name = text[1..name_end].to_ascii_lowercase().replace(['_', '-'], "");
    let rest = text[name_end..].strip_prefix('"')?;
    let rest = rest.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    if !NAMES.iter().any(|part| name.contains(part)) {
        return None;
    }
    let start = text.len() - rest.len();
    let mut escaped = false;
    let end = rest.find(|letter: char| {
        let is_end = letter == '"' && !escaped;
        escaped = letter == '\\' && !escaped;
        is_end
    });
    Some((start, start + end.unwrap_or(rest.len())))
}

/// Where the password of a URL begins and ends; the text begins after its scheme.
fn password(text: &str) -> Option<(usize, usize)> {
    let authority = &text["://".len()..];
    let end = authority.find(|letter: char| "/?#\"\\<>".contains(letter) || letter.is_whitespace());
    let userinfo = authority[..end.unwrap_or(authority.len())].rfind('@')?;
    let colon = authority[..userinfo].find(':')?;
    Some(("://".len() + colon + 1, "://".len() + userinfo))
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
            ("key mk_test_sandbox here", "key [redacted] here"),
            ("sk_live_0123456789", "[redacted]"),
            (
                r#"{"url":"https://ada:pw@shop.test/x"}"#,
                r#"{"url":"https://ada:[redacted]@shop.test/x"}"#,
            ),
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
            "",
        ] {
            assert_eq!(redact(text), text);
        }
    }
}
