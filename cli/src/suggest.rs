//! What a wrong word probably meant.

/// Similarity from which a word is suggested, between 0 and 1.
const SIMILAR: f64 = 0.6;

/// The known word that is most similar to a wrong one, if any is similar enough that it was
/// probably meant: a misspelling, another number (`domain`), or its beginning.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let similarity = |known: &str| {
        let (short, long) = (word.trim_start_matches('-'), known.trim_start_matches('-'));
        let begins = short.len() >= 3 && long.starts_with(short);
        if begins || (short.starts_with(long) && short.len() <= long.len() + 2) {
            return 1.0 - known.len().abs_diff(word.len()) as f64 / 100.0;
        }
        // A short word has many neighbors that mean something else: `--last` is not `--list`, and
        // `--sender` is not `--header`.
        let distance = strsim::damerau_levenshtein(&word, known);
        let same_start = short.chars().next() == long.chars().next();
        let limit = if short.len() > 4 && same_start { 2 } else { 1 };
        let has_other_letter = short.len() == long.len() && strsim::levenshtein(&word, known) == 1;
        if distance > limit || (short.len() <= 4 && has_other_letter) {
            0.0
        } else {
            strsim::normalized_damerau_levenshtein(&word, known)
        }
    };
    let similar = known.into_iter().map(|known| (similarity(known), known));
    let similar = similar.filter(|(similarity, _)| *similarity >= SIMILAR);
    similar.max_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_only_what_was_probably_meant() {
        let commands = ["emails", "audiences", "contacts", "domains", "webhooks", "sandbox"];
        for (word, meant) in [
            ("domain", Some("domains")),
            ("emial", Some("emails")),
            ("Contact", Some("contacts")),
            ("webhok", Some("webhooks")),
            ("send", None),
            ("ema", Some("emails")),
            ("x", None),
        ] {
            assert_eq!(nearest(word, commands), meant, "{word}");
        }
        assert_eq!(nearest("logs", ["login", "logout", "listen"]), None);
        assert_eq!(nearest("--last", ["--wait", "--all", "--list"]), None);
        assert_eq!(nearest("--sender", ["--header", "--bcc"]), None);
        assert_eq!(nearest("--form", ["--from"]), Some("--from"));
        assert_eq!(nearest("--token", ["--to", "--topic"]), None);
        assert_eq!(nearest("--port", ["--output", "--profile", "--to"]), None);
        assert_eq!(nearest("timout", ["timeout", "output"]), Some("timeout"));
    }
}
