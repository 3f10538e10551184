//! Keys and secrets stay where they belong.

use crate::support::{Home, Service};

const KEY: &str = "mk_live_topsecretvalue";

#[test]
fn neither_verbose_nor_dry_run_nor_an_error_shows_the_key() {
    let home = Home::new();
    let body = r#"{"error":{"code":"unauthorized","message":"no"}}"#;
    let service = Service::one(401, body);
    let url = service.url();
    let env = [("SVC_EMAIL_KEY", KEY), ("SVC_EMAIL_URL", url.as_str())];
    for args in [
        &["-v", "audiences", "list"][..],
        &["--dry-run", "audiences", "list"],
        &["-o", "table", "--dry-run", "audiences", "list"],
        &["config", "show"],
        &["whoami"],
        &["profiles", "list"],
    ] {
        let run = home.run_with(args, &env);
        assert!(!format!("{run:?}").contains("topsecret"), "{args:?}: {run:?}");
    }
    let dry = home.run_with(&["--dry-run", "audiences", "list"], &env);
    assert_eq!(dry.code, 0, "{dry:?}");
    assert_eq!(dry.json()["method"], "GET");
    assert_eq!(dry.json()["url"], format!("{url}/api/v1/audiences"));
    assert_eq!(dry.json()["headers"]["authorization"], "Bearer ***");
}

#[test]
fn a_dry_run_sends_nothing_and_shows_the_body() {
    let home = Home::new();
    let service = Service::one(200, "{}");
    let url = service.url();
    let run = home.run_with(
        &[
            "emails",
            "send",
            "--from",
            "a@b.test",
            "--to",
            "c@d.test",
            "--subject",
            "s",
            "--html",
            "<p>Hi</p>",
            "--dry-run",
            "--idempotency-key",
            "once",
        ],
        &[("SVC_EMAIL_KEY", KEY), ("SVC_EMAIL_URL", url.as_str())],
    );
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{run:?}");
    let request = run.json();
    assert_eq!(request["headers"]["idempotency-key"], "once");
    assert_eq!(
        request["body"],
        serde_json::json!({"from": "a@b.test", "to": ["c@d.test"], "subject": "s",
                           "html": "<p>Hi</p>", "text": "Hi"})
    );
    assert!(service.requests().is_empty());
}

#[cfg(unix)]
#[test]
fn stored_keys_are_readable_by_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = Home::new();
    let service = Service::one(200, "[]");
    assert_eq!(home.feed(&["login", "--email-url", &service.url()], KEY).code, 0);
    let path = home.path("config/svc/credentials.toml");
    assert_eq!(std::fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
    let config = std::fs::read_to_string(home.path("config/svc/config.toml")).expect("read");
    assert!(!config.contains("topsecret"), "{config}");

    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("changed");
    let run = home.run(&["audiences", "list"]);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.error()["hint"].as_str().is_some_and(|hint| hint.starts_with("chmod 600")));
}

#[test]
fn a_key_file_is_read_for_the_service_of_the_command() {
    let home = Home::new();
    let service = Service::one(200, "[]");
    let file = home.file("key", format!("{KEY}\n"));
    let run = home.run(&["--email-url", &service.url(), "--key-file", &file, "audiences", "list"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(service.requests()[0].contains(&format!("authorization: Bearer {KEY}\r\n")));
    let fed =
        home.feed(&["--email-url", &service.url(), "--key-file", "-", "audiences", "list"], KEY);
    assert_eq!(fed.code, 0, "{fed:?}");
}

#[test]
fn a_relays_password_is_not_taken_from_an_option() {
    let home = Home::new();
    let relay = "smtp://ada:topsecret@mail.example.com";
    let run = home.run_with(&["sandbox", "serve", "--in-memory", "--relay", relay], &[]);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.stderr.contains("SVC_RELAY") && !run.stderr.contains("topsecret"), "{run:?}");
}

/// A password that is found nowhere else.
const SECRET: &str = "topsecretvalue";

type Place = (&'static [(&'static str, &'static str)], &'static str, &'static str);

/// Every place that a key or a secret can be given in, as environment, command
/// line and standard input; `$` is the home directory, `@` the service.
const PLACES: &[Place] = &[
    (&[("SVC_EMAIL_KEY", KEY), ("SVC_EMAIL_URL", "@")], "audiences list", ""),
    (&[("SVC_EMAIL_KEY", KEY), ("SVC_EMAIL_URL", "@")], "doctor", ""),
    (&[("SVC_EMAIL_KEY", KEY), ("SVC_EMAIL_URL", "@")], "api POST /api/v1/audiences --data {}", ""),
    (&[("SVC_EXTRACTION_KEY", KEY), ("SVC_EXTRACTION_URL", "@")], "extraction me", ""),
    (&[("SVC_EXTRACTION_KEY", KEY), ("SVC_EXTRACTION_URL", "@")], "whoami", ""),
    (&[("SVC_EMAIL_URL", "@")], "--key-file $/key emails get eml_1", ""),
    (&[("SVC_EMAIL_URL", "@")], "--key-file - emails get eml_1", KEY),
    (&[], "--env-file $/vars audiences list", ""),
    (&[], "--env-file $/vars config show", ""),
    (&[], "--profile kept audiences list", ""),
    (&[], "--profile kept config show", ""),
    (&[], "profiles list", ""),
    (&[], "login --profile new --email-url @", KEY),
    (&[], "login --profile new --service extraction --extraction-url @ --key-file $/key", ""),
    (&[("SVC_EMAIL_URL", "http://ada:topsecretvalue@127.0.0.1:9")], "config show", ""),
    (
        &[("SVC_EMAIL_URL", "http://ada:topsecretvalue@127.0.0.1:9"), ("SVC_EMAIL_KEY", "k")],
        "audiences list",
        "",
    ),
    (
        &[
            ("HTTP_PROXY", "http://ada:topsecretvalue@127.0.0.1:9"),
            ("SVC_EMAIL_URL", "http://mail.test"),
            ("SVC_EMAIL_KEY", KEY),
        ],
        "audiences list --retries 0",
        "",
    ),
    (
        &[("SVC_RELAY", "smtp://ada:topsecretvalue@127.0.0.1 9")],
        "sandbox serve --in-memory --addr 127.0.0.1:0",
        "",
    ),
    (&[], "sign --service email --secret-file $/key", "body"),
    (&[], "verify --service email --secret-file $/key --signature abc", "body"),
    (&[], "trigger email.sent --to @/hooks --secret-file $/key", ""),
    (&[], "replay rec_1 --to @/hooks --secret-file $/key", ""),
    (&[], "replay rec_1 --to @/hooks", ""),
    (&[("SVC_EMAIL_KEY", KEY), ("SVC_EMAIL_URL", "@")], "listen --public-url https://me.test", ""),
    (&[], "listen --secret-file $/empty", ""),
];

fn home_with_secrets(url: &str) -> Home {
    let home = Home::new();
    let key = home.file("key", KEY);
    home.file("vars", format!("SVC_EMAIL_KEY={KEY}\nSVC_EMAIL_URL={url}\n"));
    home.file("empty", "");
    home.file("data/svc/deliveries/rec_1.json", format!(r#"{{"id":"rec_1","received_at":"2026-01-04T09:00:00.000Z","service":"email","event":"email.sent","headers":[],"body":"e30=","forwarded_to":null,"secret_file":"{key}"}}"#));
    let kept = Service::one(200, "[]");
    let login = home.feed(&["login", "--profile", "kept", "--email-url", &kept.url()], KEY);
    assert_eq!(login.code, 0, "{login:?}");
    home
}

#[test]
fn wherever_it_is_given_no_secret_is_shown() {
    let body = r#"{"error":{"code":"unauthorized","message":"no"}}"#;
    let check = |status: u16, body: &str| {
        let service = Service::one(status, body);
        let home = home_with_secrets(&service.url());
        for (env, line, input) in PLACES {
            for mode in ["", "-v", "--dry-run", "-v -o table", "-o yaml"] {
                let root = home.path("").display().to_string();
                let filled = |text: &str| text.replace("$/", &root).replace('@', &service.url());
                let args = filled(&format!("{mode} {line}"));
                let mut command = home.command(&args.split_whitespace().collect::<Vec<_>>());
                for (name, value) in *env {
                    let whole = value.contains("ada:");
                    command.env(name, if whole { (*value).to_owned() } else { filled(value) });
                }
                let run = Home::feed_to(command, input);
                assert!(!format!("{run:?}").contains(SECRET), "{mode} {line}: {run:?}");
            }
        }
    };
    // Most of the time is spent waiting for back-offs.
    std::thread::scope(|scope| {
        for (status, body) in [(200, "[]"), (401, body), (500, "")] {
            scope.spawn(move || check(status, body));
        }
    });
}

#[cfg(target_os = "linux")]
#[test]
fn no_secret_is_in_a_process_list() {
    // It takes requests and never answers: there is time to look.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let home = home_with_secrets(&url);
    let key = home.path("key").display().to_string();
    for (args, input) in [
        (&["--key-file", &key, "--email-url", &url, "audiences", "list"][..], ""),
        (&["--key-file", "-", "--email-url", &url, "audiences", "list"], KEY),
        (&["login", "--email-url", &url], KEY),
        (&["trigger", "email.sent", "--to", &url, "--secret-file", &key], ""),
    ] {
        let mut child = home.spawn(args);
        std::io::Write::write_all(&mut child.stdin.take().expect("piped"), input.as_bytes())
            .expect("taken");
        // It has read the key by now: it calls.
        let called = listener.accept().expect("a call");
        let seen = std::fs::read(format!("/proc/{}/cmdline", child.id())).expect("it runs");
        assert!(!String::from_utf8_lossy(&seen).contains(SECRET), "{args:?}");
        // And nobody works for it whose command line could say more.
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        assert_eq!(std::fs::read_to_string(children).unwrap_or_default(), "", "{args:?}");
        drop(called);
        child.kill().expect("killed");
        child.wait().expect("ends");
    }
}

#[cfg(unix)]
#[test]
fn whatever_is_stored_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = home_with_secrets("http://127.0.0.1:9");
    // Directories that others made, and that others may look into.
    for dir in ["config", "data", "elsewhere"] {
        let path = home.path(dir);
        std::fs::create_dir_all(&path).expect("made");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("changed");
    }
    let sent = home.run_with(
        &["--sandbox", "webhooks", "create", "http://127.0.0.1:9/", "--event", "email.sent"],
        &[("SVC_SANDBOX_DIR", &home.path("elsewhere").display().to_string())],
    );
    assert_eq!(sent.code, 0, "{sent:?}");
    let mut listening = home.spawn(&["--sandbox", "listen"]);
    let mut line = String::new();
    let mut said = std::io::BufReader::new(listening.stdout.take().expect("piped"));
    std::io::BufRead::read_line(&mut said, &mut line).expect("a line");
    let pid = listening.id().to_string();
    let killed = std::process::Command::new("kill").args(["-TERM", &pid]).status();
    assert!(killed.expect("runs").success());
    listening.wait().expect("ends");

    let mut looked_at = Vec::new();
    let mut todo = ["config/svc", "data/svc", "elsewhere"].map(|dir| home.path(dir)).to_vec();
    while let Some(dir) = todo.pop() {
        for entry in std::fs::read_dir(dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            let mode = std::fs::metadata(&path).expect("there").permissions().mode();
            if path.is_dir() {
                todo.push(path);
                continue;
            }
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            // The fixture is our own; addresses and locks are no secret.
            if !matches!(
                name.as_str(),
                "rec_1.json" | "config.toml" | "server.lock" | "server.json"
            ) {
                assert_eq!(mode & 0o077, 0, "{} is {mode:o}", path.display());
            }
            looked_at.push(name);
        }
    }
    for name in ["credentials.toml", "listen-email.secret", "svc.db"] {
        assert!(looked_at.iter().any(|seen| seen == name), "no {name} in {looked_at:?}");
    }
}
