//! Command lines that mean what they say, in another spelling: `audiences create --name Offers` names
//! what is a positional argument, `sandbox organizations create Acme` leaves out the name of an option.

use std::ffi::OsString;

use clap::{Arg, Command};

use crate::command_line::is_long;

/// The same command line as the command declares it. `None` if nothing in it can be spelled otherwise.
pub fn corrected(tree: &Command, args: &[OsString]) -> Option<Vec<OsString>> {
    let (command, start) = leaf(tree, args);
    let mut line = Line::default();
    let mut words = args[start..].iter();
    while let Some(word) = words.next() {
        let Some(text) = word.to_str() else {
            line.positionals.push(word.clone());
            continue;
        };
        if text == "--" {
            line.positionals.extend(words.by_ref().cloned());
            break;
        }
        let Some(name) = text.strip_prefix("--") else {
            // Short options are left as they are, with what follows them.
            if text.starts_with('-') && text.len() > 1 {
                return None;
            }

            line.positionals.push(word.clone());
            continue;
        };
        let (name, inline) = match name.split_once('=') {
            Some((name, value)) => (name, Some(OsString::from(value))),
            None => (name, None),
        };
        if let Some(option) = option(command, name) {
            line.options.push(word.clone());
            if option.get_action().takes_values() && inline.is_none() {
                line.options.extend(words.next().cloned());
            }
            continue;
        }
        let positional = positional(command, name)?;
        line.named
            .push((positional, inline.or_else(|| words.next().cloned())?));
    }
    line.spelled(command, &args[..start])
}

/// The words of a command line after its command.
#[derive(Default)]
struct Line {
    options: Vec<OsString>,
    positionals: Vec<OsString>,
    /// Positional arguments that were given as options.
    named: Vec<(usize, OsString)>,
}

impl Line {
    fn spelled(self, command: &Command, start: &[OsString]) -> Option<Vec<OsString>> {
        let mut words = [start, &self.options].concat();
        if command.get_positionals().next().is_none() {
            // The only thing that a new one has may be its name.
            let [name] = &self.positionals[..] else {
                return None;
            };
            option(command, "name")?;
            words.extend(["--name".into(), name.clone()]);
            return Some(words);
        }

        let mut positionals = self.positionals;
        let mut named = self.named;
        // A URL more than there are arguments is that of the application.
        let is_url = |word: &OsString| word.to_string_lossy().contains("://");
        if positionals.len() > command.get_positionals().count()
            && positionals.last().is_some_and(is_url)
            && option(command, "to").is_some()
        {
            words.push("--to".into());
            words.extend(positionals.pop());
        } else if named.is_empty() {
            return None;
        }

        named.sort_by_key(|(position, _)| *position);
        for (position, value) in named {
            positionals.insert(position.min(positionals.len()), value);
        }

        words.push("--".into());
        words.extend(positionals);
        Some(words)
    }
}

/// The command of a line, and where its arguments begin.
fn leaf<'a>(tree: &'a Command, args: &[OsString]) -> (&'a Command, usize) {
    let mut command = tree;
    let mut start = 1;
    for (index, word) in args.iter().enumerate().skip(1) {
        let below = word.to_str().and_then(|word| command.find_subcommand(word));
        if let Some(below) = below {
            (command, start) = (below, index + 1);
        }
        if !command.has_subcommands() {
            break;
        }
    }
    (command, start.min(args.len()))
}

/// The position of an argument that somebody names. The only one of a command has other names, too.
fn positional(command: &Command, name: &str) -> Option<usize> {
    let is_only = command.get_positionals().count() == 1;
    let is_usual = ["name", "id", "url", "by"].contains(&name);
    let mut all = command.get_positionals();
    all.position(|it| it.get_id() == name || is_only && is_usual)
}

fn option<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|arg| is_long(arg, name))
}
