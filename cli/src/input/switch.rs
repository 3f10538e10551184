//! Reads `true` and `false`, and the words that people use for them.

const TRUE: [&str; 5] = ["true", "yes", "y", "on", "1"];
const FALSE: [&str; 5] = ["false", "no", "n", "off", "0"];

/// The meaning of a word, without regard to case.
pub fn parse(text: &str) -> Option<bool> {
    let is_one_of = |words: [&str; 5]| {
        words
            .iter()
            .any(|word| word.eq_ignore_ascii_case(text.trim()))
    };
    match (is_one_of(TRUE), is_one_of(FALSE)) {
        (false, false) => None,
        (is_true, _) => Some(is_true),
    }
}
