//! Labels of fields.

use crate::output::one_line;

/// Converts `REPLY TO` to `Reply to`. Abbreviations keep their capitals, and keys of JSON remain.
pub(super) fn sentence(title: &str) -> String {
    const ABBREVIATIONS: [&str; 10] = [
        "ID", "URL", "HTTP", "HTML", "DNS", "SMTP", "MX", "SPF", "DKIM", "DMARC",
    ];
    let words = title.split(' ').enumerate().map(|(index, word)| {
        let lower = word.to_lowercase();
        let mut characters = lower.chars();
        match characters.next() {
            Some(_) if ABBREVIATIONS.contains(&word) => word.to_owned(),
            Some(_) if word.contains(char::is_lowercase) => word.to_owned(),
            Some(first) if index == 0 => first.to_uppercase().chain(characters).collect(),
            _ => lower,
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Converts `replyTo` to `Reply to`, and `createdAt` to `Created`.
pub(super) fn label(key: &str) -> String {
    let key = key
        .strip_suffix("At")
        .filter(|rest| !rest.is_empty())
        .unwrap_or(key);
    let mut title = String::new();
    for character in one_line(key).chars() {
        if character == '_' || (character.is_uppercase() && !title.is_empty()) {
            title.push(' ');
        }
        if character != '_' {
            title.extend(character.to_uppercase());
        }
    }
    sentence(&title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converts_titles_and_keys() {
        assert_eq!(sentence("EMAIL URL"), "Email URL");
        assert_eq!(sentence("ID"), "ID");
        assert_eq!(sentence("SIGNING SECRET"), "Signing secret");
        assert_eq!(label("audienceId"), "Audience ID");
        assert_eq!(label("createdAt"), "Created");
        assert_eq!(label("balance_cents"), "Balance cents");
        assert_eq!(label("x\u{1b}["), "X\\u{1b}[");
    }
}
