//! Formats command lines for hints, based on the one that the user typed.

use std::borrow::Cow;
use std::ffi::OsString;

use crate::urls::without_password;

/// Options that are refused with `--sandbox`, or have no effect there.
const NOT_IN_SANDBOX: [&str; 4] = ["--email-url", "--extraction-url", "--key-file", "--profile"];

/// Whether a word of a command line is an option of live services.
pub fn is_not_in_sandbox(arg: &OsString) -> bool {
    let arg = arg.to_string_lossy();
    NOT_IN_SANDBOX.contains(&arg.split('=').next().unwrap_or_default())
}

/// The same command line, quoted for the shell, after the name of the program, which may have more
/// options.
pub fn shown(program: &str, args: &[OsString]) -> String {
    let args = args.iter().skip(1).map(|arg| arg.to_string_lossy());
    args.fold(program.to_owned(), |line, arg| {
        line + " " + &shell_quoted(&masked(&arg))
    })
}

/// A word without the password of a URL: hints end up in logs.
fn masked(word: &str) -> String {
    match word.split_once('=') {
        Some((option, value)) if option.starts_with("--") => {
            format!("{option}={}", without_password(value))
        }
        _ => without_password(word),
    }
}

/// A command with values in place of each `{}`, quoted for the shell: a service may have chosen them.
pub fn filled(command: &str, values: &[&str]) -> String {
    let mut parts = command.split("{}");
    let mut line = parts.next().unwrap_or_default().to_owned();
    for (part, value) in parts.zip(values) {
        line.push_str(&shell_quoted(value));
        line.push_str(part);
    }
    line
}

/// Quotes a word for the shell, if necessary, on one line.
pub fn shell_quoted(word: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,+%".contains(c);
    // A shell or a terminal may take these for something else, also within quotes.
    let is_unsafe = |c: char| !(c.is_ascii_graphic() || c == ' ' || c.is_alphanumeric());
    if !word.is_empty() && word.chars().all(plain) {
        return Cow::Borrowed(word);
    }
    if !word.contains(is_unsafe) {
        return Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")));
    }
    // The quoting of bash, zsh and POSIX.1-2024 for characters that are not printed.
    let mut quoted = String::from("$'");
    for c in word.chars() {
        match c {
            '\'' | '\\' => quoted.extend(['\\', c]),
            c if is_unsafe(c) => {
                let mut bytes = [0; 4];
                for byte in c.encode_utf8(&mut bytes).bytes() {
                    quoted.push_str(&format!("\\{byte:03o}"));
                }
            }
            c => quoted.push(c),
        }
    }
    quoted.push('\'');
    Cow::Owned(quoted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suggested(args: &[&str]) -> String {
        let args = args.iter().map(OsString::from).collect::<Vec<_>>();
        shown("svc --sandbox", &args)
    }

    #[test]
    fn suggests_the_typed_command_line() {
        assert_eq!(
            suggested(&["svc", "emails", "get", "x"]),
            "svc --sandbox emails get x"
        );
        assert_eq!(
            suggested(&[
                "svc",
                "emails",
                "send",
                "--subject",
                "It's on",
                "--text",
                ""
            ]),
            r"svc --sandbox emails send --subject 'It'\''s on' --text ''"
        );
    }

    #[test]
    fn a_value_stays_one_word_of_one_line() {
        for (value, quoted) in [
            ("eml_1", "eml_1"),
            ("eml_1; curl x|sh #", "'eml_1; curl x|sh #'"),
            ("it's", r"'it'\''s'"),
            ("a\nb'\u{202e}", r"$'a\012b\'\342\200\256'"),
            ("", "''"),
        ] {
            let line = filled("emails get {} --wait", &[value]);
            assert_eq!(line, format!("emails get {quoted} --wait"));
        }
    }

    #[test]
    fn passwords_of_urls_are_not_shown() {
        let args = [
            "svc",
            "bulk",
            "work",
            "--ledger",
            "postgres://:secret@h:1",
            "--ledger=postgres://u:secret@h",
        ];
        let shown = suggested(&args);
        assert!(
            !shown.contains("secret") && shown.contains("@h:1"),
            "{shown}"
        );
    }
}
