//! `svc sandbox exec`: what the command gets, and what becomes of its signals and its exit code.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use crate::pty::Terminal;
use crate::support::{Home, Run, Watchdog};

/// A command that runs a script beside a sandbox. `$SVC` is `svc`.
fn exec(home: &Home, options: &[&str], script: &str) -> Command {
    let args = [
        &["sandbox", "exec"],
        options,
        &["--", "/bin/sh", "-c", script],
    ]
    .concat();
    let mut command = home.command(&args);
    command.env("SVC", env!("CARGO_BIN_EXE_svc"));
    command
        .env("PATH", "/usr/bin:/bin")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn run(home: &Home, options: &[&str], script: &str) -> Run {
    Run::wait(exec(home, options, script).spawn().expect("svc starts"))
}

#[test]
fn the_command_finds_the_server_and_its_exit_code_is_passed_on() {
    let home = Home::new();
    let ended = run(
        &home,
        &[],
        r#"test "$EMAIL_URL$EMAIL_KEY" = "$SVC_EMAIL_URL$SVC_EMAIL_KEY" || exit 1
        test "$EXTRACTION_URL$EXTRACTION_KEY" = "$SVC_EXTRACTION_URL$SVC_EXTRACTION_KEY" || exit 2
        test "$SANDBOX_URL" = "$EMAIL_URL" && test -n "$SMTP_HOST" && test -n "$SMTP_PORT" || exit 3
        $SVC emails send --from "$EMAIL_FROM" --to ada@example.test --subject Hi --text x --jq .id
        $SVC sandbox settle --jq .settled
        $SVC sandbox messages list --jq .[0].subject
        $SVC sandbox status --jq .addresses.smtp
        echo "$SMTP_HOST:$SMTP_PORT"
        exit 7"#,
    );
    let lines = ended.stdout.lines().collect::<Vec<_>>();
    assert_eq!((ended.code, ended.stderr.as_str()), (7, ""), "{ended:?}");
    assert!(lines[0].starts_with("eml_"), "{ended:?}");
    assert_eq!((lines[1], lines[2]), ("true", "Hi"));
    assert_eq!(lines[3], lines[4]);
}

/// Otherwise the second run would be refused, because everybody has got the email.
#[test]
fn each_run_is_a_new_service_for_bulk_sending() {
    let home = Home::new();
    home.file("people.csv", "email\nada@example.test\n");
    let send = "$SVC bulk send people.csv --yes --from \"$EMAIL_FROM\" --subject Hi --text x --jq .accepted
        $SVC bulk send people.csv --yes --from \"$EMAIL_FROM\" --subject Hi --text x --jq .accepted";
    for _ in 0..2 {
        let ended = run(&home, &[], send);
        assert_eq!((ended.code, ended.stdout.as_str()), (2, "1\n"), "{ended:?}");
    }
}

#[test]
fn a_seed_file_is_applied() {
    let home = Home::new();
    let seed = home.file("seed.toml", "[[organizations]]\nname = \"Shop\"\n");
    let list = "$SVC sandbox organizations list --jq '.[].name'";
    assert_eq!(
        run(&home, &["--seed", &seed], list).stdout,
        "Sandbox\nShop\n"
    );

    let mut command = exec(&home, &[], list);
    let child = command
        .env("SVC_SANDBOX_SEED", &seed)
        .spawn()
        .expect("svc starts");
    assert_eq!(Run::wait(child).stdout, "Sandbox\nShop\n");

    home.file("seed.toml", "name = 1\n");
    let wrong = run(&home, &["--seed", &seed], "echo ran");
    assert_eq!((wrong.code, wrong.stdout.as_str()), (2, ""), "{wrong:?}");
    assert_eq!(wrong.error()["code"], "invalid_seed_file");
}

#[test]
fn a_command_that_cannot_be_run_is_named() {
    let home = Home::new();
    let missing = home.run(&["sandbox", "exec", "--", "no-such-program", "-x"]);
    assert_eq!(missing.code, 2, "{missing:?}");

    let message = missing.error()["message"]
        .as_str()
        .expect("a message")
        .to_owned();
    assert!(
        message.starts_with("the command `no-such-program` cannot be run: "),
        "{message}"
    );
    assert_eq!(home.run(&["sandbox", "exec"]).code, 2);
}

#[test]
fn a_signal_that_ends_the_command_is_in_the_exit_code() {
    let home = Home::new();
    assert_eq!(run(&home, &[], "kill -KILL $$").code, 128 + 9);
}

/// Sends a signal to `svc` once the script has printed `ready`.
fn signal(mut command: Command, signal: &str) -> Run {
    let mut child: Child = command.spawn().expect("svc starts");
    let _watchdog = Watchdog::start(&child);
    let mut lines = BufReader::new(child.stdout.take().expect("piped"));
    lines.read_line(&mut String::new()).expect("a line");
    let pid = child.id().to_string();
    assert!(
        Command::new("kill")
            .args([signal, &pid])
            .status()
            .expect("runs")
            .success()
    );

    Run::wait(child)
}

#[test]
fn signals_reach_the_command() {
    let home = Home::new();
    for (name, code) in [("TERM", 11), ("INT", 12)] {
        let script = format!("trap 'exit {code}' {name}; echo ready; while :; do sleep 0.05; done");
        let ended = signal(exec(&home, &[], &script), &format!("-{name}"));
        assert_eq!(
            (ended.code, ended.stderr.as_str()),
            (code, ""),
            "{name}: {ended:?}"
        );
    }

    let ended = signal(exec(&home, &[], "echo ready; exec sleep 60"), "-TERM");
    assert_eq!(ended.code, 128 + 15, "{ended:?}");
}

/// The terminal sends it to the command, too: twice, many programs would skip their clean-up.
#[test]
fn ctrl_c_reaches_the_command_once() {
    let home = Home::new();
    let script = "n=0; trap 'n=$((n+1)); echo interrupt $n' INT; trap 'echo end $n; exit 3' TERM
        echo ready; while :; do sleep 0.05; done";
    let mut terminal = Terminal::run(exec(&home, &[], script), 80, None);
    terminal.until("ready");
    terminal.write("\u{3}");
    terminal.until("interrupt 1");
    terminal.signal("-TERM");
    let output = terminal.end();
    assert!(
        output.code == 3 && output.text.contains("end 1"),
        "{}",
        output.text
    );
}
