//! Rules for all commands, as `docs/commands/README.md` promises them.

use clap::{ArgAction, Command};
use svc_cli::{Effect, commands};
use svc_sdk::Operation;

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

#[test]
fn clap_accepts_the_tree() {
    svc_cli::command().debug_assert();
}

#[test]
fn every_command_is_declared() {
    let tree = leaves()
        .into_iter()
        .map(|(path, _)| path)
        .collect::<Vec<_>>();
    let declared = commands()
        .into_iter()
        .map(|spec| spec.path)
        .collect::<Vec<_>>();
    assert_eq!(tree, declared);
}

#[test]
fn every_command_has_the_global_options() {
    for (path, command) in leaves() {
        for name in [
            "json", "output", "jq", "dry-run", "yes", "sandbox", "quiet", "verbose",
        ] {
            let found = command
                .get_arguments()
                .any(|arg| arg.get_long() == Some(name));
            assert!(found, "`{path}` has no --{name}");
        }
    }
}

#[test]
fn every_command_has_a_description_an_example_and_a_scope() {
    for (path, command) in leaves() {
        assert!(command.get_about().is_some(), "`{path}` has no description");
        let help = crate::examples::around(&command);
        assert!(help.contains("Examples:\n"), "`{path}` has no example");
        assert!(help.contains("\n\nScope: "), "`{path}` has no scope line");
    }
}

#[test]
fn the_help_names_the_scopes_of_the_operations() {
    for spec in commands() {
        let scope = spec.scope();
        assert_eq!(
            scope == "none (sandbox)",
            spec.is_of_sandbox,
            "`{}`",
            spec.path
        );
        for needed in spec
            .operations
            .iter()
            .filter_map(|operation| operation.required_scope())
        {
            // `doctor`, `login` and `whoami` accept a key with any scope; `conform` says that its level
            // decides.
            let is_named = scope.contains(needed.as_str())
                || matches!(&*scope, "any key" | "depends on --level");
            assert!(is_named, "`{}`: {scope}", spec.path);
        }
    }
}

#[test]
fn every_operation_has_its_own_command() {
    for &operation in Operation::ALL {
        let command = commands()
            .into_iter()
            .find(|spec| spec.operations == [operation]);
        // `emails send` also sends batches, and `whoami` asks both services.
        let is_shared = matches!(operation, Operation::EmailsSend | Operation::Me);
        assert!(
            command.is_some() || is_shared,
            "no command calls {operation}"
        );
    }
    let sends = commands()
        .into_iter()
        .find(|spec| spec.path == "emails send");
    assert_eq!(
        sends.expect("a command").operations[0],
        Operation::EmailsSend
    );
}

#[test]
fn commands_that_delete_are_dangerous() {
    for spec in commands() {
        let deletes = ["delete", "reset", "bulk remove", "bulk forget"]
            .iter()
            .any(|end| spec.path.ends_with(end));
        assert_eq!(deletes, spec.effect == Effect::Removes, "`{}`", spec.path);
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
            assert!(
                arg.get_help().is_some(),
                "`{path}`: {} has no help text",
                arg.get_id()
            );
        }
    }
}

#[test]
fn there_is_a_manual_page_of_every_command() {
    let home = Home::new();
    let run = home.run(&["man", "pages"]);
    assert_eq!(run.code, 0, "{run:?}");

    let page = |name: &str| std::fs::read_to_string(home.path("pages").join(name)).expect("a page");
    for (path, _) in leaves() {
        let page = page(&format!("svc-{}.1", path.replace(' ', "-")));
        assert!(page.contains("Examples:\n"), "{page}");
    }

    let page = page("svc.1");
    assert_eq!(page, home.run(&["man"]).stdout);

    for part in ["10: a check failed", "SVC_PROFILE: ", "svc/config.toml: "] {
        assert!(page.contains(part), "{part}: {page}");
    }
}
