//! Wraps and shortens values.

use tabled::grid::util::string::get_text_width;
use uuid::Uuid;

/// Wraps text into lines of at most `available` columns. Longer words stay whole, so that they can be
/// copied; the terminal wraps those.
pub(crate) fn between_words(text: &str, available: usize) -> String {
    let mut lines = Vec::new();
    for line in text.split('\n') {
        if get_text_width(line) <= available {
            lines.push(line.to_owned());
            continue;
        }

        // Where a line goes on, it is indented as where it began.
        let words = line.trim_start_matches(' ');
        let indent = &line[..line.len() - words.len()];
        let mut current = None::<String>;
        for word in words.split(' ') {
            match &mut current {
                Some(current)
                    if get_text_width(current) + 1 + get_text_width(word) <= available =>
                {
                    current.push(' ');
                    current.push_str(word);
                }
                current => lines.extend(current.replace(format!("{indent}{word}"))),
            }
        }
        lines.extend(current);
    }
    lines.join("\n")
}

/// Words up to this width are not broken. All ids are shorter.
pub(super) const LONGEST_WORD: usize = 48;

/// Whether a word of the text is longer than any that is kept whole in a table.
pub(super) fn has_long_word(text: &str) -> bool {
    let mut words = text.split_whitespace();
    words.any(|word| get_text_width(word) > LONGEST_WORD)
}

/// An id in a narrow table: its prefix, a beginning, and the end, in which ids differ. What is not a
/// UUID stays whole, such as a URL.
pub(super) fn short_id(id: &str) -> String {
    const KEPT: usize = 4;

    let prefix = id.rfind('_').map_or(0, |at| at + 1);
    let (prefix, uuid) = id.split_at(prefix);
    if Uuid::try_parse(uuid).is_err() {
        return id.to_owned();
    }

    let start = &uuid[..KEPT];
    let end = &uuid[uuid.len() - KEPT..];
    format!("{prefix}{start}…{end}")
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
    fn only_ids_are_shortened_in_the_middle() {
        let id = "eml_01a1fd75-b965-7772-a397-95b85f868b54";
        assert_eq!(short_id(id), "eml_01a1…8b54");
        assert_eq!(short_id(&id[4..]), "01a1…8b54");
        for other in [
            "https://mail.example.com/hooks/a_b",
            "wrong-signature-of-all",
            "",
        ] {
            assert_eq!(short_id(other), other);
        }
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
        fn wrapping_keeps_all_words_within_the_width(
            text in " {0,3}[a-zé日@/., ]{0,60}",
            available in 8_usize..20,
        ) {
            let wrapped = between_words(&text, available);
            prop_assert!(wrapped.split_whitespace().eq(text.split_whitespace()), "{wrapped}");
            for line in wrapped.lines().filter(|line| line.trim().contains(' ')) {
                prop_assert!(get_text_width(line) <= available, "{wrapped}");
            }
        }
    }
}
