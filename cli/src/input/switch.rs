//! Parses `true` and `false`, and the words that people use for them.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

const TRUE: [&str; 4] = ["yes", "y", "on", "1"];
const FALSE: [&str; 4] = ["no", "n", "off", "0"];

/// A parser for clap.
pub fn parser() -> impl TypedValueParser<Value = bool> {
    let words = [("true", TRUE), ("false", FALSE)];
    PossibleValuesParser::new(words.map(|(word, others)| PossibleValue::new(word).aliases(others)))
        .map(|word| word == "true" || TRUE.contains(&word.as_str()))
}
