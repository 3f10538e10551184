//! Rules for all commands, as `docs/commands/README.md` promises them.

use clap::{ArgAction, Command};
use svc_cli::{COMMANDS, CommandSpec, Effect};
use svc_sdk::{Operation, ScopeRule};

use crate::support::Home;

fn leaves() -> Vec<(String, Command)> {
    fn walk(path: &str, command: &Command, found: &mut Vec<(String, Command)>) {
        let below = command.get_subcommands().collect::<Vec<_>>();
        if below.is_empty() {
            found.push((path.trim().to_owned(), command.clone()));
        }
        for child in below {
            walk(&format!("{path} {}", child.get_name()), child, found);
        }
    }
    let mut tree = svc_cli::command();
    tree.build();
    let mut found = Vec::new();
    walk("", &tree, &mut found);
    found
}

fn row(path: &str) -> &'static CommandSpec {
    COMMANDS.iter().find(|spec| spec.path == path).unwrap_or_else(|| panic!("no row for `{path}`"))
}

#[test]
fn clap_accepts_the_tree() {
    svc_cli::command().debug_assert();
}

#[test]
fn the_table_and_the_tree_have_the_same_commands_in_the_same_order() {
    let tree = leaves().into_iter().map(|(path, _)| path).collect::<Vec<_>>();
    let table = COMMANDS.iter().map(|spec| spec.path).collect::<Vec<_>>();
    assert_eq!(tree, table);
}

#[test]
fn every_command_has_the_global_options() {
    for (path, command) in leaves() {
        for name in ["json", "output", "jq", "dry-run", "yes", "sandbox", "quiet", "verbose"] {
            let found = command.get_arguments().any(|arg| arg.get_long() == Some(name));
            assert!(found, "`{path}` has no --{name}");
        }
    }
}

#[test]
fn every_command_has_a_description_an_example_and_a_scope() {
    for (path, command) in leaves() {
        assert!(command.get_about().is_some(), "`{path}` has no description");
        let help = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
        assert!(help.contains("Examples:\n"), "`{path}` has no example");
        let scope = help
            .lines()
            .find_map(|line| line.strip_prefix("Scope: "))
            .unwrap_or_else(|| panic!("`{path}` has no scope line"));
        assert_eq!(scope == "none (local server)", row(&path).is_local_server, "`{path}`");
        for operation in row(&path).operations {
            match operation.scope_rule() {
                ScopeRule::Needs(needed) if row(&path).operations.len() == 1 => {
                    assert_eq!(scope, needed.as_str(), "`{path}`");
                }
                // `login` and `whoami` accept a key with any scope.
                ScopeRule::Needs(needed) => {
                    assert!(scope.contains(needed.as_str()) || scope == "any key", "`{path}`");
                }
                ScopeRule::AnyKey => assert_eq!(scope, "any key", "`{path}`"),
                _ => assert_eq!(scope, "not documented", "`{path}`"),
            }
        }
    }
}

#[test]
fn every_operation_has_its_own_command() {
    for &operation in Operation::ALL {
        let command = COMMANDS.iter().find(|spec| spec.operations == [operation]);
        let sends = operation == Operation::EmailsSend;
        assert!(command.is_some() || sends, "no command calls {operation}");
    }
    assert_eq!(row("emails send").operations[0], Operation::EmailsSend);
}

#[test]
fn commands_that_delete_are_dangerous() {
    for spec in COMMANDS {
        let deletes = ["delete", "reset", "webhooks rotate", "bulk remove"]
            .iter()
            .any(|end| spec.path.ends_with(end));
        assert_eq!(deletes, spec.effect == Effect::Dangerous, "`{}`", spec.path);
    }
}

#[test]
fn no_option_takes_a_key_or_a_secret() {
    for (path, command) in leaves() {
        for arg in command.get_arguments() {
            let takes_value = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
            let name = arg.get_long().unwrap_or_default();
            let secret = name.ends_with("key") || name.contains("secret") || name == "token";
            let allowed = name == "idempotency-key" || name.ends_with("secret-file");
            assert!(!(takes_value && secret && !allowed), "`{path}` --{name}");
        }
    }
}

#[test]
fn every_argument_has_a_help_text() {
    for (path, command) in leaves() {
        for arg in command.get_arguments() {
            assert!(arg.get_help().is_some(), "`{path}`: {} has no help text", arg.get_id());
        }
    }
}

#[test]
fn a_manual_page_has_a_synopsis_and_related_pages() {
    let home = Home::new();
    let run = home.run(&["man", "pages"]);
    assert_eq!(run.code, 0, "{run:?}");
    let page = |name: &str| std::fs::read_to_string(home.path("pages").join(name)).expect("a page");
    let batch = page("svc-emails-batch.1");
    assert!(batch.contains("\n.SH SYNOPSIS\nsvc emails batch [OPTIONS] <FILE>\n"), "{batch}");
    assert!(batch.ends_with("\n.SH \"SEE ALSO\"\n.BR svc-emails (1)\n"), "{batch}");
    let emails = page("svc-emails.1");
    assert!(emails.contains(".BR svc (1),\n.BR svc-emails-batch (1),\n"), "{emails}");
    // Every related page exists.
    for entry in std::fs::read_dir(home.path("pages")).expect("read") {
        let path = entry.expect("an entry").path();
        let text = std::fs::read_to_string(&path).expect("read");
        for line in text.lines().filter_map(|line| line.strip_prefix(".BR ")) {
            let name = line.split(' ').next().unwrap_or_default();
            let page = home.path("pages").join(format!("{name}.1"));
            assert!(page.is_file(), "{}: {name}", path.display());
        }
    }
}
