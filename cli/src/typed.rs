//! The command line as it was typed, to suggest one that can be typed next.

use std::borrow::Cow;
use std::ffi::OsString;

/// Options that cannot stand beside `--sandbox`, or mean nothing there.
const OUTSIDE: [&str; 4] = ["--email-url", "--extraction-url", "--key-file", "--profile"];

/// The same command in the sandbox.
pub fn in_sandbox(args: &[OsString]) -> String {
    let mut line = "svc --sandbox".to_owned();
    let mut args = args.iter().skip(1).map(|arg| arg.to_string_lossy());
    while let Some(arg) = args.next() {
        let name = arg.split('=').next().unwrap_or_default();
        if OUTSIDE.contains(&name) {
            if name == arg {
                args.next();
            }
            continue;
        }
        line.push(' ');
        line.push_str(&quoted(&arg));
    }
    line
}

/// A word as a shell reads it back.
pub fn quoted(word: &str) -> Cow<'_, str> {
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
        in_sandbox(&args)
    }

    #[test]
    fn the_users_own_words_come_back() {
        assert_eq!(suggested(&["svc", "emails", "get", "x"]), "svc --sandbox emails get x");
        assert_eq!(
            suggested(&["svc", "emails", "send", "--subject", "It's on", "--text", ""]),
            r"svc --sandbox emails send --subject 'It'\''s on' --text ''"
        );
    }

    #[test]
    fn what_the_sandbox_refuses_is_left_out() {
        let args = ["svc", "--profile", "p", "--email-url=http://x", "audiences", "list"];
        assert_eq!(suggested(&args), "svc --sandbox audiences list");
    }
}
