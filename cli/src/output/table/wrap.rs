//! Wraps and shortens values.

use tabled::grid::util::string::get_text_width;

/// Wraps text into lines of at most `available` columns. Longer words stay whole, so that they can be
/// copied; the terminal wraps those.
pub(super) fn between_words(text: &str, available: usize) -> String {
    let mut lines = Vec::new();
    for line in text.split('\n') {
        if get_text_width(line) <= available {
            lines.push(line.to_owned());
            continue;
        }
        let mut current = None::<String>;
        for word in line.split(' ') {
            match &mut current {
                Some(current)
                    if get_text_width(current) + 1 + get_text_width(word) <= available =>
                {
                    current.push(' ');
                    current.push_str(word);
                }
                current => lines.extend(current.replace(word.to_owned())),
            }
        }
        lines.extend(current);
    }
    lines.join("\n")
}

/// Shortens text to at most `available` columns.
pub(in crate::output) fn shortened(text: &str, available: usize) -> String {
    if get_text_width(text) <= available {
        return text.to_owned();
    }
    let mut used = 1;
    let fits = |c: &char| {
        used += get_text_width(c.encode_utf8(&mut [0; 4]));
        used <= available
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_and_alignment_are_kept() {
        let secret = format!("whsec_{}", "0".repeat(64));
        assert_eq!(between_words(&secret, 20), secret);
        assert_eq!(
            between_words(&format!("a {secret} b"), 20),
            format!("a\n{secret}\nb")
        );
        assert_eq!(
            between_words("a  b\n\nlonger than that", 11),
            "a  b\n\nlonger than\nthat"
        );
    }

    #[test]
    fn text_is_shortened_by_its_width() {
        assert_eq!(shortened("reading", 77), "reading");
        assert_eq!(shortened("waiting for eml_1", 17), "waiting for eml_1");
        assert_eq!(shortened("waiting for eml_12", 17), "waiting for eml_…");
        assert_eq!(shortened("読読読読読", 7), "読読読…");
        assert_eq!(shortened("reading", 0), "…");
    }

    proptest! {
        #[test]
        fn wrapping_keeps_all_text(text in "[a-zé日@/., ]{0,60}", available in 2_usize..20) {
            let whole = between_words(&text, available);
            prop_assert_eq!(whole.replace('\n', " "), text);
        }
    }
}
