//! The command that was typed, and what was probably meant in place of a wrong part of it.

use std::ffi::OsString;

use clap::{Arg, Command};

use super::{command_names, words};
use crate::COMMANDS;
use crate::suggest::nearest;

/// The command that was typed, as far as it exists.
pub(super) struct Typed<'a> {
    pub(super) path: Vec<&'a str>,
    pub(super) command: &'a Command,
    /// The whole tree.
    pub(super) root: &'a Command,
}

impl<'a> Typed<'a> {
    /// The command up to the first mistake, in a tree that has all commands.
    pub(super) fn read(tree: &'a mut Command, args: &[OsString]) -> Self {
        *tree = ignoring_errors(std::mem::take(tree));
        let parsed = tree.try_get_matches_from_mut(args);
        let root = &*tree;
        let mut typed = Self { path: vec!["svc"], command: root, root };
        for name in parsed.iter().flat_map(command_names) {
            let Some(below) = typed.command.find_subcommand(name) else { break };
            typed.path.push(below.get_name());
            typed.command = below;
        }
        typed
    }

    pub(super) fn option(&self, word: &str) -> Option<&'a Arg> {
        let word = word.split('=').next().unwrap_or_default();
        self.command.get_arguments().find(|option| {
            let long = option.get_long().is_some_and(|long| word.strip_prefix("--") == Some(long));
            let short = option.get_short().is_some_and(|short| {
                word.strip_prefix('-').is_some_and(|rest| rest == short.to_string())
            });
            long || short
        })
    }

    /// Whether the command has an argument with this name, such as `<URL>`.
    pub(super) fn has_argument(&self, name: &str) -> bool {
        let name = name.trim_matches(['<', '>']);
        self.command.get_positionals().any(|argument| {
            argument.get_value_names().is_some_and(|names| names.iter().any(|n| *n == name))
        })
    }

    pub(super) fn path(&self) -> String {
        self.path.join(" ")
    }

    /// Whether a row of the tables applies to this command.
    fn is_below(&self, place: &str) -> bool {
        let path = self.path();
        path.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    }

    /// The usage of the command, without the options that were typed.
    pub(super) fn usage(&self) -> String {
        let usage = self.command.clone().render_usage().to_string();
        usage.replacen("Usage:", "usage:", 1)
    }

    pub(super) fn instead_of_argument(&self, word: &str, args: &[OsString]) -> Option<String> {
        if !word.starts_with('-') {
            return Some(self.instead_of_surplus(word, args));
        }
        // A negative number or duration is a value.
        if word[1..].starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let word = kebab_case(word);
        let argument = format!("<{}>", word.trim_start_matches('-').to_uppercase());
        let mut is_known = false;
        let rows = words::OPTIONS.iter();
        let rows = rows.filter(|(place, typed, _)| typed.contains(&&*word) && self.is_below(place));
        let meant = rows.inspect(|_| is_known = true).flat_map(|(_, _, ours)| *ours);
        let meant = [word.as_str(), &argument]
            .iter()
            .copied()
            .chain(meant.copied())
            .find_map(|candidate| self.suggestion(candidate));
        if meant.is_some() {
            return meant;
        }
        let names = self.command.get_arguments().filter_map(Arg::get_long);
        let names = names.map(|name| format!("--{name}")).collect::<Vec<_>>();
        // The options of another program are not misspelled ones of this command.
        let similar = match is_known {
            true => None,
            false => nearest(&word, names.iter().map(String::as_str)),
        };
        let similar = similar.and_then(|name| self.suggestion(name));
        Some(similar.unwrap_or_else(|| format!("list the options: {} --help", self.path())))
    }

    /// A word that the command does not take.
    fn instead_of_surplus(&self, word: &str, args: &[OsString]) -> String {
        if word == "help" {
            return format!("did you mean {} --help?", self.path());
        }
        // `--subject Hello there`: the word before is a value too.
        let after_value = args.windows(2).any(|pair| {
            let before = pair[0].to_string_lossy();
            pair[1] == word && !before.starts_with('-') && !self.path.contains(&&*before)
        });
        match after_value && word.chars().all(char::is_alphanumeric) {
            true => format!("{}\nquote a value that contains blanks", self.usage()),
            false => self.usage(),
        }
    }

    /// The hint for a candidate of the tables, if the command has what it names.
    fn suggestion(&self, candidate: &str) -> Option<String> {
        if candidate.starts_with('<') {
            return self
                .has_argument(candidate)
                .then(|| format!("did you mean the argument {candidate}?\n{}", self.usage()));
        }
        if !candidate.starts_with('-') {
            return Some(candidate.replace("{path}", &self.path()));
        }
        let option = self.option(candidate)?;
        let name = format!("--{}", option.get_long().unwrap_or_default());
        let shown = match option.get_value_names().filter(|_| option.get_action().takes_values()) {
            Some(names) => format!("{name} <{}>", names.join("> <")),
            None => name,
        };
        let why = match option.get_long() {
            Some("key-file") => "\na key on the command line is visible to other users",
            _ => "",
        };
        Some(format!("did you mean {shown}?{why}"))
    }

    /// A value of `--output` that is not a format, such as the name of a file.
    pub(super) fn instead_of_format(&self, word: &str) -> String {
        let name = word.split('=').next().unwrap_or_default();
        let known = words::FORMATS.iter().find(|(typed, _)| typed.contains(&name));
        match known {
            Some((_, hint)) => (*hint).to_owned(),
            None => format!(
                "--output is the format; to write to a file, redirect the output: {} … > FILE",
                self.path()
            ),
        }
    }

    pub(super) fn instead_of_command(&self, word: &str, args: &[OsString]) -> String {
        let tree = self.root;
        // The words in another order: `svc list domains`.
        let is_top = self.command.get_name() == tree.get_name();
        let next = args.iter().skip_while(|arg| *arg != word).nth(1).and_then(|arg| arg.to_str());
        if let Some(group) = next.filter(|_| is_top).and_then(|next| {
            let groups = tree.get_subcommands().filter(|group| group.has_subcommands());
            tree.find_subcommand(nearest(next, groups.map(Command::get_name))?)
        }) {
            let group = Typed { path: vec!["svc", group.get_name()], command: group, root: tree };
            let command = group.command.find_subcommand(word).map(Command::get_name);
            let meant = command.map(|name| format!("did you mean {} {name}?", group.path()));
            if let Some(meant) = meant.or_else(|| group.meant_command(word)) {
                return meant;
            }
        }
        if let Some(meant) = self.meant_command(word) {
            return meant;
        }
        let path = self.path();
        if !is_top {
            let names = self.command.get_subcommands().map(Command::get_name).collect::<Vec<_>>();
            return format!("commands of {path}: {}", names.join(", "));
        }
        // A command of a group, without the name of the group.
        let elsewhere = COMMANDS.iter();
        let elsewhere = elsewhere.filter(|spec| spec.path.ends_with(&format!(" {word}")));
        let elsewhere = elsewhere.map(|spec| format!("svc {}", spec.path)).collect::<Vec<_>>();
        match elsewhere.len() {
            1 | 2 => format!("did you mean {}?", elsewhere.join(" or ")),
            _ => "list the commands: svc --help".to_owned(),
        }
    }

    /// The hint for a word of another program, or a misspelled one.
    fn meant_command(&self, word: &str) -> Option<String> {
        let path = self.path();
        if word == "help" {
            return Some(format!("did you mean {path} --help?"));
        }
        let mut here = words::COMMANDS
            .iter()
            .filter(|(place, typed, _)| *place == path && typed.contains(&word));
        if let Some((_, _, hint)) = here.next() {
            return Some((*hint).to_owned());
        }
        let names = self.command.get_subcommands().map(Command::get_name).collect::<Vec<_>>();
        // The synonyms are those of actions, and the commands of `svc` are mostly groups.
        let synonyms = words::SYNONYMS.iter();
        let synonyms = synonyms.filter(|(typed, _)| path != "svc" && typed.contains(&word));
        let synonym = synonyms.flat_map(|(_, ours)| *ours).find(|ours| names.contains(ours));
        let meant = synonym.copied().or_else(|| nearest(word, names));
        meant.map(|meant| format!("did you mean {path} {meant}?"))
    }
}

/// The setting does not reach the subcommands by itself in a tree that clap has built.
fn ignoring_errors(command: Command) -> Command {
    command.ignore_errors(true).mut_subcommands(ignoring_errors)
}

/// `--send_at` and `--sendAt` as `--send-at`. A short option keeps its case.
fn kebab_case(word: &str) -> String {
    let Some(name) = word.strip_prefix("--") else { return word.to_owned() };
    let mut kebab = "--".to_owned();
    for c in name.chars() {
        if c.is_uppercase() && !kebab.ends_with('-') {
            kebab.push('-');
        }
        kebab.push(if c == '_' { '-' } else { c.to_ascii_lowercase() });
    }
    kebab
}
