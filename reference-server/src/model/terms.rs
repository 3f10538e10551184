//! [`Terms`]: the words that a search looks for.

/// How many of the newest entries of a list a search reads.
pub(crate) const MAX_SEARCHED: usize = 5_000;

/// Words in lower case, each of which must be somewhere in an entry.
#[derive(Clone, Debug)]
pub(crate) struct Terms(Vec<String>);

impl Terms {
    pub(crate) fn new(text: &str) -> Self {
        Self(text.to_lowercase().split_whitespace().map(str::to_owned).collect())
    }

    /// Whether each word is part of one of the texts.
    pub(crate) fn are_in<'a>(&self, texts: impl IntoIterator<Item = &'a str>) -> bool {
        let texts = texts.into_iter().map(str::to_lowercase).collect::<Vec<_>>();
        self.0.iter().all(|term| texts.iter().any(|text| text.contains(term)))
    }
}
