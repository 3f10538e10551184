//! Every example of the help texts parses.

use clap::Command;

use crate::words::words;

#[test]
fn every_example_parses() {
    let mut tree = svc_cli::command();
    tree.build();
    let mut checked = 0;
    check(&tree, &mut checked);
    assert!(checked > 60, "only {checked} examples were found");
}

fn check(command: &Command, checked: &mut usize) {
    for line in joined(command).lines() {
        for line in commands_in(line) {
            let typed = words(&line);
            let parsed = svc_cli::command().try_get_matches_from(&typed);
            assert!(
                parsed.is_ok(),
                "{line}\n{typed:?}\n{}",
                parsed.expect_err("an error")
            );
            *checked += 1;
        }
    }
    for child in command.get_subcommands() {
        check(child, checked);
    }
}

/// The texts of the help around the options.
pub fn around(command: &Command) -> String {
    let texts = [
        command.get_before_long_help(),
        command.get_after_long_help(),
    ];
    let texts = texts.into_iter().flatten().map(ToString::to_string);
    texts.collect::<Vec<_>>().join("\n\n")
}

/// These texts, with the lines of each example joined.
fn joined(command: &Command) -> String {
    around(command)
        .split("\\\n")
        .enumerate()
        .map(|(at, part)| if at == 0 { part } else { part.trim_start() })
        .collect()
}

/// On a terminal of 80 columns, a longer line would be cut in two, which cannot be copied.
#[test]
fn every_example_fits_80_columns() {
    fn check(command: &Command) {
        for line in around(command)
            .lines()
            .filter(|line| line.starts_with("  "))
        {
            assert!(line.chars().count() <= 80, "{line}");
        }
        command.get_subcommands().for_each(check);
    }

    let mut tree = svc_cli::command();
    tree.build();
    check(&tree);
}

/// Every line of the examples. Of lines for a specific shell, only the `svc` command.
pub fn help_examples() -> Vec<String> {
    fn walk(command: &Command, found: &mut Vec<String>) {
        let mut lines = joined(command);
        if let Some((_, examples)) = lines.split_once("Examples:\n") {
            lines = examples.split("\n\n").next().unwrap_or_default().to_owned();
        }
        for line in lines
            .lines()
            .filter(|line| line.starts_with("  ") && line.contains("svc "))
        {
            let line = line.trim();
            match line.split_once(":  ") {
                Some(_) => found.extend(commands_in(line)),
                None => found.push(line.to_owned()),
            }
        }

        for child in command.get_subcommands() {
            walk(child, found);
        }
    }

    let mut tree = svc_cli::command();
    tree.build();
    let mut found = Vec::new();
    walk(&tree, &mut found);
    found
}

/// The `svc …` parts of a line, up to a pipe or a redirection.
fn commands_in(line: &str) -> Vec<String> {
    let Some(start) = line.find("svc ") else {
        return Vec::new();
    };

    let before = &line[..start];
    if !(before.trim().is_empty() || before.contains('|') || before.trim_end().ends_with(':')) {
        return Vec::new();
    }

    let mut text = line[start..].to_owned();
    for end in [" | ", " > ", " < ", " >> ", " && "] {
        if let Some(at) = unquoted(&text, end) {
            text.truncate(at);
        }
    }

    // `…` is a placeholder for the reader.
    if text.contains('…') {
        Vec::new()
    } else {
        vec![text]
    }
}

fn unquoted(text: &str, needle: &str) -> Option<usize> {
    let mut quote = None;
    for (at, character) in text.char_indices() {
        match (quote, character) {
            (None, '\'' | '"') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            (None, _) if text[at..].starts_with(needle) => return Some(at),
            _ => {}
        }
    }
    None
}
