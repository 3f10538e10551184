//! Command lines for hints: `shown` repeats what the user typed, `filled` puts values into a new
//! command, `shell_quoted` quotes a word. Hints end up in logs and are pasted into shells. So a
//! repeated command line has no text of the user, no header's value and no password, and a value
//! that a service chose cannot become a second word or an escape sequence.

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
/// options. Hints end up in logs: it has no text of the user, no header's value and no password of a
/// URL. `command` is the one that the words are of.
pub fn shown(program: &str, args: &[OsString], command: &clap::Command) -> String {
    let mut line = program.to_owned();
    let mut hides = false;
    for arg in args.iter().skip(1) {
        let arg = arg.to_string_lossy();
        let is_value = std::mem::take(&mut hides);
        let word = match text_option(&arg, command) {
            _ if is_value => hidden(&arg),
            None => shell_quoted(&without_password_in_option(&arg)).into_owned(),
            Some((option, None)) => {
                hides = true;
                option.to_owned()
            }
            Some((option, Some(value))) => format!("{option}{}", hidden(value)),
        };
        line.push(' ');
        line.push_str(&word);
    }
    line
}

/// An option that takes a text of the user, with its value if that is in the same word.
fn text_option<'a>(word: &'a str, command: &clap::Command) -> Option<(&'a str, Option<&'a str>)> {
    let takes_text = |arg: &&clap::Arg| {
        let names = arg.get_value_names().unwrap_or_default();
        let is_text = |name: &str| TEXTS.iter().any(|text| name.contains(text));
        names.iter().any(|name| is_text(name.as_str()))
    };

    let mut texts = command.get_arguments().filter(takes_text);
    if let Some(long) = word.strip_prefix("--") {
        let name = long.split('=').next()?;
        texts.find(|arg| is_long(arg, name))?;
        let end = word.find('=').map(|at| at + 1);
        return Some(match end {
            Some(end) => (&word[..end], Some(&word[end..])),
            None => (word, None),
        });
    }

    let short = word.strip_prefix('-')?.chars().next()?;
    texts.find(|arg| arg.get_short() == Some(short))?;
    let end = 1 + short.len_utf8();
    Some((
        &word[..end],
        Some(&word[end..]).filter(|value| !value.is_empty()),
    ))
}

/// Whether an option has this long name.
pub fn is_long(option: &clap::Arg, name: &str) -> bool {
    let aliases = option.get_all_aliases().unwrap_or_default();
    option.get_long() == Some(name) || aliases.contains(&name)
}

/// Words in the names of values that are texts of the user.
const TEXTS: [&str; 3] = ["TEXT", "VALUE", "JSON"];

/// The placeholder for a text. The name of a file is shown.
fn hidden(value: &str) -> String {
    if value.starts_with('@') || value == "-" {
        shell_quoted(value).into_owned()
    } else {
        "…".to_owned()
    }
}

fn without_password_in_option(word: &str) -> String {
    match word.split_once('=') {
        Some((option, value)) if option.starts_with("--") => {
            format!("{option}={}", without_password(value))
        }
        _ => without_password(word),
    }
}

/// A command with values in place of each `{}`, quoted for the shell: a service may have chosen them.
/// One that begins with a hyphen would be an option, so the values come last then, after `--`.
pub fn filled(command: &str, values: &[&str]) -> String {
    if values.iter().any(|value| value.starts_with('-')) {
        let line = command.replace(" {}", "") + " --";
        let quoted = values.iter().map(|value| shell_quoted(value));
        return quoted.fold(line, |line, value| line + " " + &value);
    }

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

    fn suggested(path: &[&str], args: &[&str]) -> String {
        let tree = crate::app::command();
        let words = path.iter();
        let command = words.fold(&tree, |command, word| {
            command.find_subcommand(word).expect("a command")
        });
        let words = std::iter::once(&"svc").chain(path).chain(args);
        let words = words.map(OsString::from).collect::<Vec<_>>();
        shown("svc --sandbox", &words, command)
    }

    #[test]
    fn suggests_the_typed_command_line_without_texts_of_the_user() {
        assert_eq!(
            suggested(&["emails", "get"], &["x y"]),
            "svc --sandbox emails get 'x y'"
        );
        let options = [
            "--subject",
            "It's on",
            "--text=-a secret",
            "--html",
            "@letter.html",
            "--to",
            "a@b.test",
            "--header",
            "X-Token: secret",
            "--tag",
            "a=secret",
            "--wait",
        ];
        assert_eq!(
            suggested(&["emails", "send"], &options),
            "svc --sandbox emails send --subject … --text=… --html @letter.html --to a@b.test \
             --header … --tag … --wait"
        );
        let options = [
            "POST",
            "/x",
            "-H",
            "X-Token: secret",
            "-HX-Token: secret",
            "-d{}",
            "-fa=b",
        ];
        assert_eq!(
            suggested(&["api"], &options),
            "svc --sandbox api POST /x -H … -H… -d… -f…"
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
        let line = filled("contacts get {} {} --wait", &["-x", "a;b"]);
        assert_eq!(line, "contacts get --wait -- -x 'a;b'");
    }

    #[test]
    fn passwords_of_urls_are_not_shown() {
        let shown = suggested(
            &["login"],
            &[
                "--email-url",
                "https://:secret@h:1",
                "--email-url=https://u:secret@h",
                "u:secret@h/x",
            ],
        );
        assert!(
            !shown.contains("secret") && shown.contains("@h:1"),
            "{shown}"
        );
    }
}
