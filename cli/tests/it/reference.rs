//! The command reference and the JSON Schemas in the book, generated from the commands.
//!
//! `SVC_BOOK=DIR cargo test -p svc-cli --test it reference` writes the book with them to a folder.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use clap::{Arg, Command, ValueHint};
use serde_json::{Map, Value, json};
use svc_cli::commands;

use crate::support::Home;

/// The page in `SUMMARY.md` below which the generated ones are.
const REFERENCE: &str = "  - [Command reference](commands/reference.md)\n";

/// The commands with a page of their own. All others are on one page.
const LARGE: [&str; 2] = ["bulk", "sandbox"];

/// Most words of the book and most pages, generated ones included.
const LIMITS: (usize, usize) = (25_000, 40);

#[test]
fn the_book_has_every_command_and_stays_short() {
    let mut tree = svc_cli::command();
    tree.build();
    let mut files = BTreeMap::<String, String>::new();
    let mut small = String::new();
    for command in tree.get_subcommands() {
        let name = command.get_name();
        let section = section(command);
        if LARGE.contains(&name) {
            writeln!(
                small,
                "\n## svc {name}\n\nOn [a page of its own](reference/{name}.md)."
            )
            .expect("written");
            let page = section.trim_start().trim_start_matches('#');
            files.insert(format!("reference/{name}.md"), format!("#{page}"));
        } else {
            small.push_str(&section);
        }
    }

    for (name, text) in schemas() {
        files.insert(format!("schemas/{name}"), text);
    }

    let temporary = tempfile::tempdir().expect("a directory");
    let book = std::env::var_os("SVC_BOOK").map_or(temporary.path().to_owned(), Into::into);
    copy(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs"),
        &book,
    );
    let commands = book.join("commands");
    for (name, text) in &files {
        let path = commands.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("created");
        fs::write(path, text).expect("written");
    }

    let change = |path: &Path, change: &dyn Fn(String) -> String| {
        let text = fs::read_to_string(path).expect("a page");
        fs::write(path, change(text)).expect("written");
    };

    change(&commands.join("reference.md"), &|text| text + &small);
    change(&book.join("SUMMARY.md"), &|text| {
        let entry = |name| format!("    - [svc {name}](commands/reference/{name}.md)\n");
        let entries = LARGE.map(entry).concat();
        assert!(text.contains(REFERENCE), "{text}");
        text.replace(REFERENCE, &format!("{REFERENCE}{entries}"))
    });
    let mut words = 0;
    let mut pages = 0;
    each_page(&book, &mut |text| {
        // Marks of lists, tables and code are not words.
        let is_word = |word: &&str| word.contains(char::is_alphanumeric);
        words += text.split_whitespace().filter(is_word).count();
        pages += 1;
    });
    println!("{words} words on {pages} pages");
    assert!(
        words <= LIMITS.0 && pages <= LIMITS.1,
        "{words} words on {pages} pages"
    );
}

fn each_page(folder: &Path, see: &mut impl FnMut(&str)) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            each_page(&path, see);
        } else if path.extension().is_some_and(|extension| extension == "md")
            && path.file_name().is_some_and(|name| name != "SUMMARY.md")
        {
            see(&fs::read_to_string(&path).expect("a page"));
        }
    }
}

/// Copies a folder with everything below it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("created");
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let copied = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &copied);
        } else {
            fs::copy(&path, &copied).expect("copied");
        }
    }
}

/// A file for each top-level command, without what all commands share: that is in `common.json`.
fn schemas() -> BTreeMap<String, String> {
    let described = Home::new().run(&["schema"]).json();
    let mut commands = BTreeMap::<String, Vec<Value>>::new();
    let global_options = global_options();
    let mut common = json!({});
    for mut command in described.as_array().expect("a list").clone() {
        let input = command["input"]["properties"]
            .as_object_mut()
            .expect("an object");
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
        let name = command["command"]
            .as_str()
            .expect("a path")
            .split(' ')
            .next()
            .map(str::to_owned);
        commands
            .entry(name.expect("a name"))
            .or_default()
            .push(command);
    }

    let files = commands.into_iter();
    let files = files.map(|(name, all)| (format!("{name}.json"), Value::from(all)));
    let files = files.chain([("common.json".to_owned(), common)]);
    files
        .map(|(name, value)| (name, format!("{value:#}\n")))
        .collect()
}

fn global_options() -> Vec<String> {
    let tree = svc_cli::command();
    let global = tree.get_arguments().filter(|arg| arg.is_global_set());
    global
        .filter_map(|arg| Some(format!("--{}", arg.get_long()?)))
        .collect()
}

/// What a top-level command does, and its leaf commands with their arguments.
fn section(command: &Command) -> String {
    let name = command.get_name();
    let mut text = String::new();
    if !command.has_subcommands() {
        leaf(&mut text, "##", command, &[]);
        return text;
    }

    writeln!(text, "\n## svc {name}\n\n{}", about(command)).expect("written");
    let all = commands();
    let leaves = all
        .iter()
        .filter(|spec| spec.path.split(' ').next() == Some(name));
    let leaves = leaves
        .map(|spec| (&*spec.path, find(command, &spec.path)))
        .collect::<Vec<_>>();
    // What several of them take is described once.
    let mut counts = BTreeMap::<String, usize>::new();
    for (_, leaf) in &leaves {
        for described in own(leaf).filter(|arg| !arg.is_positional()).map(argument) {
            *counts.entry(described).or_default() += 1;
        }
    }

    let shared = counts
        .into_iter()
        .filter(|(_, count)| *count > 1)
        .map(|(described, _)| described);
    let shared = shared.collect::<Vec<_>>();
    if !shared.is_empty() {
        writeln!(text, "\nShared by several:\n\n{}", shared.join("\n")).expect("written");
    }
    for (_, command) in leaves {
        leaf(&mut text, "###", command, &shared);
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

/// The usage of a leaf command as a heading, what it does, and the arguments that are not `shared`.
fn leaf(text: &mut String, level: &str, command: &Command, shared: &[String]) {
    let usage = command.clone().render_usage().to_string();
    let usage = usage
        .trim_start_matches("Usage: ")
        .replace(" [OPTIONS]", "");
    let usage = usage.split_whitespace().collect::<Vec<_>>().join(" ");
    // The first one, of a command that has two.
    let usage = usage.split(" svc ").next().unwrap_or_default();
    let usage = usage.trim_start_matches("svc ");
    writeln!(text, "\n{level} `{usage}`\n\n{}", about(command)).expect("written");
    let is_shared = |arg: &&Arg| shared.contains(&argument(arg));
    // Their values stand where they are described.
    let also = own(command)
        .filter(is_shared)
        .filter_map(|arg| Some(format!("`--{}`", arg.get_long()?)))
        .collect::<Vec<_>>();
    // The usage says enough of what is a name or an ID.
    let is_named = |arg: &Arg| arg.is_positional() && arg.get_value_hint() != ValueHint::FilePath;
    let arguments = own(command).filter(|arg| !is_named(arg)).map(argument);
    let mut arguments = arguments
        .filter(|described| !shared.contains(described))
        .collect::<Vec<_>>();
    if !also.is_empty() {
        arguments.push(format!("- also {}", also.join(", ")));
    }
    if !arguments.is_empty() {
        writeln!(text, "\n{}", arguments.join("\n")).expect("written");
    }
}

/// The arguments of a command, without those of all commands.
fn own(command: &Command) -> impl Iterator<Item = &Arg> {
    command
        .get_arguments()
        .filter(|arg| !arg.is_global_set() && arg.get_id() != "help")
}

/// A list item: the argument and its short description.
fn argument(arg: &Arg) -> String {
    let help = arg
        .get_help()
        .or_else(|| arg.get_long_help())
        .map(ToString::to_string);
    let help = help.unwrap_or_else(|| panic!("{arg} has no help"));
    format!(
        "- `{arg}`: {}",
        help.split("\n\n").next().unwrap_or_default().trim()
    )
}

fn about(command: &Command) -> String {
    let about = command
        .get_about()
        .map(ToString::to_string)
        .unwrap_or_default();
    if about.ends_with('.') {
        about
    } else {
        about + "."
    }
}
