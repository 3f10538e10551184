//! Explains wrong command lines: what was wrong, and what was probably meant.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};

use crate::command_spec::COMMANDS;
use crate::failure::Failure;
use crate::output::Printer;
use crate::suggest::nearest;

/// Options that other programs use for ours. The first that the command has is suggested.
const OPTIONS: &[(&str, &[&str])] = &[
    ("--port", &["--addr"]),
    ("--host", &["--addr", "--forward-to"]),
    ("--bind", &["--addr"]),
    ("--listen", &["--addr"]),
    ("--addr", &["--port"]),
    ("--key", &["--key-file"]),
    ("--api-key", &["--key-file"]),
    ("--apikey", &["--key-file"]),
    ("--token", &["--key-file"]),
    ("--password", &["--key-file"]),
    ("--secret", &["--secret-file"]),
    ("--signing-secret", &["--secret-file"]),
    ("--format", &["--output"]),
    ("--force", &["--yes"]),
    ("--local", &["--sandbox"]),
    ("--file", &["--attach", "--body", "--data"]),
    ("--attachment", &["--attach"]),
    ("--schedule", &["--at"]),
    ("--scheduled-at", &["--at"]),
    ("--send-at", &["--at"]),
    ("--delay", &["--at"]),
    ("--title", &["--subject"]),
    ("--message", &["--text"]),
    ("--content", &["--text", "--data"]),
    ("--events", &["--event"]),
    ("--metadata", &["--meta"]),
    ("--limit", &["--page-size"]),
    ("--per-page", &["--page-size"]),
    ("--deadline", &["--timeout"]),
    ("--forward", &["--forward-to"]),
    ("--url", &["--email-url", "--forward-to", "--to"]),
    ("--base-url", &["--email-url"]),
    ("--debug", &["--verbose"]),
];

/// Commands that other programs use for ours.
const COMMAND_WORDS: &[(&str, &[&str])] = &[
    ("add", &["create"]),
    ("new", &["create"]),
    ("remove", &["delete"]),
    ("destroy", &["delete"]),
    ("delete", &["remove"]),
    ("edit", &["update"]),
    ("set", &["update"]),
    ("view", &["get", "show"]),
    ("get", &["show", "list"]),
    ("status", &["get", "verify", "show"]),
    ("search", &["list"]),
    ("find", &["list"]),
    ("start", &["serve"]),
    ("run", &["serve"]),
    ("up", &["serve"]),
    ("down", &["stop"]),
    ("auth", &["login"]),
    ("hooks", &["webhooks"]),
    ("mail", &["emails"]),
    ("lists", &["audiences"]),
];

/// Adds the hidden names of commands that users of other programs type: `ls`, `rm`, `show`.
pub fn with_aliases(command: Command) -> Command {
    let has = |name: &str| command.get_subcommands().any(|below| below.get_name() == name);
    let has_show = has("show");
    command.mut_subcommands(move |below| {
        let below = match below.get_name() {
            "list" => below.alias("ls"),
            "delete" | "remove" => below.alias("rm"),
            "get" if !has_show => below.alias("show"),
            _ => below,
        };
        with_aliases(below)
    })
}

/// Converts clap's error.
pub fn failure(error: &clap::Error, args: &[OsString]) -> Failure {
    let mut tree = crate::command();
    tree.build();
    let typed = Typed::read(&tree, args);
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
            (message, typed.instead_of_argument(word))
        }
        ErrorKind::InvalidSubcommand => {
            let wrong = context(ContextKind::InvalidSubcommand).unwrap_or_default();
            (message, Some(typed.instead_of_command(&tree, wrong)))
        }
        ErrorKind::InvalidValue => {
            let wrong = context(ContextKind::InvalidValue).unwrap_or_default();
            let valid = match error.get(ContextKind::ValidValue) {
                Some(ContextValue::Strings(valid)) => valid.as_slice(),
                _ => &[],
            };
            // Events are named after their service: email.delivered.
            let suffix = format!(".{wrong}");
            let event = valid.iter().find(|valid| valid.ends_with(&suffix)).map(String::as_str);
            let meant = event.or_else(|| nearest(wrong, valid.iter().map(String::as_str)));
            let is_format = context(ContextKind::InvalidArg)
                .is_some_and(|option| option.starts_with("--output"));
            let hint = match wrong {
                "csv" | "tsv" if is_format => Some(format!(
                    "contacts as CSV: svc contacts export\n\
                     other lists: --jq '.[] | [.id, .name] | @{wrong}'"
                )),
                _ => meant.map(|meant| format!("did you mean {meant}?")),
            };
            (message, hint)
        }
        _ => (message, None),
    };
    Failure::usage(message).hint(hint.unwrap_or_else(|| typed.usage()))
}

/// The words of the command that was typed, such as `svc sandbox clock`.
pub fn typed_path(args: &[OsString]) -> String {
    let mut tree = crate::command();
    tree.build();
    Typed::read(&tree, args).path()
}

/// Commands whose missing values are asked for, each with the questions.
const QUESTIONS: &[(&str, &[(&str, &str)])] = &[
    ("svc emails send", &[("--from", "From: "), ("--to", "To: "), ("--subject", "Subject: ")]),
    (
        "svc webhooks create",
        &[
            ("<URL>", "HTTPS URL that receives the events: "),
            ("--event", "Events, such as email.delivered,email.bounced: "),
        ],
    ),
    (
        "svc extraction webhooks create",
        &[
            ("<URL>", "HTTPS URL that receives the events: "),
            ("--event", "Events, such as extraction.completed: "),
        ],
    ),
];

/// Asks for missing values on a terminal and returns the complete command line. `None` if the
/// command asks for nothing, or an answer is empty.
pub fn ask(
    error: &clap::Error,
    args: &[OsString],
    out: &Printer,
) -> Result<Option<Vec<OsString>>, Failure> {
    let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg) else {
        return Ok(None);
    };
    let is_missing = error.kind() == ErrorKind::MissingRequiredArgument;
    if !is_missing || !out.can_ask() || !out.is_table() || args.iter().any(|arg| arg == "--") {
        return Ok(None);
    }
    let path = typed_path(args);
    let Some((_, questions)) = QUESTIONS.iter().find(|(asking, _)| *asking == path) else {
        return Ok(None);
    };
    let names = missing.iter().map(|name| name.split(' ').next().unwrap_or_default());
    let names = names.collect::<Vec<_>>();
    if names.iter().any(|name| !questions.iter().any(|(known, _)| known == name)) {
        return Ok(None);
    }
    let questions = questions.iter().filter(|(name, _)| names.contains(name));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let answers: Result<_, Failure> = runtime.block_on(async {
        let mut answers = Vec::<OsString>::new();
        for (name, question) in questions {
            let answer = out.ask(question).await?.filter(|answer| !answer.is_empty());
            let Some(answer) = answer else { return Ok(None) };
            answers.push(match name.starts_with("--") {
                // With `=`, an answer that begins with a dash is a value too.
                true => format!("{name}={answer}").into(),
                false => answer.into(),
            });
        }
        Ok(Some(answers))
    });
    // The thread of a prompt that was interrupted is still reading standard input.
    runtime.shutdown_background();
    Ok(answers?.map(|answers| [args, &answers].concat()))
}

/// The command that was typed, as far as it exists.
struct Typed<'a> {
    path: Vec<&'a str>,
    command: &'a Command,
}

impl<'a> Typed<'a> {
    /// Skips options and their values, which may stand between the words of a command.
    fn read(tree: &'a Command, args: &[OsString]) -> Self {
        let mut typed = Self { path: vec!["svc"], command: tree };
        let mut args = args.iter().skip(1).map(|arg| arg.to_string_lossy());
        while let Some(arg) = args.next() {
            if arg == "--" {
                break;
            }
            if arg.starts_with('-') {
                let takes_value = typed.option(&arg).is_some_and(|o| o.get_action().takes_values());
                if takes_value && !arg.contains('=') {
                    args.next();
                }
                continue;
            }
            match typed.command.find_subcommand(arg.as_ref()) {
                Some(below) => {
                    typed.path.push(below.get_name());
                    typed.command = below;
                }
                None => break,
            }
        }
        typed
    }

    fn option(&self, word: &str) -> Option<&'a Arg> {
        let word = word.split('=').next().unwrap_or_default();
        self.command.get_arguments().find(|option| {
            let long = option.get_long().is_some_and(|long| word.strip_prefix("--") == Some(long));
            let short = option.get_short().is_some_and(|short| {
                word.strip_prefix('-').is_some_and(|rest| rest == short.to_string())
            });
            long || short
        })
    }

    fn path(&self) -> String {
        self.path.join(" ")
    }

    /// The usage of the command, without the options that were typed.
    fn usage(&self) -> String {
        let usage = self.command.clone().render_usage().to_string();
        usage.replacen("Usage:", "usage:", 1)
    }

    fn instead_of_argument(&self, word: &str) -> Option<String> {
        if !word.starts_with('-') {
            return None;
        }
        let path = self.path();
        let shown = |option: &Arg| {
            let name = format!("--{}", option.get_long().unwrap_or_default());
            match option.get_value_names().filter(|_| option.get_action().takes_values()) {
                Some(names) => format!("{name} <{}>", names.join("> <")),
                None => name,
            }
        };
        let known = OPTIONS.iter().filter(|(other, _)| *other == word);
        let known = known.flat_map(|(_, ours)| *ours).find_map(|ours| self.option(ours));
        if let Some(option) = known {
            let why = match option.get_long() {
                Some("key-file") => "\na key on the command line is visible to other users",
                _ => "",
            };
            return Some(format!("did you mean {}?{why}", shown(option)));
        }
        let names = self.command.get_arguments().filter_map(Arg::get_long);
        let names = names.map(|name| format!("--{name}")).collect::<Vec<_>>();
        let similar = nearest(word, names.iter().map(String::as_str));
        Some(match similar.and_then(|name| self.option(name)) {
            Some(option) => format!("did you mean {}?", shown(option)),
            None => format!("list the options: {path} --help"),
        })
    }

    fn instead_of_command(&self, tree: &Command, word: &str) -> String {
        let path = self.path();
        let names = self.command.get_subcommands().map(Command::get_name).collect::<Vec<_>>();
        let known = COMMAND_WORDS.iter().filter(|(other, _)| *other == word);
        let known = known.flat_map(|(_, ours)| *ours).find(|ours| names.contains(ours)).copied();
        if let Some(meant) = known.or_else(|| nearest(word, names.iter().copied())) {
            return format!("did you mean {path} {meant}?");
        }
        if self.command.get_name() != tree.get_name() {
            return match (path.as_str(), word) {
                ("svc profiles", "add" | "create" | "new") => {
                    "svc login creates a profile: svc login --profile NAME".to_owned()
                }
                _ => format!("commands of {path}: {}", names.join(", ")),
            };
        }
        // A command of a group, without the name of the group.
        let elsewhere = COMMANDS.iter().filter(|spec| spec.path.ends_with(&format!(" {word}")));
        let elsewhere = elsewhere.map(|spec| format!("svc {}", spec.path)).collect::<Vec<_>>();
        match elsewhere.len() {
            1 | 2 => format!("did you mean {}?", elsewhere.join(" or ")),
            _ => "list the commands: svc --help".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(line: &str) -> String {
        let args = line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let error = crate::command().try_get_matches_from(&args).expect_err(line);
        failure(&error, &args).details().hint.clone().unwrap_or_default()
    }

    #[test]
    fn suggests_what_was_meant() {
        for (line, meant) in [
            ("svc sandbox serve --port 4080", "did you mean --addr <ADDR>?"),
            ("svc domain list", "did you mean svc domains?"),
            ("svc --sandbox --profile x domain list", "did you mean svc domains?"),
            ("svc send", "did you mean svc emails send or svc bulk send?"),
            ("svc qqq", "list the commands: svc --help"),
            ("svc import", "did you mean svc contacts import?"),
            ("svc emails sned", "did you mean svc emails send?"),
            ("svc profiles add x", "svc login creates a profile: svc login --profile NAME"),
            ("svc emails status eml_1", "did you mean svc emails get?"),
            ("svc logs", "list the commands: svc --help"),
            ("svc retries", "list the commands: svc --help"),
            ("svc emails get --last", "list the options: svc emails get --help"),
            ("svc webhooks get x", "did you mean svc webhooks list?"),
            ("svc emails remove x", "commands of svc emails: send, batch, get, cancel"),
            ("svc contacts add x", "did you mean svc contacts create?"),
            ("svc webhooks create --events x", "did you mean --event <EVENT>?"),
            ("svc emails send --subjct x", "did you mean --subject <TEXT>?"),
            ("svc emails send --title x", "did you mean --subject <TEXT>?"),
            ("svc --jsn emails get x", "did you mean --json?"),
            ("svc emails get x --zzz", "list the options: svc emails get --help"),
            ("svc sandbox event eml_1 bounce", "did you mean bounced?"),
            ("svc trigger delivered --to http://x", "did you mean email.delivered?"),
        ] {
            assert_eq!(hint(line), meant, "{line}");
        }
        assert!(hint("svc audiences list -o csv").ends_with("| @csv'"));
        let login = hint("svc login --key mk_live_x");
        assert!(login.starts_with("did you mean --key-file <PATH>?\n"), "{login}");
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
