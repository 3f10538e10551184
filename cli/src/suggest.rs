//! Suggestions for a wrong word.

/// From which similarity a word is suggested. clap suggests from 0.7 on, but an unknown field of an
/// email that is similar to a known one is refused: `test` must not be taken for `text`.
const SIMILAR: f64 = 0.85;

/// The known word that is most similar to a wrong one, if any is similar enough that it was probably
/// meant.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let similar = known
        .into_iter()
        .map(|known| (strsim::jaro(&word, known), known));
    let similar = similar.filter(|(similarity, _)| *similarity >= SIMILAR);
    similar
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_only_what_was_probably_meant() {
        let commands = [
            "emails",
            "audiences",
            "contacts",
            "domains",
            "webhooks",
            "sandbox",
        ];
        for (word, meant) in [
            ("domain", Some("domains")),
            ("emial", Some("emails")),
            ("Contact", Some("contacts")),
            ("webhok", Some("webhooks")),
            ("send", None),
            ("x", None),
        ] {
            assert_eq!(nearest(word, commands), meant, "{word}");
        }
        assert_eq!(nearest("timout", ["timeout", "output"]), Some("timeout"));
    }
}
