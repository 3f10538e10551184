//! Explains a wrong command line: `failure` takes clap's error and the command tree, and returns a
//! `Failure` with one hint. `usage_words.json` has words of other programs; a hint
//! that suggests an option or command is given only if it exists. Values that may be secret, such
//! as headers, passwords in URLs or a key after `svc login`, are not repeated. `spelling.rs` comes
//! first, and accepts what is clear.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use serde::Deserialize;

use crate::command_spec::CommandSpec;
use crate::failure::Failure;
use crate::urls::without_password;

/// Words of other programs, and what they are here. clap itself suggests what is only misspelled.
#[derive(Deserialize)]
struct OtherWords {
    /// The command or group; empty for any.
    #[serde(default)]
    place: String,
    words: Vec<String>,
    hint: String,
}

fn other_words() -> Vec<OtherWords> {
    serde_json::from_str(include_str!("usage_words.json")).unwrap_or_default()
}

/// Converts an error of clap about a command line of this tree.
pub fn failure(error: &clap::Error, tree: &clap::Command) -> Failure {
    let text = without_secrets(&error.render().to_string(), error);
    let mut paragraphs = text.split("\n\n").map(str::trim);
    let message = paragraphs
        .next()
        .unwrap_or_default()
        .trim_start_matches("error: ");
    let message = message.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    let message = message.replace("invalid digit found in string", "it is not a whole number");
    let mut tips = Vec::new();
    let mut usage = None;
    for paragraph in paragraphs {
        if paragraph.starts_with("Usage: ") {
            usage = Some(paragraph);
        } else {
            tips.extend(
                paragraph
                    .lines()
                    .filter_map(|it| it.trim().strip_prefix("tip: "))
                    .filter(|it| !it.starts_with("to pass ")),
            );
        }
    }

    let path = usage.map(path).unwrap_or_default();
    let word = [ContextKind::InvalidArg, ContextKind::InvalidSubcommand];
    let word = word.into_iter().find_map(|kind| match error.get(kind) {
        Some(ContextValue::String(word)) => word.split('=').next(),
        _ => None,
    });
    let word = word.unwrap_or_default();
    let is_command = error.kind() == ErrorKind::InvalidSubcommand;
    // A word may also be too many, or the value of an option.
    let mut words = path.split(' ');
    let command = words.try_fold(tree, |level, word| level.find_subcommand(word));
    let spec = command.and_then(|command| command.get::<CommandSpec>());
    let takes_key = spec.is_some_and(|spec| spec.checks_key);
    if error.kind() == ErrorKind::UnknownArgument && takes_key && !word.starts_with('-') {
        // The word may be a key, which errors never show.
        return Failure::usage(format!("`svc {path}` takes no argument")).hint(KEY_ON_COMMAND_LINE);
    }

    let mut usage = usage.map(str::to_owned);
    // What clap finds similar may share only a few letters. Then its usage has that option, too.
    if let Some(ContextValue::String(option)) = error.get(ContextKind::SuggestedArg)
        && !is_similar(word, option)
    {
        tips.clear();
        usage = command.map(|command| command.clone().render_usage().to_string());
    }

    let is_meant = |other: &OtherWords| {
        let is_here = path == other.place || path.starts_with(&format!("{} ", other.place));
        (other.place.is_empty() || is_here)
            && other.words.iter().any(|known| known == word)
            && (is_command || word.starts_with('-'))
            && is_there(&other.hint, command.unwrap_or(tree))
    };

    let sandbox = tree.find_subcommand("sandbox");
    let of_sandbox = sandbox.and_then(|sandbox| sandbox.find_subcommand(word));
    let hint = match other_words().into_iter().find(is_meant) {
        Some(other) => Some(other.hint),
        None if is_command && path.is_empty() && of_sandbox.is_some() => {
            Some(format!("did you mean svc sandbox {word}?"))
        }
        None if is_command && tips.is_empty() => Some(list_commands(&path)),
        None if tips.is_empty() => usage.map(|usage| usage.replacen("Usage:", "usage:", 1)),
        None => Some(tips.join("\n")),
    };
    let failure = Failure::usage(message);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Whether an option may have been meant by a word: up to two letters differ, or one begins the other.
fn is_similar(word: &str, option: &str) -> bool {
    strsim::damerau_levenshtein(word, option) <= 2
        || option.starts_with(word)
        || word.starts_with(option)
}

/// Whether the command has what a hint says was meant.
fn is_there(hint: &str, command: &clap::Command) -> bool {
    let Some(meant) = hint.strip_prefix("did you mean ") else {
        return true;
    };

    let meant = meant.trim_end_matches('?');
    if let Some(option) = meant.strip_prefix("--") {
        let name = option.split(' ').next();
        return command.get_arguments().any(|arg| arg.get_long() == name);
    }

    let mut names = meant.split(" or ");
    meant.starts_with("svc ") || names.any(|name| command.find_subcommand(name).is_some())
}

/// The message without the value of a header, or the password of a URL.
fn without_secrets(message: &str, error: &clap::Error) -> String {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };

    let value = text(ContextKind::InvalidValue);
    if value.is_empty() {
        return message.to_owned();
    }

    if text(ContextKind::InvalidArg).contains("--header") {
        message.replace(value, "…")
    } else {
        message.replace(value, &without_password(value))
    }
}

/// The failure for a group without a command.
pub fn no_command(error: &clap::Error) -> Failure {
    let help = error.render().to_string();
    let usage = help
        .lines()
        .find(|line| line.starts_with("Usage: "))
        .unwrap_or_default();
    Failure::usage("no command given").hint(list_commands(&path(usage)))
}

fn list_commands(path: &str) -> String {
    format!(
        "list the commands: {} --help",
        ["svc", path].join(" ").trim()
    )
}

const KEY_ON_COMMAND_LINE: &str = "a key is read from a hidden prompt, standard input or --key-file PATH\n\
    was it a key? replace it: others on this machine could read it, and it is in the shell's history";

/// The words of the command in a usage line: `sandbox clock` in `Usage: svc sandbox clock <COMMAND>`.
fn path(usage: &str) -> String {
    let words = usage.trim_start_matches("Usage: svc").split_whitespace();
    let words = words.take_while(|word| word.starts_with(|first: char| first.is_ascii_lowercase()));
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(line: &str) -> String {
        let mut tree = crate::app::command();
        let error = tree.try_get_matches_from_mut(line.split(' '));
        tree.build();
        let failure = failure(&error.expect_err(line), &tree);
        failure.hint.clone().unwrap_or_default()
    }

    #[test]
    fn suggests_what_was_meant() {
        for (line, meant) in [
            (
                "svc emails send --subjct x",
                "a similar argument exists: '--subject'",
            ),
            (
                "svc --jsn emails get x",
                "a similar argument exists: '--json'",
            ),
            (
                "svc emails send --sender x",
                "did you mean --from <ADDRESS>?",
            ),
            (
                "svc emails get x --insecure",
                "certificates are always checked; to trust others: --ca-bundle <PATH>",
            ),
            ("svc emails sned", "a similar subcommand exists: 'send'"),
            (
                "svc emails list",
                "the service does not list emails; one email: svc emails get ID",
            ),
            (
                "svc emails delete x",
                "did you mean svc emails cancel? it stops a scheduled email",
            ),
            (
                "svc contacts export x",
                "did you mean svc contacts list AUDIENCE --all -o csv?",
            ),
            ("svc webhooks edit x", "did you mean update?"),
            ("svc emails get x --follow", "did you mean --wait?"),
            ("svc emails get x --debug", "did you mean --verbose?"),
            (
                "svc status",
                "the setup: svc doctor; the sandbox: svc sandbox status; a job: svc bulk status",
            ),
            ("svc sandbox start", "did you mean svc sandbox serve?"),
            (
                "svc profiles add x",
                "svc login creates a profile: svc login --profile NAME",
            ),
            ("svc qqq", "list the commands: svc --help"),
            ("svc sandbox qqq", "list the commands: svc sandbox --help"),
            (
                "svc --sandbox -o json emails get",
                "usage: svc emails get <ID>",
            ),
        ] {
            let hint = hint(line);
            assert_eq!(hint.lines().next(), Some(meant), "{line}");
            assert!(hint.lines().count() <= 4, "{line}: {hint}");
        }
    }

    #[test]
    fn gives_no_hint_that_does_not_help() {
        for (line, meant) in [
            (
                "svc emails get x status",
                "usage: svc emails get [OPTIONS] <ID>",
            ),
            ("svc bulk send x.csv --rate 1/d", ""),
            ("svc -o foo emails get x", ""),
            // The command has no such option.
            (
                "svc audiences get x --limit 3",
                "usage: svc audiences get <ID>",
            ),
            (
                "svc audiences create x --follow",
                "usage: svc audiences create [OPTIONS] <NAME>",
            ),
        ] {
            assert_eq!(hint(line), meant, "{line}");
        }

        let error = crate::app::command()
            .try_get_matches_from(["svc", "bulk"])
            .expect_err("none");
        let hint = no_command(&error).hint.clone();
        assert_eq!(hint.as_deref(), Some("list the commands: svc bulk --help"));
    }

    #[test]
    fn a_key_on_the_command_line_is_not_repeated() {
        let line = ["svc", "login", "mk_live_secret"];
        let mut tree = crate::app::command();
        let error = tree.try_get_matches_from_mut(line).expect_err("refused");
        let failure = failure(&error, &tree);
        assert!(
            !failure.to_json().to_string().contains("mk_live"),
            "{failure:?}"
        );
    }

    #[test]
    fn common_names_of_commands_are_accepted() {
        for (line, path) in [
            ("svc domains ls", ["domains", "list"]),
            ("svc audiences rm x", ["audiences", "delete"]),
            ("svc emails show x", ["emails", "get"]),
            ("svc profiles rm x", ["profiles", "remove"]),
        ] {
            let matches = crate::app::command()
                .try_get_matches_from(line.split(' '))
                .expect(line);
            let (group, below) = matches.subcommand().expect("a group");
            assert_eq!(
                [group, below.subcommand_name().expect("a command")],
                path,
                "{line}"
            );
        }
    }
}
