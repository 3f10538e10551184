//! Completion in real shells, set up as `svc completions --help` describes.
//!
//! If a shell is not installed, its test is ignored, or fails with `SVC_TEST_SHELLS=1` (`build.rs`).
//! PowerShell and Nushell are not tested.

use std::process::Command;

use crate::pty::Terminal;
use crate::support::{Home, Run, Serving};

/// A home directory with the completion script of a shell, and a sandbox with an audience.
struct Shell {
    home: Home,
    name: &'static str,
    audience: String,
    _serving: Serving,
}

impl Shell {
    fn set_up(name: &'static str, script: &str, more: &[(&str, &str)]) -> Self {
        let home = Home::new();
        for (path, content) in more {
            home.file(path, content);
        }

        let completions = home.run(&["completions", name]).stdout;
        let before = std::fs::read_to_string(home.path(script)).unwrap_or_default();
        home.file(script, before + &completions);
        let serving = Serving::start(&home);
        let audience = home.sandbox_json(&["audiences", "create", "Readers"]);
        let audience = audience["id"].as_str().expect("an id").to_owned();
        home.file("mail.html", "<p>");
        Self {
            home,
            name,
            audience,
            _serving: serving,
        }
    }

    /// The shell with an empty environment except for PATH.
    fn command(&self, args: &[&str]) -> Command {
        let svc = self.home.command(&[]);
        let bin = std::path::Path::new(svc.get_program())
            .parent()
            .expect("a directory");
        let mut command = Command::new(self.name);
        command
            .args(args)
            .env_clear()
            .current_dir(self.home.path(""));
        command.envs(
            svc.get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        command
            .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
            .env("ZDOTDIR", self.home.path("zdot"))
            // A time limit that no test reaches, however busy the machine is.
            .env("SVC_COMPLETE_TIMEOUT", "10m");
        command
    }

    /// Types a line and Tab, and waits until the terminal shows the completed text.
    fn completes(&self, typed: &str, shown: &str) {
        let mut terminal = Terminal::run(self.command(&[]), 120, None);
        terminal.until("ready> ");
        assert!(!typed.contains(shown), "{shown} would be an echo");
        terminal.write(&format!("{typed}\t"));
        terminal.until(shown);
        terminal.signal("-KILL");
        terminal.wait();
    }

    fn completes_everything(&self) {
        self.completes("svc --sandbox audiences get R", "eaders");
        self.completes("svc --sandbox audiences get a", &self.audience[1..]);
        self.completes("svc emails ca", "ncel");
        self.completes("svc --output n", "djson");
        self.completes("svc trigger email.bo", "unced");
        self.completes("svc emails send --sub", "ject");
        self.completes("svc emails batch mai", "l.html");
    }
}

#[test]
#[cfg_attr(not(has_shell = "zsh"), ignore = "zsh is not installed")]
fn zsh_completes_commands_options_values_files_and_ids() {
    let path = "zdot/.zshrc";
    let rc = "PS1='ready> '\nautoload -U compinit\ncompinit -u -D\n";
    Shell::set_up("zsh", path, &[(path, rc)]).completes_everything();
}

#[test]
#[cfg_attr(not(has_shell = "elvish"), ignore = "elvish is not installed")]
fn elvish_completes_commands_options_values_files_and_ids() {
    let rc = "\nset edit:prompt = { put 'ready> ' }\n";
    let path = "config/elvish/rc.elv";
    Shell::set_up("elvish", path, &[(path, rc)]).completes_everything();
}

#[test]
#[cfg_attr(not(has_shell = "fish"), ignore = "fish is not installed")]
fn fish_completes_commands_options_values_files_and_ids() {
    let fish = Shell::set_up("fish", "config/fish/completions/svc.fish", &[]);
    let offers = |line: &str| {
        let output = fish.command(&["-c", "complete -C $argv[1]", line]).output();
        let run = Run::of(output.expect("fish runs"));
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{line}: {run:?}");
        run.stdout.lines().map(str::to_owned).collect::<Vec<_>>()
    };

    let audience = &fish.audience;
    let both = [
        format!("Readers\t{audience}"),
        format!("{audience}\tReaders"),
    ];
    assert_eq!(offers("svc --sandbox audiences get "), both);
    assert_eq!(offers("svc emails ca"), ["cancel\tCancel scheduled emails"]);
    assert_eq!(offers("svc --output j"), ["json\tOne JSON document"]);
    assert_eq!(
        offers("svc --output=j"),
        ["--output=json\tOne JSON document"]
    );
    assert_eq!(offers("svc trigger email.bo"), ["email.bounced"]);
    assert!(offers("svc emails send --sub")[0].starts_with("--subject\t"));
    assert_eq!(offers("svc emails batch mai"), ["mail.html"]);
    assert_eq!(offers("svc emails send --html @mai"), ["@mail.html"]);
}
