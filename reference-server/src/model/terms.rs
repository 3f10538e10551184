//! [`Terms`]: the words that a search looks for.

use uuid::Uuid;

/// How many of the newest entries of a list a search reads.
pub(crate) const MAX_SEARCHED: usize = 5_000;

/// Words in lower case, each of which must be somewhere in an entry.
#[derive(Clone, Debug)]
pub(crate) struct Terms(Vec<String>);

impl Terms {
    pub(crate) fn new(text: &str) -> Self {
        Self(
            text.to_lowercase()
                .split_whitespace()
                .map(str::to_owned)
                .collect(),
        )
    }

    /// Whether each word is part of one of the texts. Short numbers are in many IDs, so of an ID it has
    /// to be the prefix, or at least eight characters.
    pub(crate) fn are_in<'a>(&self, texts: impl IntoIterator<Item = &'a str>) -> bool {
        let texts = texts.into_iter().map(str::to_lowercase).collect::<Vec<_>>();
        let is_in = |term: &String, text: &String| {
            let is_distinct = term.len() >= 8 || term.contains('_');
            text.contains(term) && (is_distinct || !is_id(text))
        };
        self.0
            .iter()
            .all(|term| texts.iter().any(|text| is_in(term, text)))
    }
}

/// Whether a text is a UUID with a short prefix.
fn is_id(text: &str) -> bool {
    let start = text.len().checked_sub(36).filter(|start| *start <= 4);
    start
        .and_then(|start| text.get(start..))
        .is_some_and(|end| Uuid::try_parse(end).is_ok())
}

#[cfg(test)]
mod tests {
    use super::Terms;

    #[test]
    fn short_words_are_not_looked_for_in_ids() {
        let id = "msg_01a21408-e387-70f9-9a66-c71fb3dd4f01";
        let is_in = |words: &str| Terms::new(words).are_in([id, "Order 1042"]);
        assert!(is_in("ORDER 1042") && is_in("order 01a21408") && is_in(id));
        assert!(is_in("msg_ order"));
        assert!(!is_in("order 387") && !is_in("71f"));
    }
}
