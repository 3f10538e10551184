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

/// Quotes a word for the shell, if necessary.
pub fn shell_quoted(word: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
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
