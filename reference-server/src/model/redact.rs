//! Replaces secrets in recorded requests and responses: bodies, paths and headers. The text may be
//! the beginning of a JSON document, so it is not parsed.

use std::sync::LazyLock;

use regex_lite::Regex;

/// A JSON field or a query parameter whose name contains one of these, in any case, has a secret
/// value.
const NAMES: &str = "(?i:secret|pass[_-]?(?:word|wd|phrase)|pwd|token|(?:api|access|private)[_-]?key\
                     |credential|authorization|cookie)";

/// Patterns of secrets, each with a text that all of them contain, and its replacement.
static RULES: LazyLock<[(&str, Regex, &str); 6]> = LazyLock::new(|| {
    let rule = |part, pattern: &str, replacement| {
        let pattern = pattern.replace("NAME", NAMES);
        (
            part,
            Regex::new(&pattern).expect("a valid pattern"),
            replacement,
        )
    };
    [
        // The text of a JSON field, which may be cut off.
        rule(
            "\"",
            r#"("[^"\\]*NAME[^"\\]*"\s*:\s*")(?s:[^"\\]|\\.?)*"#,
            "${1}[redacted]",
        ),
        // Its number becomes a text. The number of `tokens` is not a secret.
        rule(
            "\"",
            r#"("[^"\\]*NAME"\s*:\s*)[-0-9][0-9A-Za-z.+-]*"#,
            r#"${1}"[redacted]""#,
        ),
        rule(
            "=",
            r#"([?&][^=&#"'\\<>\s]*NAME[^=&#"'\\<>\s]*=)[^&#"'\\<>\s]*"#,
            "${1}[redacted]",
        ),
        rule("Bearer ", r#"\bBearer [^&#"'\\<>\s]*"#, "Bearer [redacted]"),
        // The secrets of both services, one of which may be cut off.
        rule(
            "_",
            r"\b(?:whsec|mk|sk)_(?:[\w+/=-]{6,}|[\w+/=-]*$)",
            "[redacted]",
        ),
        // The password of a URL. Some programs write JSON with an escaped slash.
        rule(
            "@",
            r#"(:(?://|\\/\\/)[^/?#"\\<>\s:]*:)[^/?#"\\<>\s]*@"#,
            "${1}[redacted]@",
        ),
    ]
});

/// Returns the text without its secrets: those of both services, the values of JSON fields and of
/// query parameters with such a name, what follows `Bearer`, and the passwords of URLs.
pub(crate) fn redact(text: &str) -> String {
    RULES
        .iter()
        .fold(text.to_owned(), |text, (part, rule, replacement)| {
            if text.contains(part) {
                rule.replace_all(&text, *replacement).into_owned()
            } else {
                text
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_replaced() {
        for (text, clean) in [
            (
                r#"{"secret":"whsec_AbC+/12=="}"#,
                r#"{"secret":"[redacted]"}"#,
            ),
            (
                r#"{"signing_secret" : "a\"b","id":1}"#,
                r#"{"signing_secret" : "[redacted]","id":1}"#,
            ),
            (r#"{"resetToken":"abc"}"#, r#"{"resetToken":"[redacted]"}"#),
            (
                r#"{"variables":{"name":"Ada","password":"hunter2"}}"#,
                r#"{"variables":{"name":"Ada","password":"[redacted]"}}"#,
            ),
            (
                r#"{"door_passphrase": 4711, "a":1}"#,
                r#"{"door_passphrase": "[redacted]", "a":1}"#,
            ),
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
