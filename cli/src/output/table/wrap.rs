//! Wraps lines between words and, in a column narrower than a word, after the punctuation inside
//! it.

use tabled::grid::util::string::get_text_width;

/// Wraps text into lines of at most `room` columns. Longer words stay whole, so that they can be
/// copied; the terminal wraps those.
pub(super) fn between_words(text: &str, room: usize) -> String {
    lines(text, room, |word| vec![word.to_owned()])
}

/// As [`between_words`], but also breaks words that are longer than a line.
pub(super) fn inside_words(text: &str, room: usize) -> String {
    lines(text, room, |word| pieces(word, room))
}

/// Width of the widest part of a word between two punctuation marks.
pub(super) fn longest_part(word: &str) -> usize {
    word.split_inclusive(is_mark).map(get_text_width).max().unwrap_or(0)
}

/// Width of the widest part that [`inside_words`] could break only between letters.
pub(super) fn longest_run(word: &str) -> usize {
    word.split_inclusive(is_any_mark).map(get_text_width).max().unwrap_or(0)
}

fn lines(text: &str, room: usize, broken: impl Fn(&str) -> Vec<String>) -> String {
    let mut lines = Vec::new();
    for line in text.split('\n') {
        if get_text_width(line) <= room {
            lines.push(line.to_owned());
            continue;
        }
        let mut current = None::<String>;
        for word in line.split(' ') {
            match &mut current {
                Some(current) if get_text_width(current) + 1 + get_text_width(word) <= room => {
                    current.push(' ');
                    current.push_str(word);
                }
                current => {
                    let mut pieces = broken(word);
                    lines.extend(current.take());
                    *current = pieces.pop();
                    lines.extend(pieces);
                }
            }
        }
        lines.extend(current);
    }
    lines.join("\n")
}

/// Breaks a word after `@` or `/` if possible, otherwise after other punctuation, then after a
/// dash, and between letters as a last resort.
fn pieces(word: &str, room: usize) -> Vec<String> {
    let (mut pieces, mut rest) = (Vec::new(), word);
    while get_text_width(rest) > room {
        let ends = rest.char_indices().map(|(at, letter)| (at + letter.len_utf8(), letter));
        let fits = ends.take_while(|(end, _)| get_text_width(&rest[..*end]) <= room);
        let fits = fits.collect::<Vec<_>>();
        let last = |wanted: fn(char) -> bool| fits.iter().rfind(|(_, letter)| wanted(*letter));
        let first_letter = rest.chars().next().map_or(rest.len(), char::len_utf8);
        let end = last(is_strong).or_else(|| last(is_mark));
        let end = end.or_else(|| last(is_any_mark)).or_else(|| last(|_| true));
        let (piece, after) = rest.split_at(end.map_or(first_letter, |(end, _)| *end));
        pieces.push(piece.to_owned());
        rest = after;
    }
    if !rest.is_empty() || pieces.is_empty() {
        pieces.push(rest.to_owned());
    }
    pieces
}

fn is_strong(letter: char) -> bool {
    matches!(letter, '@' | '/')
}

fn is_mark(letter: char) -> bool {
    is_strong(letter) || matches!(letter, '.' | ':' | ',' | ';' | '=' | '&' | '?')
}

fn is_any_mark(letter: char) -> bool {
    is_mark(letter) || matches!(letter, '-' | '_')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_and_alignment_are_kept() {
        let secret = format!("whsec_{}", "0".repeat(64));
        assert_eq!(between_words(&secret, 20), secret);
        assert_eq!(between_words(&format!("a {secret} b"), 20), format!("a\n{secret}\nb"));
        assert_eq!(between_words("a  b\n\nlonger than that", 11), "a  b\n\nlonger than\nthat");
    }

    #[test]
    fn words_break_after_punctuation() {
        assert_eq!(inside_words("hello@sandbox.test", 14), "hello@\nsandbox.test");
        assert_eq!(inside_words("http://127.0.0.1:3999/hook", 20), "http://\n127.0.0.1:3999/hook");
        assert_eq!(inside_words("email.sent, email.bounced", 10), "email.\nsent,\nemail.\nbounced");
        assert_eq!(inside_words("abcdefgh", 3), "abc\ndef\ngh");
        assert_eq!(inside_words("日本語", 1), "日\n本\n語");
        assert_eq!(inside_words("whk_01a1-b769-7657", 10), "whk_01a1-\nb769-7657");
        assert_eq!((longest_part("a@sandbox.test-er"), longest_run("a@sandbox.test-er")), (8, 8));
        assert_eq!((longest_part("whk_01a1-b769"), longest_run("whk_01a1-b769")), (13, 5));
    }

    proptest! {
        #[test]
        fn wrapping_keeps_all_text_and_fits(text in "[a-zé日@/., ]{0,60}", room in 2_usize..20) {
            let letters = |text: &str| text.replace([' ', '\n'], "");
            let wrapped = inside_words(&text, room);
            prop_assert_eq!(letters(&wrapped), letters(&text));
            prop_assert!(wrapped.lines().all(|line| get_text_width(line) <= room), "{}", wrapped);
            let whole = between_words(&text, room);
            prop_assert_eq!(whole.replace('\n', " "), text);
        }
    }
}
