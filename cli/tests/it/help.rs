//! What the help says, for a person to look over when it changes.

use clap::Command;

/// The help of one command without the global options, which all share.
fn own_help(command: &Command) -> String {
    let help = command.clone().term_width(100).render_help().to_string();
    let Some(start) = help.find("\nGlobal options:\n") else { return help };
    let end = help[start..].find("\nExamples:\n").map_or(help.len(), |at| start + at);
    format!("{}{}", &help[..start], &help[end..])
}

#[test]
fn every_command() {
    fn walk(path: &str, command: &Command, seen: &mut usize) {
        if !path.is_empty() {
            insta::assert_snapshot!(path.replace(' ', "-"), own_help(command));
            *seen += 1;
        }
        for child in command.get_subcommands() {
            walk(format!("{path} {}", child.get_name()).trim(), child, seen);
        }
    }
    let mut tree = svc_cli::command();
    tree.build();
    let mut seen = 0;
    insta::with_settings!({ prepend_module_to_snapshot => false, snapshot_path => "help" }, {
        walk("", &tree, &mut seen);
    });
    assert!(seen > svc_cli::COMMANDS.len());
}

#[test]
fn the_program() {
    let mut tree = svc_cli::command().term_width(100);
    insta::with_settings!({ prepend_module_to_snapshot => false, snapshot_path => "help" }, {
        insta::assert_snapshot!("svc", tree.render_help().to_string());
    });
}

/// A help that scrolls away is read by nobody: there is one, and it is short.
#[test]
fn both_options_give_the_same() {
    let said = |path: &str, option: &str| {
        let words = ["svc"].into_iter().chain(path.split(' ')).chain([option]);
        svc_cli::command()
            .term_width(100)
            .try_get_matches_from(words)
            .expect_err("help")
            .to_string()
    };
    for leaf in svc_cli::COMMANDS {
        assert_eq!(said(leaf.path, "-h"), said(leaf.path, "--help"), "{}", leaf.path);
    }
}

#[test]
fn the_command_reference() {
    let mut reference = String::new();
    let mut tree = svc_cli::command();
    tree.build();
    for leaf in svc_cli::COMMANDS {
        let command = leaf.path.split(' ').try_fold(&tree, |at, name| at.find_subcommand(name));
        let command = command.expect("a row of the table is in the tree");
        let mut line = format!("svc {}", leaf.path);
        for arg in command.get_arguments().filter(|arg| !arg.is_global_set()) {
            if arg.get_id() == "help" {
                continue;
            }
            let shown = arg.to_string();
            let shown = if arg.is_required_set() || shown.starts_with('[') {
                shown
            } else {
                format!("[{shown}]")
            };
            line.push(' ');
            line.push_str(&shown);
        }
        reference.push_str(&line);
        reference.push('\n');
    }
    insta::with_settings!({ prepend_module_to_snapshot => false, snapshot_path => "help" }, {
        insta::assert_snapshot!("reference", reference);
    });
}
