//! Explains wrong command lines: what was wrong, and what was probably meant.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Command};

pub use self::ask::ask;
use self::typed::Typed;
use crate::failure::Failure;
use crate::suggest::nearest;

mod ask;
mod typed;
mod words;

/// Converts the error that clap returned for these arguments. `tree` has all commands.
pub fn failure(error: &clap::Error, tree: &Command, args: &[OsString]) -> Failure {
    let mut tree = tree.clone();
    let typed = Typed::read(&mut tree, args);
    let text = error.render().to_string();
    let message = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
    let message = message.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let (message, hint) = match error.kind() {
        ErrorKind::UnknownArgument => {
            let wrong = context(ContextKind::InvalidArg).unwrap_or_default();
            let word = wrong.split('=').next().unwrap_or_default();
            // The word may be a key, which errors never show.
            let is_secret = !word.starts_with('-') && typed.path() == "svc login";
            let message = if is_secret { UNEXPECTED_WORD.to_owned() } else { message };
            let hint = match is_secret && word.len() >= LONG_WORD {
                true => Some(KEY_ON_COMMAND_LINE.to_owned()),
                false => typed.instead_of_argument(word, args),
            };
            (message, hint)
        }
        ErrorKind::InvalidSubcommand => {
            let wrong = context(ContextKind::InvalidSubcommand).unwrap_or_default();
            (message, Some(typed.instead_of_command(wrong, args)))
        }
        ErrorKind::InvalidValue => {
            let wrong = context(ContextKind::InvalidValue).unwrap_or_default();
            let valid = match error.get(ContextKind::ValidValue) {
                Some(ContextValue::Strings(valid)) => valid.as_slice(),
                _ => &[],
            };
            let is_format = context(ContextKind::InvalidArg)
                .is_some_and(|option| option.starts_with("--output"));
            let meant = meant_value(wrong, valid).map(|meant| format!("did you mean {meant}?"));
            let hint = match is_format {
                true => meant.or_else(|| Some(typed.instead_of_format(wrong))),
                false => meant,
            };
            (message, hint)
        }
        _ => (message, None),
    };
    Failure::usage(message).hint(hint.unwrap_or_else(|| typed.usage()))
}

const UNEXPECTED_WORD: &str = "`svc login` takes no argument";

/// The length from which a word is more likely a key than the name of a profile.
const LONG_WORD: usize = 16;

const KEY_ON_COMMAND_LINE: &str = "a key is read from a hidden prompt, standard input or --key-file PATH\n\
    was it a key? replace it: others on this machine could read it, and it is in the shell's history";

/// The value that was probably meant. Events are named after their service: `email.delivered`.
fn meant_value<'a>(wrong: &str, valid: &'a [String]) -> Option<&'a str> {
    let is_event = |valid: &&String| {
        let has_name =
            |event: &str, name: &str| event.split_once('.').is_some_and(|(_, event)| event == name);
        has_name(valid, wrong) || has_name(wrong, valid)
    };
    let event = valid.iter().find(is_event).map(String::as_str);
    event.or_else(|| nearest(wrong, valid.iter().map(String::as_str)))
}

/// The names of the command that was parsed, such as `sandbox` and `clock`.
pub fn command_names(matches: &ArgMatches) -> Vec<&str> {
    let mut names = Vec::new();
    let mut level = matches;
    while let Some((name, below)) = level.subcommand() {
        names.push(name);
        level = below;
    }
    names
}

/// The words of the command that was typed, such as `svc sandbox clock`. `tree` has all commands.
pub fn typed_path(tree: &Command, args: &[OsString]) -> String {
    Typed::read(&mut tree.clone(), args).path()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(line: &str) -> String {
        let args = line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let tree = crate::command();
        let error = tree.clone().try_get_matches_from(&args).expect_err(line);
        failure(&error, &tree, &args).details().hint.clone().unwrap_or_default()
    }

    /// The command line and the first line of the hint.
    const MEANT: &[(&str, &str)] = &[
        // Options.
        ("sandbox serve --port 4080", "did you mean --addr <ADDR>?"),
        ("emails get --last", "list the options: svc emails get --help"),
        ("emails get --id eml_1", "did you mean the argument <ID>?"),
        (
            "emails get x --output=FILE",
            "--output is the format; to write to a file, redirect the output: svc emails get … > FILE",
        ),
        ("emails get x -o text", "did you mean table?"),
        (
            "emails get x --out f.json",
            "to write to a file, redirect the output: svc emails get … > FILE",
        ),
        (
            "emails get x --insecure",
            "certificates are always checked; to trust others: --ca-bundle <PATH>",
        ),
        ("emails get x --region eu", "did you mean --profile <NAME>?"),
        ("emails get x --watch", "did you mean --wait?"),
        ("--jsn emails get x", "did you mean --json?"),
        ("emails send --subjct x", "did you mean --subject <TEXT>?"),
        ("emails send --sender x", "did you mean --from <ADDRESS>?"),
        ("emails send --scheduledAt x", "did you mean --at <TIME>?"),
        ("emails send --reply_to x", "did you mean --reply-to <ADDRESS>?"),
        ("contacts create AUD --email x", "did you mean the argument <EMAIL>?"),
        ("contacts list --audience x", "did you mean the argument <AUDIENCE>?"),
        ("webhooks create --events x", "did you mean --event <EVENT>?"),
        ("webhooks create --url https://x.test", "did you mean the argument <URL>?"),
        ("listen --url http://localhost:1", "did you mean --forward-to <URL>?"),
        ("trigger email.sent --forward-to http://x", "did you mean --to <URL>?"),
        ("login --key mk_live_x", "did you mean --key-file <PATH>?"),
        // Words that are not taken.
        ("emails send help", "did you mean svc emails send --help?"),
        ("sandbox clock advance 1 hour", "usage: svc sandbox clock advance [OPTIONS] <DURATION>"),
        ("sandbox clock advance -1h", "usage: svc sandbox clock advance [OPTIONS] <DURATION>"),
        // Values.
        ("sandbox event eml_1 bounce", "did you mean bounced?"),
        ("sandbox event eml_1 email.bounced", "did you mean bounced?"),
        ("trigger delivered --to http://x", "did you mean email.delivered?"),
        // Commands.
        ("domain list", "did you mean svc domains?"),
        ("--sandbox --profile x domain list", "did you mean svc domains?"),
        ("send", "did you mean svc emails send or svc bulk send?"),
        ("import", "did you mean svc contacts import?"),
        ("qqq", "list the commands: svc --help"),
        ("status", "the setup: svc doctor; the local server: svc sandbox status"),
        ("get emails eml_1", "did you mean svc emails get?"),
        ("list domain", "did you mean svc domains list?"),
        ("list emails", "the service does not list emails; one email: svc emails get ID"),
        ("delete contact con_1", "did you mean svc contacts delete?"),
        ("start", "did you mean svc sandbox serve?"),
        ("emails sned", "did you mean svc emails send?"),
        ("emails remove x", "did you mean svc emails cancel? it stops a scheduled email"),
        ("emails help", "did you mean svc emails --help?"),
        ("profiles add x", "svc login creates a profile: svc login --profile NAME"),
        ("profiles delete x", "did you mean svc profiles remove?"),
        ("contacts add x", "did you mean svc contacts create?"),
        ("config list", "did you mean svc config show?"),
        ("sandbox faults create", "did you mean svc sandbox faults add?"),
    ];

    #[test]
    fn suggests_what_was_meant() {
        for (line, meant) in MEANT {
            let hint = hint(&format!("svc {line}"));
            assert_eq!(hint.lines().next(), Some(*meant), "{line}");
            assert!(hint.lines().count() <= 4, "{line}: {hint}");
        }
    }

    /// Every command that the tables name exists, and every option and argument is one of some
    /// command.
    #[test]
    fn the_tables_name_what_exists() {
        let mut tree = crate::command();
        tree.build();
        let mut commands = vec![("svc".to_owned(), &tree)];
        let mut next = 0;
        while let Some((path, command)) = commands.get(next).cloned() {
            let below = command.get_subcommands();
            commands.extend(below.map(|below| (format!("{path} {}", below.get_name()), below)));
            next += 1;
        }
        let exists = |path: &str| commands.iter().any(|(known, _)| known == path);
        let has = |word: &str| {
            commands.iter().any(|(_, command)| {
                let here = Typed { path: vec!["svc"], command, root: command };
                here.has_argument(word) || here.option(word).is_some()
            })
        };
        let places = words::OPTIONS.iter().map(|(place, ..)| place);
        let places = places.chain(words::COMMANDS.iter().map(|(place, ..)| place));
        for place in places {
            assert!(exists(place), "{place}");
        }
        let candidates = words::OPTIONS.iter().flat_map(|(.., ours)| ours.iter());
        let mut texts = words::COMMANDS.iter().map(|(.., hint)| *hint).collect::<Vec<_>>();
        texts.extend(words::FORMATS.iter().map(|(_, hint)| *hint));
        for candidate in candidates {
            match candidate.starts_with(['-', '<']) {
                true => assert!(has(candidate), "{candidate}"),
                false => texts.push(candidate),
            }
        }
        for text in texts {
            let words = text.split([' ', '\n', ';', ',', '?', ':']).collect::<Vec<_>>();
            for (index, _) in words.iter().enumerate().filter(|(_, word)| **word == "svc") {
                let second = words.get(index + 1).copied().unwrap_or_default();
                let is_named = exists(&format!("svc {second}"));
                let is_sentence = second == "is" || second.starts_with("--");
                assert!(is_named || is_sentence, "{text}: svc {second}");
                let group = format!("svc {second}");
                let third = words.get(index + 2).copied().unwrap_or_default();
                let is_group = commands.iter().any(|(path, command)| {
                    *path == group && command.has_subcommands() && !third.is_empty()
                });
                assert!(
                    !is_group || exists(&format!("{group} {third}")),
                    "{text}: {group} {third}"
                );
            }
            for word in words.iter().filter(|word| word.starts_with("--")) {
                assert!(has(word) || *word == "--version", "{text}: {word}");
            }
        }
    }

    #[test]
    fn usage_lines_leave_out_what_was_typed() {
        let line = "svc --sandbox -o json --profile x emails get";
        assert_eq!(hint(line), "usage: svc emails get [OPTIONS] <ID>");
    }

    #[test]
    fn common_names_of_commands_are_accepted() {
        for (line, path) in [
            ("svc domains ls", ["domains", "list"]),
            ("svc audiences rm x", ["audiences", "delete"]),
            ("svc emails show x", ["emails", "get"]),
            ("svc profiles rm x", ["profiles", "remove"]),
        ] {
            let matches = crate::command().try_get_matches_from(line.split(' ')).expect(line);
            let (group, below) = matches.subcommand().expect("a group");
            assert_eq!([group, below.subcommand_name().expect("a command")], path, "{line}");
        }
    }
}
