//! Recognizes the name of a file where its content is expected.

use std::path::Path;

use crate::failure::Failure;

/// Extensions of files with the content of an email, a template or a request.
const EXTENSIONS: [&str; 22] = [
    ".html",
    ".htm",
    ".xhtml",
    ".txt",
    ".text",
    ".md",
    ".mjml",
    ".json",
    ".ndjson",
    ".xml",
    ".yaml",
    ".yml",
    ".csv",
    ".eml",
    ".tmpl",
    ".tpl",
    ".j2",
    ".jinja",
    ".hbs",
    ".mustache",
    ".liquid",
    ".ejs",
];

/// Refuses the value of a `TEXT|@FILE|-` option that names a file, where `@` was probably
/// forgotten: the recipients would get the name instead of the content. `command` is the command
/// that takes a text too, to which the name itself can be given on standard input.
pub fn refuse(command: Option<&str>, option: &str, value: &str, cwd: &Path) -> Result<(), Failure> {
    if !is_likely(value, cwd) {
        return Ok(());
    }
    let file = match value.strip_prefix("~/") {
        // A shell expands `~` only at the start of a word.
        Some(rest) => format!("@\"$HOME/{rest}\""),
        None if value.contains(char::is_whitespace) => format!("'@{value}'"),
        None => format!("@{value}"),
    };
    let mut hint = format!("send the content: {option} {file}");
    if let Some(command) = command {
        hint.push_str(&format!(
            "\nor send the name itself: echo '{value}' | svc {command} … {option} -"
        ));
    }
    Err(Failure::usage(format!("{option}: `{value}` is the name of a file, not its content"))
        .hint(hint))
}

/// Whether a text is the name of a file: of one that exists, or one that ends or begins as such a
/// name does.
fn is_likely(value: &str, cwd: &Path) -> bool {
    if value.is_empty() || value == "-" || value.starts_with('@') || value.contains('\n') {
        return false;
    }
    if cwd.join(value).is_file() {
        return true;
    }
    let lower = value.to_lowercase();
    let is_address = value.contains("://");
    let has_extension = EXTENSIONS.iter().any(|extension| lower.ends_with(extension));
    let is_relative =
        ["./", "../", "~/", ".\\", "..\\"].iter().any(|start| value.starts_with(start));
    match value.contains(char::is_whitespace) {
        true => is_relative && has_extension,
        false => is_relative || (has_extension && !is_address) || is_below_a_folder(value),
    }
}

/// Whether an absolute path names something in a folder that exists, such as `/tmp/body`.
fn is_below_a_folder(value: &str) -> bool {
    let parent = Path::new(value).parent().filter(|_| Path::new(value).is_absolute());
    parent.is_some_and(|parent| parent.parent().is_some() && parent.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_told_from_texts() {
        let dir = tempfile::tempdir().expect("a directory");
        let existing = dir.path().join("a letter");
        std::fs::write(&existing, "x").expect("written");
        let missing = dir.path().join("body");
        for name in [
            "body.html",
            "BODY.HTM",
            "./x",
            "../mail/x",
            "~/x",
            "./my letter.html",
            "body.html.tmpl",
            "mail.txt",
            "a.json",
            &existing.to_string_lossy(),
            &missing.to_string_lossy(),
        ] {
            assert!(is_likely(name, Path::new("")), "{name}");
        }
        for text in [
            "",
            "-",
            "@body.html",
            "Hello",
            "Hello.",
            "see body.html",
            "./x and ./y",
            "/start",
            "/no/such/folder/x",
            "https://shop.example/a.html",
            "<p>Hi</p>",
            "{\"a\":1}",
            "first\nsecond.html",
        ] {
            assert!(!is_likely(text, Path::new("")), "{text}");
        }
    }

    #[test]
    fn the_way_out_names_the_file_as_a_shell_needs_it() {
        let hint = |command, value| {
            let refused = refuse(command, "--html", value, Path::new("")).expect_err("refused");
            refused.details().hint.clone().unwrap_or_default()
        };
        assert_eq!(hint(None, "~/a.html"), "send the content: --html @\"$HOME/a.html\"");
        assert_eq!(
            hint(Some("emails send"), "a.html"),
            "send the content: --html @a.html\n\
             or send the name itself: echo 'a.html' | svc emails send … --html -"
        );
    }
}
