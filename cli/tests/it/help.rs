//! Snapshots and rules of the help texts.

use clap::Command;

use crate::support::Home;

/// The width that the short help is written for.
const COLUMNS: usize = 80;
/// The height of the smallest usual terminal.
const LINES: usize = 24;

fn tree() -> Command {
    let mut tree = svc_cli::command();
    tree.build();
    tree
}

/// The short help, as `-h` prints it.
fn short_help(command: &Command) -> String {
    command
        .clone()
        .term_width(COLUMNS)
        .render_help()
        .to_string()
}

/// The long help, as `--help` prints it.
fn long_help(command: &Command) -> String {
    command
        .clone()
        .term_width(COLUMNS)
        .render_long_help()
        .to_string()
}

/// Calls `visit` with the path of every command below `svc`, groups included.
fn walk(path: &str, command: &Command, visit: &mut impl FnMut(&str, &Command)) {
    if !path.is_empty() {
        visit(path, command);
    }
    for child in command.get_subcommands() {
        walk(format!("{path} {}", child.get_name()).trim(), child, visit);
    }
}

fn snapshot(name: &str, help: &str) {
    insta::with_settings!({ prepend_module_to_snapshot => false, snapshot_path => "help" }, {
        insta::assert_snapshot!(name, help);
    });
}

#[test]
fn short_help_of_every_command() {
    let mut seen = 0;
    walk("", &tree(), &mut |path, command| {
        snapshot(&path.replace(' ', "-"), &short_help(command));
        seen += 1;
    });
    assert!(seen > svc_cli::commands().len());
}

#[test]
fn help_of_the_program() {
    let tree = tree();
    snapshot("svc", &short_help(&tree));
    snapshot("svc-long", &long_help(&tree));
}

#[test]
fn long_help_of_a_command() {
    let tree = tree();
    let send = tree
        .find_subcommand("emails")
        .and_then(|emails| emails.find_subcommand("send"));
    snapshot("emails-send-long", &long_help(send.expect("a command")));
}

#[test]
fn short_help_fits_one_screen() {
    walk("", &tree(), &mut |path, command| {
        let help = short_help(command);
        // With all its commands, the heading of `svc sandbox -h` may scroll away.
        let lines = LINES + usize::from(path == "sandbox");
        assert!(
            help.lines().count() <= lines,
            "svc {path} -h has too many lines:\n{help}"
        );
        let long = |line: &&str| line.chars().count() > COLUMNS;
        assert_eq!(help.lines().find(long), None, "svc {path} -h");
        let last = help.lines().last().unwrap_or_default();
        assert!(last.starts_with("Global options: --sandbox, "), "{help}");
        assert!(!help.contains("--idempotency-key"), "{help}");
        // The line that names the global options is the only one about them.
        assert_eq!(help.matches("--sandbox").count(), 1, "{help}");
    });
    let help = short_help(&tree());
    assert!(
        help.lines().count() <= LINES,
        "svc -h has too many lines:\n{help}"
    );
    assert!(
        help.lines().all(|line| line.chars().count() <= COLUMNS),
        "{help}"
    );
}

#[test]
fn the_program_lists_every_command_once() {
    let tree = tree();
    let help = long_help(&tree);
    let short = short_help(&tree);
    for command in tree.get_subcommands() {
        let line = format!(
            "\n  {:<11}  {}\n",
            command.get_name(),
            command.get_about().expect("about")
        );
        assert_eq!(help.matches(&line).count(), 1, "{line}{help}");
        let words = short.split([' ', ',', '\n']);
        assert!(
            words.filter(|word| *word == command.get_name()).count() >= 1,
            "{line}{short}"
        );
    }
}

#[test]
fn long_help_explains_global_options_examples_and_scope() {
    walk("", &tree(), &mut |path, command| {
        let help = long_help(command);
        assert!(
            help.contains("\nGlobal options:\n      --sandbox\n"),
            "svc {path} --help"
        );
        if !command.has_subcommands() {
            let options = help.find("\nGlobal options:\n").expect("the section");
            let examples = help.find("\nExamples:\n").expect("the section");
            assert!(
                examples < options && help[options..].contains("\nScope: "),
                "{help}"
            );
        }
    });
}

#[test]
fn the_help_command_prints_the_long_help() {
    let home = Home::new();
    for path in [
        &[][..],
        &["emails"],
        &["emails", "send"],
        &["sandbox", "clock", "show"],
        &["help"],
    ] {
        let help = home.run(&[&["help"], path].concat());
        let option = home.run(&[path, &["--help"]].concat());
        assert_eq!((help.code, help.stderr.as_str()), (0, ""), "{path:?}");
        assert_eq!(help.stdout, option.stdout, "{path:?}");
    }

    let json = home.run(&["help", "emails", "send", "--json"]).json();
    assert!(
        json.as_str()
            .is_some_and(|text| text.starts_with("Send an email\n"))
    );
}

#[test]
fn topics_of_the_help_are_short_and_fit_the_screen() {
    let home = Home::new();
    for (topic, part) in [
        ("exit-codes", "  9  "),
        ("environment", "SVC_PROFILE"),
        ("formatting", "--jq"),
        ("output", "ndjson"),
    ] {
        let help = home.run(&["help", topic]);
        assert_eq!((help.code, &*help.stderr), (0, ""), "{topic}: {help:?}");
        assert!(help.stdout.contains(part), "{topic}: {help:?}");
        let text = home.run(&["help", topic, "--json"]).json();
        assert_eq!(text, help.stdout.as_str());
    }
    for topic in ["formatting", "output"] {
        let text = home.run(&["help", topic]).stdout;
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    }
}

#[test]
fn the_help_command_rejects_unknown_commands() {
    let home = Home::new();
    for (args, message, hint) in [
        (
            &["help", "emials"][..],
            "unrecognized subcommand 'emials'",
            "a similar subcommand exists: 'emails'",
        ),
        (
            &["help", "emails", "snd"],
            "unrecognized subcommand 'snd'",
            "a similar subcommand exists: 'send'",
        ),
    ] {
        let run = home.run(args);
        assert_eq!(
            (run.code, run.stdout.as_str()),
            (2, ""),
            "{args:?}: {run:?}"
        );
        let error = run.error();
        assert_eq!(
            (&error["message"], &error["hint"]),
            (&message.into(), &hint.into())
        );
    }
}

#[test]
fn the_version_command_prints_the_version() {
    let home = Home::new();
    let run = home.run(&["version"]);
    assert_eq!(
        (run.code, &run.stdout),
        (0, &home.run(&["--version"]).stdout)
    );
    for format in [&["--json"][..], &["-o", "json"]] {
        let run = home.run(&[&["version"], format].concat());
        let target = format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS);
        let commit = option_env!("SVC_COMMIT");
        let expected = serde_json::json!({
            "version": env!("CARGO_PKG_VERSION"), "commit": commit, "target": target,
        });
        assert_eq!(run.json(), expected);
    }
}
