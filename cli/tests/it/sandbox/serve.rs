//! How a server is started: its network, its variables, its seed file and its log.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

use serde_json::{Value, json};

use super::RunningServer;
use crate::support::{Home, Run, Watchdog};

#[test]
fn an_address_beyond_loopback_names_both_networks() {
    let home = Home::new();
    for address in ["0.0.0.0:0", ":0"] {
        let run = home.run(&["sandbox", "serve", "--in-memory", "--addr", address]);
        let hint = run.error()["hint"].as_str().expect("a hint").to_owned();
        assert_eq!(run.code, 2, "{run:?}");
        assert!(
            hint.contains("--network trusted") && hint.contains("--network public"),
            "{hint}"
        );
    }

    let run = home.run(&["sandbox", "serve", "--in-memory", "--network", "public"]);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.stderr.contains("--addr"), "{run:?}");
}

/// As `${TOKEN}` in a compose file, if `TOKEN` is not set: the control interface would be open.
#[test]
fn a_variable_that_is_set_and_empty_is_refused() {
    let home = Home::new();
    let serve = [
        "sandbox",
        "serve",
        "--addr",
        "127.0.0.1:0",
        "--until-stdin-closes",
    ];
    for name in [
        "CONTROL_TOKEN",
        "EMAIL_KEY",
        "EXTRACTION_KEY",
        "DIR",
        "RELAY",
        "PUBLIC_URL",
    ] {
        let name = format!("SVC_SANDBOX_{name}");
        let run = home.run_with_env(&serve, &[(&name, "")]);
        assert!(run.code == 2 && run.stdout.is_empty(), "{name}: {run:?}");
        assert!(run.stderr.contains(&name), "{name}: {run:?}");
    }
}

#[test]
fn a_server_in_memory_serves_the_commands_of_its_user() {
    let home = Home::new();
    let _serving = RunningServer::start(&home, &["--in-memory"]);
    let email = "--from hello@sandbox.test --to ada@example.test --subject Hi --text Hello --wait";
    let send = ["--sandbox", "emails", "send"]
        .into_iter()
        .chain(email.split(' '));
    assert_eq!(home.run(&send.collect::<Vec<_>>()).code, 0);

    let messages = home.run(&["sandbox", "messages", "list"]).json();
    assert_eq!(messages.as_array().expect("a list").len(), 1, "{messages}");
    assert_eq!(home.run(&["sandbox", "stop"]).json()["stopped"], true);
    // Nothing of it was in a data directory.
    assert_eq!(home.run(&["sandbox", "messages", "list"]).json(), json!([]));
}

/// In a container whose data directory does not tell of the server: of another user, or not writable.
#[test]
fn the_server_that_the_environment_describes_is_found_without_its_data_directory() {
    let home = Home::new();
    let other = Home::new();
    let serving = RunningServer::start(&home, &["--in-memory"]);
    let at = serving.http.trim_start_matches("http://").to_owned();
    let env = [("SVC_SANDBOX_ADDR", at.as_str())];
    let created = other.run_with_env(
        &["sandbox", "organizations", "create", "--name", "Shop"],
        &env,
    );
    assert_eq!(created.code, 0, "{created:?}");
    assert!(
        home.run(&["sandbox", "organizations", "list"])
            .stdout
            .contains("Shop")
    );

    let status = other.run_with_env(&["sandbox", "status"], &env).json();
    assert_eq!(status["addresses"]["http"], serving.http.as_str());

    let stopped = other.run_with_env(&["sandbox", "stop"], &env);
    assert_eq!(stopped.code, 1, "{stopped:?}");
    assert!(
        stopped.error()["message"]
            .as_str()
            .expect("a text")
            .contains("another user")
    );
    // Nothing else was started there.
    assert!(!other.path("data/svc/sandbox/svc.db").exists());

    // A data directory with data of its own comes first.
    assert_eq!(
        other
            .run(&["sandbox", "organizations", "create", "--name", "Own"])
            .code,
        0
    );
    assert_eq!(
        other
            .run_with_env(&["sandbox", "reset", "--yes"], &env)
            .code,
        0
    );
    assert!(
        home.run(&["sandbox", "organizations", "list"])
            .stdout
            .contains("Shop")
    );
    assert!(
        !other
            .run(&["sandbox", "organizations", "list"])
            .stdout
            .contains("Own")
    );
}

#[test]
fn keys_and_choices_in_variables_are_checked() {
    let home = Home::new();
    let serve = [
        "sandbox",
        "serve",
        "--addr",
        "127.0.0.1:0",
        "--until-stdin-closes",
    ];
    let email = "SVC_SANDBOX_EMAIL_KEY";
    let extraction = "SVC_SANDBOX_EXTRACTION_KEY";
    for (env, wanted) in [
        (vec![(email, "mk_app\n")], "printable ASCII"),
        (vec![(email, "same"), (extraction, "same")], "are the same"),
        (
            vec![("SVC_SANDBOX_NETWORK", "docker")],
            "SVC_SANDBOX_NETWORK: `docker` is not one of",
        ),
        (
            vec![("SVC_SANDBOX_NETWORK", "docker")],
            "loopback, trusted, public",
        ),
    ] {
        let run = home.run_with_env(&serve, &env);
        assert!(
            run.code == 2 && run.stderr.contains(wanted),
            "{env:?}: {run:?}"
        );
    }
}

#[test]
fn an_advance_obeys_the_timeout() {
    let home = Home::new();
    let _serving = RunningServer::start(&home, &["--in-memory"]);
    let (_silent, url) = crate::support::listen();
    let webhook = [
        "--sandbox",
        "webhooks",
        "create",
        &url,
        "--event",
        "email.delivered",
    ];
    assert_eq!(home.run(&webhook).code, 0);

    let email = "--from hello@sandbox.test --to ada@example.test --subject Hi --text Hello";
    let send = ["--sandbox", "emails", "send"]
        .into_iter()
        .chain(email.split(' '));
    assert_eq!(home.run(&send.collect::<Vec<_>>()).code, 0);

    let run = home.run(&["sandbox", "clock", "advance", "2h", "--timeout", "500ms"]);
    assert_eq!(run.code, 9, "{run:?}");
    assert!(run.stderr.contains("svc sandbox clock show"), "{run:?}");
}

#[test]
fn a_relay_that_cannot_be_reached_is_in_the_story() {
    let home = Home::new();
    let _serving = RunningServer::start(
        &home,
        &[
            "--in-memory",
            "--relay",
            "smtp://127.0.0.1:1",
            "--relay-to",
            "*",
        ],
    );
    let email = "--from hello@sandbox.test --to ada@example.test --subject Hi --text Hello";
    let send = ["--sandbox", "emails", "send", "--jq", ".id"]
        .into_iter()
        .chain(email.split(' '));
    let sent = home.run(&send.collect::<Vec<_>>());
    assert_eq!(home.run(&["sandbox", "settle"]).code, 0);

    let story = home.run(&[
        "sandbox",
        "emails",
        "story",
        sent.stdout.trim(),
        "-o",
        "table",
    ]);
    assert!(
        story.stdout.contains("the relay did not get the message"),
        "{story:?}"
    );
}

#[test]
fn listen_says_how_a_sandbox_elsewhere_reaches_it() {
    let home = Home::new();
    let serving = RunningServer::start(&home, &["--in-memory", "--network", "trusted"]);
    // An address of this machine that is none of loopback.
    let url = serving.http.replace("127.0.0.1", "0.0.0.0");
    let listen = ["--sandbox", "listen", "--service", "email"];
    let run = home.run_with_env(&listen, &[("SVC_SANDBOX_URL", &url)]);
    assert!(
        run.code == 2 && run.stderr.contains("--public-url"),
        "{run:?}"
    );
}

/// The server ends at once, because its standard input is closed.
#[test]
fn options_come_from_the_file_of_env_file_below_the_environment_and_the_command_line() {
    let home = Home::new();
    home.file(
        ".env",
        "SVC_SANDBOX_ADDR=127.0.0.1:0\nSVC_SANDBOX_IN_MEMORY=yes\nSVC_SANDBOX_SMTP=127.0.0.1:0\n\
         SVC_SANDBOX_UNTIL_STDIN_CLOSES=1\nSVC_SANDBOX_PUBLIC_URL=http://file.example\n\
         SVC_SANDBOX_SET=create-status=200\nSVC_SANDBOX_CONTROL_TOKEN=our-token\n",
    );
    let serve = ["--env-file", ".env", "sandbox", "serve"];
    let url = |args: &[&str], env: &[(&str, &str)]| {
        let run = home.run_with_env(&[&serve[..], args].concat(), env);
        assert_eq!(run.code, 0, "{run:?}");
        let ready = run.json();
        assert!(
            ready["smtp"].is_string() && ready["data"].is_null(),
            "{ready}"
        );
        assert_eq!(ready["control_token"], "our-token");
        ready["http"].as_str().expect("a URL").to_owned()
    };

    let env = [("SVC_SANDBOX_PUBLIC_URL", "http://environment.example")];
    assert_eq!(url(&[], &[]), "http://file.example");
    assert_eq!(url(&[], &env), "http://environment.example");
    assert_eq!(
        url(&["--public-url", "http://option.example"], &env),
        "http://option.example"
    );

    home.file(".env", "SVC_SANDBOX_IN_MEMORY=perhaps\n");
    let wrong = home.run(&serve);
    assert_eq!(wrong.code, 2, "{wrong:?}");
    assert!(
        wrong
            .stderr
            .contains("SVC_SANDBOX_IN_MEMORY: `perhaps` is not true"),
        "{wrong:?}"
    );

    home.file(".env", "SVC_SANDBOX_KEEP=0\n");
    let wrong = home.run(&serve);
    assert!(
        wrong.code == 2 && wrong.stderr.contains("SVC_SANDBOX_KEEP: "),
        "{wrong:?}"
    );
}

#[test]
fn an_option_without_effect_is_refused() {
    let home = Home::new();
    let bundle = home.file("ca.pem", "");
    let run = home.run(&[
        "sandbox",
        "serve",
        "--addr",
        "127.0.0.1:0",
        "--ca-bundle",
        &bundle,
    ]);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.stderr.contains("set SSL_CERT_FILE"), "{run:?}");
}

#[test]
fn options_come_from_the_environment() {
    for until_stdin_closes in ["0", "1"] {
        serve_with_variables(until_stdin_closes);
    }
}

fn serve_with_variables(until_stdin_closes: &str) {
    let home = Home::new();
    let seed = home.file(
        "seed.toml",
        "[[organizations]]\nname = \"Shop\"\n[[organizations.keys]]\nkey = \"mk_test_shop\"\nservice = \"email\"\n",
    );
    let mut command = home.command(&["sandbox", "serve"]);
    command.envs([
        ("SVC_SANDBOX_NETWORK", "trusted"),
        ("SVC_SANDBOX_ADDR", "127.0.0.1:0"),
        ("SVC_SANDBOX_IN_MEMORY", "TRUE"),
        ("SVC_SANDBOX_SMTP", "127.0.0.1:0"),
        ("SVC_SANDBOX_PUBLIC_URL", "http://mail.dev.example/"),
        ("SVC_SANDBOX_SET", "create-status=200,list-items=data"),
        ("SVC_SANDBOX_SEED", &seed),
        ("SVC_SANDBOX_EMAIL_KEY", "mk_test_ours"),
        ("SVC_SANDBOX_LOG_FORMAT", "json"),
        ("SVC_SANDBOX_UNTIL_STDIN_CLOSES", until_stdin_closes),
        ("SVC_SANDBOX_CONTROL_TOKEN", "our-token"),
    ]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("svc starts");
    let _watchdog = Watchdog::start(&child);
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped"))
        .read_line(&mut line)
        .expect("a line");
    let ready: Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(ready["http"], "http://mail.dev.example", "{ready}");
    assert_eq!(
        (&ready["data"], &ready["control_token"]),
        (&Value::Null, &json!("our-token"))
    );
    assert!(ready["smtp"].is_string(), "{ready}");

    // It is found although it has no data directory, and the page of its health needs no token.
    // One that ends with its parent, such as a test, belongs to it alone.
    let env = [("SVC_SANDBOX_ADDR", "127.0.0.1:1")];
    let status = home.run_with_env(&["sandbox", "status"], &env);
    if until_stdin_closes == "1" {
        assert_eq!(status.code, 1, "{status:?}");
        drop(child.stdin.take());
    } else {
        assert_eq!(status.code, 0, "{status:?}");
        assert_eq!(
            status.json()["addresses"]["http"],
            "http://mail.dev.example"
        );
        let dns = ready["dns"].as_str().expect("an address");
        assert_eq!(status.json()["addresses"]["dns"], dns);
        assert_eq!(status.json()["data"], Value::Null);
        // Nothing listens at the webhook.
        let hook = [
            "webhooks",
            "create",
            "http://127.0.0.1:9/hooks?token=t",
            "--event",
            "email.sent",
        ];
        home.sandbox_json(&hook);
        let mail = [
            "--from=a@sandbox.test",
            "--to=b@c.test",
            "--subject=s",
            "--text=t",
        ];
        home.sandbox_json(&[&["emails", "send"][..], &mail].concat());
        assert_eq!(home.run(&["sandbox", "settle"]).code, 0);
        assert_eq!(home.run(&["sandbox", "stop"]).code, 0);
    }

    let mut log = String::new();
    child
        .stderr
        .take()
        .expect("piped")
        .read_to_string(&mut log)
        .expect("text");
    assert!(child.wait().expect("ends").success());

    let messages = log.lines().map(|line| {
        let entry: Value = serde_json::from_str(line).expect(line);
        entry["message"].as_str().unwrap_or_default().to_owned()
    });
    let messages = messages.collect::<Vec<_>>();
    for expected in ["ready", "stopping", "stopped"] {
        assert!(
            messages.iter().any(|message| message == expected),
            "{messages:?}"
        );
    }

    let has_failed = messages
        .iter()
        .any(|message| message == "a delivery failed");
    assert_eq!(has_failed, until_stdin_closes == "0", "{messages:?}");
    assert!(!log.contains("token=t"), "{log}");
    assert!(
        !log.contains("mk_test_") && !log.contains("our-token"),
        "{log}"
    );
}

#[test]
fn a_clock_that_is_still_frozen_is_named_at_the_start() {
    let home = Home::new();
    assert_eq!(home.run(&["sandbox", "clock", "freeze"]).code, 0);

    let mut command = home.command(&["sandbox", "serve", "--addr", "127.0.0.1:0"]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("svc starts");
    let _watchdog = Watchdog::start(&child);
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped"))
        .read_line(&mut line)
        .expect("a line");
    assert_eq!(home.run(&["sandbox", "stop"]).code, 0);

    let mut log = String::new();
    child
        .stderr
        .take()
        .expect("piped")
        .read_to_string(&mut log)
        .expect("text");
    assert!(log.contains("the clock is frozen"), "{log}");
    assert!(child.wait().expect("ends").success());
}

#[test]
fn a_mistake_in_the_seed_file_names_file_line_and_field() {
    let home = Home::new();
    let webhook = "[[organizations]]\nname = \"Sandbox\"\n[[organizations.webhooks]]\nurl = \"x\"\nevents = [\"email.sent\"]\n";
    let seed = home.file("seed.toml", webhook);
    let run = home.run(&[
        "sandbox",
        "serve",
        "--in-memory",
        "--addr",
        "127.0.0.1:0",
        "--seed",
        &seed,
    ]);
    assert_eq!(
        (run.code, run.error()["code"].as_str()),
        (2, Some("invalid_seed_file")),
        "{run:?}"
    );

    let message = run.error()["message"]
        .as_str()
        .expect("a message")
        .to_owned();
    let expected = format!("{seed}:4: organizations[0].webhooks[0].url: must be");
    assert!(message.starts_with(&expected), "{message}");
}

#[test]
fn the_sandbox_commands_use_the_keys_of_the_server() {
    let home = Home::new();
    let mut command = home.command(&["sandbox", "serve", "--addr", "127.0.0.1:0"]);
    command.env("SVC_SANDBOX_EMAIL_KEY", "mk_test_ours");
    let _serving = RunningServer::of(command);
    // Another terminal, which does not know them.
    assert_eq!(
        home.sandbox_json(&["domains", "list"])[0]["name"],
        "sandbox.test"
    );

    let who = home.run(&["--sandbox", "whoami"]);
    assert_eq!((who.code, who.stderr.as_str()), (0, ""), "{who:?}");
}

#[test]
fn a_command_says_that_it_started_a_server_of_its_own() {
    let home = Home::new();
    let who = home.run(&["--sandbox", "whoami"]);
    assert_eq!(who.code, 0, "{who:?}");
    assert!(
        who.stderr.contains("this command started its own"),
        "{who:?}"
    );

    let doctor = home.run(&["--sandbox", "doctor"]);
    assert!(
        doctor.stdout.contains("this command started its own"),
        "{doctor:?}"
    );
}

/// A variable that is not text, or a switch that is neither on nor off, is wrong usage.
#[test]
fn a_switch_of_the_environment_is_true_or_false() {
    let home = Home::new();
    let mut command = home.command(&["sandbox", "serve", "--addr", "127.0.0.1:0"]);
    command.env("SVC_SANDBOX_IN_MEMORY", "maybe");
    let run = Run::complete(command);
    assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{run:?}");
}
