//! Texts with NUL, which PostgreSQL does not store.

use std::borrow::Cow;

/// Begins a pair of characters that stands for one.
const ESCAPE: char = '\u{fffd}';

/// Encodes NUL and the escape character. Different texts stay different.
pub(super) fn encode(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', ESCAPE]) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace(ESCAPE, "\u{fffd}\u{fffd}").replace('\0', "\u{fffd}0"))
}

pub(super) fn decode(text: &str) -> String {
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        decoded.push(match c {
            ESCAPE if rest.next() == Some('0') => '\0',
            c => c,
        });
    }
    decoded
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn texts_are_read_back_and_stay_different() {
        let mut texts = vec![String::new()];
        for length in 0..4 {
            let next: Vec<_> = texts.iter().filter(|text| text.chars().count() == length).collect();
            let next: Vec<_> = next
                .iter()
                .flat_map(|text| ['\0', '0', ESCAPE, 'ü'].map(|c| format!("{text}{c}")))
                .collect();
            texts.extend(next);
        }
        let encoded: BTreeSet<_> = texts.iter().map(|text| encode(text)).collect();
        assert_eq!(encoded.len(), texts.len());
        assert!(encoded.iter().all(|text| !text.contains('\0')));
        for text in &texts {
            assert_eq!(decode(&encode(text)), *text);
        }
    }
}
