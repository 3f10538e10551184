//! Keys and secrets never appear in output, process lists or files that others can read.

use crate::support::{Home, Service};

const KEY: &str = "mk_live_topsecretvalue";

#[test]
fn output_never_shows_the_key() {
    let home = Home::new();
    let body = r#"{"error":{"code":"unauthorized","message":"no"}}"#;
    let service = Service::always(401, body);
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
        let run = home.run_with_env(args, &env);
        assert!(
            !format!("{run:?}").contains("topsecret"),
            "{args:?}: {run:?}"
        );
    }

    let dry = home.run_with_env(&["--dry-run", "audiences", "list"], &env);
    assert_eq!(dry.code, 0, "{dry:?}");
    assert_eq!(dry.json()["method"], "GET");
    assert_eq!(dry.json()["url"], format!("{url}/api/v1/audiences"));
    assert_eq!(dry.json()["headers"]["authorization"], "Bearer ***");
}

#[test]
fn a_dry_run_shows_the_request_and_sends_nothing() {
    let home = Home::new();
    let service = Service::always(200, "{}");
    let url = service.url();
    let run = home.run_with_env(
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
fn stored_keys_are_private_to_their_owner() {
    use std::os::unix::fs::PermissionsExt as _;

    let home = Home::new();
    let service = Service::always(200, "[]");
    assert_eq!(
        home.run_with_input(&["login", "--email-url", &service.url()], KEY)
            .code,
        0
    );

    let path = home.path("config/svc/credentials.toml");
    assert_eq!(
        std::fs::metadata(&path)
            .expect("there")
            .permissions()
            .mode()
            & 0o777,
        0o600
    );

    let config = std::fs::read_to_string(home.path("config/svc/config.toml")).expect("read");
    assert!(!config.contains("topsecret"), "{config}");

    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("changed");
    let run = home.run(&["audiences", "list"]);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(
        run.error()["hint"]
            .as_str()
            .is_some_and(|hint| hint.starts_with("chmod 600"))
    );
}

#[cfg(unix)]
#[test]
fn a_key_file_that_others_can_read_is_warned_of() {
    use std::os::unix::fs::PermissionsExt as _;

    let home = Home::new();
    let service = Service::always(200, "[]");
    let file = home.file("key", format!("{KEY}\n"));
    let set = |mode| {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).expect("changed");
    };
    let url = service.url();
    let list = [
        "--email-url",
        &url,
        "--key-file",
        &file,
        "-o",
        "table",
        "audiences",
        "list",
    ];
    let login = [
        "--email-url",
        &url,
        "--key-file",
        &file,
        "-o",
        "table",
        "login",
    ];
    for (mode, warned) in [(0o644, true), (0o640, true), (0o600, false)] {
        set(mode);
        for command in [&list[..], &login[..]] {
            let run = home.run(command);
            assert_eq!(run.code, 0, "{run:?}");
            assert_eq!(
                run.stderr.contains("chmod 600"),
                warned,
                "{mode:o}: {run:?}"
            );
        }
    }
}

#[test]
fn a_key_file_provides_the_key_for_the_command() {
    let home = Home::new();
    let service = Service::always(200, "[]");
    let file = home.file("key", format!("{KEY}\n"));
    let run = home.run(&[
        "--email-url",
        &service.url(),
        "--key-file",
        &file,
        "audiences",
        "list",
    ]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(service.requests()[0].contains(&format!("authorization: Bearer {KEY}\r\n")));

    let fed = home.run_with_input(
        &[
            "--email-url",
            &service.url(),
            "--key-file",
            "-",
            "audiences",
            "list",
        ],
        KEY,
    );
    assert_eq!(fed.code, 0, "{fed:?}");
}

#[test]
fn a_relay_password_in_an_option_is_rejected() {
    let home = Home::new();
    let relay = "smtp://ada:topsecret@mail.example.com";
    let run = home.run_with_env(&["sandbox", "serve", "--in-memory", "--relay", relay], &[]);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(
        run.stderr.contains("SVC_SANDBOX_RELAY") && !run.stderr.contains("topsecret"),
        "{run:?}"
    );
}

/// A part of the secrets that occurs nowhere else.
const SECRET: &str = "topsecretvalue";

type SecretSource = (
    &'static [(&'static str, &'static str)],
    &'static str,
    &'static str,
);

/// Every source of a key or secret: environment, command line and standard input. `$` is the home
/// directory, `@` the service's URL.
const SOURCES: &[SecretSource] = &[
    (
        &[("SVC_EMAIL_KEY", KEY), ("SVC_EMAIL_URL", "@")],
        "audiences list",
        "",
    ),
    (
        &[("SVC_EMAIL_KEY", KEY), ("SVC_EMAIL_URL", "@")],
        "doctor",
        "",
    ),
    (
        &[("SVC_EMAIL_KEY", KEY), ("SVC_EMAIL_URL", "@")],
        "api POST /api/v1/audiences --data {}",
        "",
    ),
    (
        &[("SVC_EXTRACTION_KEY", KEY), ("SVC_EXTRACTION_URL", "@")],
        "whoami",
        "",
    ),
    (
        &[("SVC_EMAIL_URL", "@")],
        "--key-file $/key emails get eml_1",
        "",
    ),
    (
        &[("SVC_EMAIL_URL", "@")],
        "--key-file - emails get eml_1",
        KEY,
    ),
    (&[], "--env-file $/vars audiences list", ""),
    (&[], "--env-file $/vars config show", ""),
    (&[], "--profile kept audiences list", ""),
    (&[], "--profile kept config show", ""),
    (&[], "profiles list", ""),
    (&[], "login --profile new --email-url @", KEY),
    (
        &[],
        "login --profile new --service extraction --extraction-url @ --key-file $/key",
        "",
    ),
    (
        &[("SVC_EMAIL_URL", "http://ada:topsecretvalue@127.0.0.1:9")],
        "config show",
        "",
    ),
    (
        &[
            ("SVC_EMAIL_URL", "http://ada:topsecretvalue@127.0.0.1:9"),
            ("SVC_EMAIL_KEY", "k"),
        ],
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
        &[("SVC_SANDBOX_RELAY", "smtp://ada:topsecretvalue@127.0.0.1 9")],
        "sandbox serve --in-memory --addr 127.0.0.1:0",
        "",
    ),
    (&[], "sign --service email --secret-file $/key", "body"),
    (
        &[],
        "verify --service email --secret-file $/key --signature abc",
        "body",
    ),
    (
        &[],
        "trigger email.sent --to @/hooks --secret-file $/key",
        "",
    ),
    (
        &[],
        "certify @/hooks --service email --secret-file $/key --only wrong-secret",
        "",
    ),
    (&[], "replay rec_1 --to @/hooks --secret-file $/key", ""),
    (&[], "replay rec_1 --to @/hooks", ""),
    (
        &[("SVC_EMAIL_KEY", KEY), ("SVC_EMAIL_URL", "@")],
        "listen --public-url https://me.test",
        "",
    ),
    (&[], "listen --secret-file $/empty", ""),
];

fn home_with_secrets(url: &str) -> Home {
    let home = Home::new();
    let key = home.file("key", KEY);
    home.file(
        "vars",
        format!("SVC_EMAIL_KEY={KEY}\nSVC_EMAIL_URL={url}\n"),
    );
    home.file("empty", "");
    home.file("data/svc/deliveries/rec_1.json", format!(r#"{{"id":"rec_1","received_at":"2026-01-04T09:00:00.000Z","service":"email","event":"email.sent","headers":[],"body":"e30=","forwarded_to":null,"secret_file":"{key}"}}"#));
    let kept = Service::always(200, "[]");
    let login = home.run_with_input(
        &["login", "--profile", "kept", "--email-url", &kept.url()],
        KEY,
    );
    assert_eq!(login.code, 0, "{login:?}");

    home
}

#[test]
fn no_source_of_a_secret_leaks_it() {
    let body = r#"{"error":{"code":"unauthorized","message":"no"}}"#;
    let check = |status: u16, body: &str| {
        let service = Service::always(status, body);
        let home = home_with_secrets(&service.url());
        for (env, line, input) in SOURCES {
            // One retry, which -v reports, is enough.
            for mode in ["", "-v --retries 1", "--dry-run", "-v -o table", "-o csv"] {
                let retries = if mode.contains("--retries") {
                    ""
                } else {
                    "--retries 0"
                };
                let root = home.path("").display().to_string();
                let filled = |text: &str| text.replace("$/", &root).replace('@', &service.url());
                let args = filled(&format!("{retries} {mode} {line}"));
                let mut command = home.command(&args.split_whitespace().collect::<Vec<_>>());
                for (name, value) in *env {
                    let whole = value.contains("ada:");
                    command.env(
                        name,
                        if whole {
                            (*value).to_owned()
                        } else {
                            filled(value)
                        },
                    );
                }
                let run = Home::run_command_with_input(command, input);
                assert!(
                    !format!("{run:?}").contains(SECRET),
                    "{mode} {line}: {run:?}"
                );
            }
        }
    };
    std::thread::scope(|scope| {
        for (status, body) in [(200, "[]"), (401, body), (500, "")] {
            scope.spawn(move || check(status, body));
        }
    });
}

#[cfg(target_os = "linux")]
#[test]
fn secrets_do_not_appear_in_the_process_list() {
    // Accepts connections and never responds, so that svc keeps running.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let home = home_with_secrets(&url);
    let key = home.path("key").display().to_string();
    for (args, input) in [
        (
            &["--key-file", &key, "--email-url", &url, "audiences", "list"][..],
            "",
        ),
        (
            &["--key-file", "-", "--email-url", &url, "audiences", "list"],
            KEY,
        ),
        (&["login", "--profile", "new", "--email-url", &url], KEY),
        (
            &["trigger", "email.sent", "--to", &url, "--secret-file", &key],
            "",
        ),
        (
            &["certify", &url, "--service", "email", "--secret-file", &key],
            "",
        ),
    ] {
        let mut child = home.spawn(args);
        std::io::Write::write_all(&mut child.stdin.take().expect("piped"), input.as_bytes())
            .expect("taken");
        // svc connects after it has read the key.
        let connection = crate::support::accept(&listener);
        let seen = std::fs::read(format!("/proc/{}/cmdline", child.id())).expect("svc runs");
        assert!(!String::from_utf8_lossy(&seen).contains(SECRET), "{args:?}");
        // No child process either, whose command line could contain the key.
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        assert_eq!(
            std::fs::read_to_string(children).unwrap_or_default(),
            "",
            "{args:?}"
        );
        drop(connection);
        child.kill().expect("killed");
        child.wait().expect("ends");
    }
}

#[cfg(unix)]
#[test]
fn all_stored_files_are_private_to_their_owner() {
    use std::os::unix::fs::PermissionsExt as _;

    let home = home_with_secrets("http://127.0.0.1:9");
    // Existing directories that other users can read.
    for dir in ["config", "data", "elsewhere"] {
        let path = home.path(dir);
        std::fs::create_dir_all(&path).expect("created");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("changed");
    }

    let sent = home.run_with_env(
        &[
            "--sandbox",
            "webhooks",
            "create",
            "http://127.0.0.1:9/",
            "--event",
            "email.sent",
        ],
        &[(
            "SVC_SANDBOX_DIR",
            &home.path("elsewhere").display().to_string(),
        )],
    );
    assert_eq!(sent.code, 0, "{sent:?}");

    let mut listening = home.spawn(&["--sandbox", "listen"]);
    let mut line = String::new();
    let _watchdog = crate::support::Watchdog::start(&listening);
    let mut stdout = std::io::BufReader::new(listening.stdout.take().expect("piped"));
    std::io::BufRead::read_line(&mut stdout, &mut line).expect("a line");
    let pid = listening.id().to_string();
    let killed = std::process::Command::new("kill")
        .args(["-TERM", &pid])
        .status();
    assert!(killed.expect("runs").success());

    listening.wait().expect("ends");

    let mut checked = Vec::new();
    let mut todo = ["config/svc", "data/svc", "elsewhere"]
        .map(|dir| home.path(dir))
        .to_vec();
    while let Some(dir) = todo.pop() {
        for entry in std::fs::read_dir(dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            let mode = std::fs::metadata(&path)
                .expect("there")
                .permissions()
                .mode();
            if path.is_dir() {
                todo.push(path);
                continue;
            }
            let name = path
                .file_name()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            // A fixture, and files without secrets.
            if !matches!(
                name.as_str(),
                "rec_1.json" | "config.toml" | "server.lock" | "server.json"
            ) {
                assert_eq!(mode & 0o077, 0, "{} is {mode:o}", path.display());
            }
            checked.push(name);
        }
    }

    for name in ["credentials.toml", "listen.secret", "svc.db"] {
        assert!(
            checked.iter().any(|seen| seen.starts_with(name)),
            "no {name} in {checked:?}"
        );
    }
}
