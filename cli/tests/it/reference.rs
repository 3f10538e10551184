//! The pages of the command reference and the JSON Schemas in the book, generated from the commands.
//!
//! `SVC_BOOK=DIR cargo test -p svc-cli --test it reference` writes the book with them to a folder.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use clap::{Arg, ArgAction, Command};
use serde_json::{Map, Value, json};
use svc_cli::commands;

use crate::support::Home;

/// Generated files of the book, by their paths.
type Files = BTreeMap<String, String>;

/// The pages that `SUMMARY.md` lists, below which the generated ones are.
const REFERENCE: &str = "  - [Command reference](commands/reference.md)\n";

#[test]
fn the_reference_has_a_page_of_every_command() {
    let mut tree = svc_cli::command();
    tree.build();
    let (mut files, mut list) = (Files::new(), String::new());
    let mut entries = REFERENCE.to_owned();
    for command in tree.get_subcommands() {
        let name = command.get_name();
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        writeln!(list, "- [svc {name}](reference/{name}.md): {about}").expect("written");
        writeln!(entries, "    - [svc {name}](commands/reference/{name}.md)").expect("written");
        files.insert(format!("reference/{name}.md"), page(command));
    }
    list.push_str("\n## Global options\n\nEvery command takes these options.\n\n");
    for arg in tree.get_arguments().filter(|arg| arg.is_global_set()) {
        argument(&mut list, arg);
    }
    let mut links = String::from("\n");
    for (name, text) in schemas() {
        writeln!(links, "- [{name}](schemas/{name})").expect("written");
        files.insert(format!("schemas/{name}"), text);
    }
    let Some(book) = std::env::var_os("SVC_BOOK") else { return };
    let (book, docs) = (Path::new(&book), Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs"));
    copy(&docs, book);
    let commands = book.join("commands");
    for (name, text) in files {
        let path = commands.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("created");
        fs::write(path, text).expect("written");
    }
    let change = |path: &Path, change: &dyn Fn(String) -> String| {
        let text = fs::read_to_string(path).expect("a page");
        fs::write(path, change(text)).expect("written");
    };
    change(&commands.join("reference.md"), &|text| text + "\n## Commands\n\n" + &list);
    change(&commands.join("schemas.md"), &|text| text + &links);
    change(&book.join("SUMMARY.md"), &|text| {
        assert!(text.contains(REFERENCE), "{text}");
        text.replace(REFERENCE, &entries)
    });
}

/// Copies a folder with everything below it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("created");
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let copied = to.join(path.file_name().expect("a name"));
        match path.is_dir() {
            true => copy(&path, &copied),
            false => drop(fs::copy(&path, &copied).expect("copied")),
        }
    }
}

/// A file for each top-level command, without what all commands share: that is in `common.json`.
fn schemas() -> Files {
    let described = Home::new().run(&["schema"]).json();
    let mut commands = BTreeMap::<String, Vec<Value>>::new();
    let global_options = global_options();
    let mut common = json!({});
    for mut command in described.as_array().expect("a list").clone() {
        let input = command["input"]["properties"].as_object_mut().expect("an object");
        let (global, own) = std::mem::take(input)
            .into_iter()
            .partition::<Map<_, _>, _>(|(name, _)| global_options.contains(name));
        *input = own;
        let fields = command.as_object_mut().expect("an object");
        common = json!({
            "global_options": global,
            "errors": fields.remove("errors").expect("a schema"),
            "exit_codes": fields.remove("exit_codes").expect("a table"),
        });
        let name =
            command["command"].as_str().expect("a path").split(' ').next().map(str::to_owned);
        commands.entry(name.expect("a name")).or_default().push(command);
    }
    let files = commands.into_iter();
    let files = files.map(|(name, all)| (format!("{name}.json"), Value::from(all)));
    let files = files.chain([("common.json".to_owned(), common)]);
    files.map(|(name, value)| (name, format!("{value:#}\n"))).collect()
}

fn global_options() -> Vec<String> {
    let tree = svc_cli::command();
    let global = tree.get_arguments().filter(|arg| arg.is_global_set());
    global.filter_map(|arg| Some(format!("--{}", arg.get_long()?))).collect()
}

/// The page of a top-level command with all its leaf commands.
fn page(command: &Command) -> String {
    let name = command.get_name();
    let mut text = format!("# svc {name}\n\n");
    if !command.has_subcommands() {
        leaf(&mut text, command, name);
        return text;
    }
    for paragraph in about(command).split("\n\n") {
        writeln!(text, "{}\n", sentence(paragraph)).expect("written");
    }
    let all = commands();
    let leaves = all.iter().filter(|spec| spec.path.split(' ').next() == Some(name));
    let leaves = leaves.map(|spec| (&*spec.path, find(command, &spec.path))).collect::<Vec<_>>();
    for (path, leaf) in &leaves {
        let about = leaf.get_about().map(ToString::to_string).unwrap_or_default();
        writeln!(text, "- [svc {path}](#svc-{}): {about}", path.replace(' ', "-"))
            .expect("written");
    }
    for (path, command) in leaves {
        write!(text, "\n## svc {path}\n\n").expect("written");
        leaf(&mut text, command, path);
    }
    text
}

/// The command at a path that starts with the name of `top`.
fn find<'a>(top: &'a Command, path: &str) -> &'a Command {
    path.split(' ')
        .skip(1)
        .try_fold(top, |level, name| level.find_subcommand(name))
        .expect("a row of the table is in the tree")
}

/// The section of a leaf command: description, usage, arguments, options, examples and scope.
fn leaf(text: &mut String, command: &Command, path: &str) {
    for paragraph in about(command).split("\n\n") {
        writeln!(text, "{}\n", sentence(paragraph)).expect("written");
    }
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    assert!(usage.starts_with(&format!("svc {path}")), "{usage}");
    writeln!(text, "```text\n{usage}\n```").expect("written");
    let own = |arg: &&Arg| !arg.is_global_set() && arg.get_id() != "help";
    for (title, positional) in [("Arguments", true), ("Options", false)] {
        let args = command.get_arguments().filter(own).filter(|a| a.is_positional() == positional);
        let args = args.collect::<Vec<_>>();
        if !args.is_empty() {
            write!(text, "\n{title}:\n\n").expect("written");
        }
        for arg in args {
            argument(text, arg);
        }
    }
    let more = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    text.push_str("\nExamples:\n\n");
    for paragraph in more.split("\n\n") {
        if let Some(examples) = paragraph.strip_prefix("Examples:\n") {
            let language = if examples.contains(":  ") { "text" } else { "sh" };
            code(text, language, examples);
        } else if paragraph.starts_with("  ") {
            text.push('\n');
            code(text, "toml", paragraph);
        } else {
            writeln!(text, "\n{}", sentence(paragraph)).expect("written");
        }
    }
}

/// A fenced block of lines that are indented by two columns.
fn code(text: &mut String, language: &str, lines: &str) {
    writeln!(text, "```{language}").expect("written");
    for line in lines.lines() {
        writeln!(text, "{}", line.strip_prefix("  ").unwrap_or(line)).expect("written");
    }
    text.push_str("```\n");
}

/// A list item: the argument, its description, values and default.
fn argument(text: &mut String, arg: &Arg) {
    let shown = arg.to_string();
    let shown = match (arg.get_short(), arg.get_long()) {
        (Some(short), Some(_)) => format!("-{short}, {shown}"),
        _ => shown,
    };
    let help = arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string);
    let help = help.unwrap_or_else(|| panic!("{shown} has no help"));
    let paragraphs = help.split("\n\n").map(sentence).collect::<Vec<_>>();
    write!(text, "- `{shown}`: {}", paragraphs.join(" ")).expect("written");
    let takes_value = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    if takes_value && !arg.is_hide_possible_values_set() {
        let values = arg.get_possible_values();
        let names = values.iter().map(|value| format!("`{}`", value.get_name()));
        let names = names.collect::<Vec<_>>();
        if !names.is_empty() {
            write!(text, " Values: {}.", names.join(", ")).expect("written");
        }
    }
    let defaults = arg.get_default_values().iter().map(|value| value.to_string_lossy());
    for default in defaults.filter(|_| takes_value) {
        write!(text, " Default: `{default}`.").expect("written");
    }
    text.push('\n');
}

fn about(command: &Command) -> String {
    let about = command.get_long_about().or_else(|| command.get_about());
    about.map(ToString::to_string).unwrap_or_default()
}

/// The paragraph with a full stop at its end.
fn sentence(paragraph: &str) -> String {
    let paragraph = paragraph.trim();
    if paragraph.ends_with(['.', ':']) { paragraph.to_owned() } else { format!("{paragraph}.") }
}
