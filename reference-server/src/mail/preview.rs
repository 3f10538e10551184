//! The first words of a message, for lists.

use super::links::{start_of, visible_text};

/// How many characters a preview has at most.
const LENGTH: usize = 140;
/// How much of a part is read, in bytes. Style sheets come before the first words of HTML.
const MAX_READ: usize = 65_536;

/// The first words of the text part, or those of the HTML part.
pub(crate) fn preview(html: Option<&str>, text: Option<&str>) -> String {
    words(html, text, LENGTH)
}

/// At most this many characters of the words of the text part, or of those of the HTML part.
pub(crate) fn words(html: Option<&str>, text: Option<&str>, length: usize) -> String {
    match (text.filter(|text| !text.trim().is_empty()), html) {
        (Some(text), _) => first_words(text, length),
        (None, Some(html)) => first_words(&visible_text(start_of(html, MAX_READ)), length),
        (None, None) => String::new(),
    }
}

fn first_words(text: &str, length: usize) -> String {
    let words = start_of(text, MAX_READ)
        .split_whitespace()
        .flat_map(|word| [" ", word])
        .skip(1);
    words.flat_map(str::chars).take(length).collect()
}

#[cfg(test)]
mod tests {
    use super::preview;

    #[test]
    fn has_the_first_words() {
        assert_eq!(
            preview(Some("<p>x"), Some(" Hello\r\n\r\n Ada\t! ")),
            "Hello Ada !"
        );
        let html = "<style>p { color: red }</style><h1>Your&nbsp;order</h1><p>is <b>here</b></p>";
        assert_eq!(preview(Some(html), Some(" ")), "Your order is here");
        assert_eq!(preview(None, Some(&"é".repeat(70_000))), "é".repeat(140));
        assert_eq!(preview(None, None), "");
    }
}
