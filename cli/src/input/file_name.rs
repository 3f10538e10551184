//! Recognizes the name of a file where its content is expected.

use std::path::Path;

use crate::command_line::shell_quoted;
use crate::failure::Failure;

/// What a single word ends with that is probably the name of a file, wherever that is.
const EXTENSIONS: [&str; 5] = [".html", ".htm", ".txt", ".md", ".json"];

/// Refuses the value of a `TEXT|@FILE|-` option that names a file, where `@` was probably
/// forgotten: the recipients would get the name instead of the content.
pub fn refuse(option: &str, value: &str, cwd: &Path) -> Result<(), Failure> {
    let is_word = !value.contains(char::is_whitespace) && !value.contains("://");
    let lower = value.to_lowercase();
    let has_extension = is_word
        && EXTENSIONS
            .iter()
            .any(|extension| lower.ends_with(extension));
    if value.starts_with(['@', '-']) || !(has_extension || cwd.join(value).is_file()) {
        return Ok(());
    }
    let file = format!("@{value}");
    Err(Failure::usage(format!(
        "{option}: `{value}` is the name of a file, not its content"
    ))
    .hint(format!(
        "send the content: {option} {}\nor the name itself, from standard input: {option} -",
        shell_quoted(&file)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_told_from_texts() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("a letter.html"), "x").expect("written");
        std::fs::write(dir.path().join("a.html"), "x").expect("written");
        let refused = |value| refuse("--html", value, dir.path());
        for text in [
            "",
            "-",
            "@a.html",
            "Hello.",
            "a.html\n",
            "/start",
            "<p>Hi</p>",
            "https://a.test/b.html",
        ] {
            assert!(refused(text).is_ok(), "{text}");
        }
        assert!(
            refused("elsewhere/B.HTML").is_err(),
            "it does not exist here"
        );
        let refused = refused("a letter.html").expect_err("refused");
        let hint = refused.details().hint.as_deref();
        let expected = "send the content: --html '@a letter.html'\n\
                        or the name itself, from standard input: --html -";
        assert_eq!(hint, Some(expected));
    }
}
