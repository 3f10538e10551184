//! What one run leaves for the next, and what several at once do: environment files, stored settings,
//! commands that print a key, secrets of the first use, paths that are not UTF-8.

use std::time::Instant;

use serde_json::{Value, json};

use crate::support::{Home, Run, Service, wait_until};

const URL: &str = "https://mail.example";

fn set(home: &Home, args: &[&str]) -> Run {
    home.run(&[&["config", "set"], args].concat())
}

#[track_caller]
fn assert_usage(run: &Run, part: &str) {
    let error = run.error();
    assert_eq!((run.code, &error["kind"]), (2, &json!("usage")), "{run:?}");
    assert!(error.to_string().contains(part), "{error}");
}

fn config(home: &Home) -> String {
    std::fs::read_to_string(home.path("config/svc/config.toml")).unwrap_or_default()
}

#[test]
fn a_guard_in_an_environment_file_holds_or_the_line_is_refused() {
    let home = Home::new();
    let service = Service::always(202, r#"{"id":"eml_1"}"#);
    let url = service.url();
    let send = |file: &str| {
        let send = "emails send --from a@b.test --to c@customer.test --subject s --text t";
        let args = ["--env-file", file, "--email-url", &url];
        let args = args.into_iter().chain(send.split(' ')).collect::<Vec<_>>();
        home.run_with_env(&args, &[("SVC_EMAIL_KEY", "mk_test_x")])
    };

    let bom = home.file("bom", "\u{feff}SVC_ALLOW_RECIPIENTS=@example.test\r\n");
    assert_eq!(send(&bom).error()["code"], "recipient_guard");

    for line in [
        "set SVC_ALLOW_RECIPIENTS=@example.test",
        "$env:SVC_ALLOW_RECIPIENTS=\"@example.test\"",
        "svc_allow_recipients=@example.test",
        "SVC_ALLOW_RECIPIENTS\t=@example.test",
        "export\tSVC_ALLOW_RECIPIENTS=@example.test",
    ] {
        let file = home.file("vars", format!("# a comment\n{line}\n"));
        assert_usage(&send(&file), "line 2");
    }

    assert_eq!(service.requests(), [""; 0]);
}

#[cfg(unix)]
#[test]
fn several_processes_at_their_first_use_have_one_secret() {
    let home = Home::new();
    let print = ["listen", "--print-secret"];
    let runs = (0..8).map(|_| home.spawn(&print)).collect::<Vec<_>>();
    let mut secrets = runs
        .into_iter()
        .map(|run| Run::wait(run).stdout)
        .collect::<Vec<_>>();
    secrets.dedup();
    assert_eq!(secrets.len(), 1, "{secrets:?}");
    assert_eq!(home.run(&print).stdout, secrets[0]);

    // Nothing else is left of those that were slower.
    let files = std::fs::read_dir(home.path("data/svc")).expect("a directory");
    assert_eq!(files.count(), 1);
}

#[test]
fn a_stored_path_is_found_from_every_directory() {
    let home = Home::new();
    home.file("certs/ca.pem", "-----BEGIN CERTIFICATE-----\n");
    home.file("bin/get-key", "");
    let absolute = home.path("certs/ca.pem").display().to_string();
    assert_eq!(
        set(&home, &["ca_bundle", "certs/ca.pem"]).json()["value"],
        absolute.as_str()
    );

    let command = set(&home, &["email_key_command", "bin/get-key 'a b'"]).json();
    let expected = format!("{} 'a b'", home.path("bin/get-key").display());
    assert_eq!(command["value"], expected.as_str());

    // A name is looked up in PATH.
    let command = set(&home, &["email_key_command", "pass show svc/live"]).json();
    assert_eq!(command["value"], "pass show svc/live");
}

#[test]
fn a_value_that_contradicts_another_setting_is_refused_when_it_is_set() {
    let home = Home::new();
    assert_eq!(set(&home, &["allow_recipients", "@example.test"]).code, 0);

    let before = config(&home);
    assert_usage(
        &set(&home, &["redirect_recipients", "me@elsewhere.test"]),
        "matches none of its rules",
    );
    assert_eq!(config(&home), before);
    assert_eq!(
        set(&home, &["redirect_recipients", "me@example.test"]).code,
        0
    );
    assert_usage(
        &set(&home, &["allow_recipients", "@elsewhere.test"]),
        "matches none of its rules",
    );

    let login = ["login", "--store-only", "--email-url", URL];
    assert_eq!(home.run_with_input(&login, "mk_test_stored").code, 0);
    assert_usage(
        &set(&home, &["email_url", "https://other.example"]),
        "belongs to https://mail",
    );
    assert_usage(
        &set(&home, &["email_key_command", "pass show svc"]),
        "svc logout",
    );
    assert_eq!(set(&home, &["email_url", "https://mail.example/"]).code, 0);
    assert_usage(
        &set(&home, &["bulk_memory", "1d"]),
        "shorter than bulk_retention",
    );
    // What concerns others can still be set.
    assert_eq!(set(&home, &["retries", "3"]).code, 0);

    let other = ["--profile", "other"];
    assert_eq!(
        set(
            &home,
            &[&["email_key_command", "pass show x"], &other[..]].concat()
        )
        .code,
        0
    );

    let login = home.run_with_input(&[&login[..], &other].concat(), "mk_test_stored");
    assert_usage(&login, "config unset email_key_command");
    assert_usage(&set(&home, &["email_key_command", "pass 'x"]), "not closed");
    assert_usage(&set(&home, &["email_key_command", "''"]), "empty");
}

#[test]
fn config_unset_removes_a_setting_also_one_that_is_unknown() {
    let home = Home::new();
    let text = "# mine\n[profiles.default]\nretries = 5\nallow_recipient = \"x\"\n";
    home.file("config/svc/config.toml", text);
    let unset = |key: &str| home.run(&["config", "unset", key]);
    assert_eq!(
        unset("retries").json(),
        json!({"setting": "retries", "value": null, "from": "default"})
    );
    assert_eq!(unset("allow_recipient").code, 0);
    assert_eq!(config(&home), "# mine\n[profiles.default]\n");
    assert_eq!(unset("retries").code, 0);
    assert_usage(&unset("retry"), "not a setting");
}

#[test]
fn login_with_store_only_sends_no_request() {
    let home = Home::new();
    let service = Service::always(401, "{}");
    let url = service.url();
    let login = ["login", "--store-only", "--email-url", &url];
    let run = home.run_with_input(&login, "mk_live_stored");
    assert_eq!(
        (run.code, &run.json()["key"]),
        (0, &json!("mk_live_…")),
        "{run:?}"
    );
    assert_eq!(service.requests(), [""; 0]);

    home.run(&["audiences", "list", "--retries", "0"]);
    assert!(service.requests()[0].contains("Bearer mk_live_stored"));
}

/// A script that appends a line to `runs`, and does this.
#[cfg(unix)]
fn script(home: &Home, name: &str, body: &str) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let runs = home.path("runs").display().to_string();
    let path = home.file(name, format!("#!/bin/sh\necho x >> {runs}\n{body}\n"));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).expect("executable");
    path
}

#[cfg(unix)]
#[test]
fn a_command_of_the_profile_prints_the_key() {
    let home = Home::new();
    let service = Service::always(200, "[]");
    let path = script(&home, "get-key", "echo \"mk_test_$1\"; echo topsecret >&2");
    assert_eq!(set(&home, &["email_url", &service.url()]).code, 0);

    // Without a shell: what would be two commands is one word.
    let command = format!("{path} 'a;echo'");
    assert_eq!(set(&home, &["email_key_command", &command]).code, 0);

    for args in [
        &["-vv", "audiences", "list"][..],
        &["--dry-run", "-vv", "audiences", "list"],
        &["config", "show"],
        &["profiles", "list"],
        &["doctor"],
    ] {
        let run = home.run(args);
        let shown = format!("{run:?}");
        assert!(!shown.contains("topsecret"), "{shown}");
        assert!(!shown.contains("test_a;"), "{args:?}: {shown}");
    }

    assert!(
        service.requests()[0].contains("Bearer mk_test_a;echo"),
        "{:?}",
        service.requests()
    );

    // Once in a run, and never to show the settings.
    let runs = || {
        std::fs::read_to_string(home.path("runs"))
            .expect("runs")
            .lines()
            .count()
    };

    let before = runs();
    home.run(&["config", "show"]);
    home.run(&["--sandbox", "--dry-run", "audiences", "list"]);
    assert_eq!(runs(), before);

    home.run(&["emails", "get", "eml_1"]);
    assert_eq!(runs(), before + 1);

    // It is a key of the profile's base URL.
    let elsewhere = home.run_with_env(&["audiences", "list"], &[("SVC_EMAIL_URL", URL)]);
    assert_eq!(elsewhere.error()["code"], "key_for_another_url");

    let given = [("SVC_EMAIL_KEY", "mk_test_env")];
    assert_eq!(home.run_with_env(&["audiences", "list"], &given).code, 0);
    assert!(
        service
            .requests()
            .last()
            .expect("one")
            .contains("Bearer mk_test_env")
    );
}

#[cfg(unix)]
#[test]
fn a_command_that_prints_no_key_is_named_and_shows_nothing() {
    let home = Home::new();
    assert_eq!(set(&home, &["email_url", URL]).code, 0);

    for (body, problem) in [
        (
            "echo topsecret >&2; echo topsecret; exit 3",
            "exit status: 3",
        ),
        ("true", "contains no key"),
        ("echo two topsecret words", "white space"),
        ("kill -9 $$", "signal: 9"),
    ] {
        let path = script(&home, "get-key", body);
        assert_eq!(set(&home, &["email_key_command", &path]).code, 0);
        let run = home.run(&["-vv", "audiences", "list"]);
        let error = run.error();
        let message = error["message"].as_str().expect("a message");
        assert_eq!(run.code, 2, "{run:?}");
        assert!(
            message.contains("email_key_command") && message.contains(problem),
            "{message}"
        );
        assert!(!format!("{run:?}").contains("topsecret"), "{run:?}");
    }

    assert_eq!(
        set(&home, &["email_key_command", "svc-no-such-program"]).code,
        0
    );

    let missing = home.run(&["audiences", "list"]).error();
    assert!(
        missing["message"]
            .to_string()
            .contains("`svc-no-such-program` cannot be run"),
        "{missing}"
    );

    // What it has started ends with it.
    let path = script(&home, "get-key", "sleep 600 & echo $! > started; wait");
    assert_eq!(set(&home, &["email_key_command", &path]).code, 0);

    let started = Instant::now();
    let slow = home.run(&["audiences", "list"]).error();
    assert!(
        slow["message"].to_string().contains("within 10 s"),
        "{slow}"
    );
    assert!(started.elapsed().as_secs() < 60);

    let started = std::fs::read_to_string(home.path("started")).expect("a process id");
    let stat = format!("/proc/{}/stat", started.trim());
    wait_until("the end of what it has started", || {
        let stat = std::fs::read_to_string(&stat).unwrap_or_default();
        (stat.is_empty() || stat.contains(") Z ")).then_some(())
    });
}

#[test]
fn the_sandbox_changes_nothing_of_a_live_profile() {
    let home = Home::new();
    let login = ["login", "--store-only", "--email-url", URL];
    assert_eq!(home.run_with_input(&login, "mk_live_stored").code, 0);

    let files = || {
        ["config", "credentials"].map(|name| {
            std::fs::read_to_string(home.path(&format!("config/svc/{name}.toml"))).expect("read")
        })
    };

    let before = files();
    for args in [
        &["logout"][..],
        &["logout", "--service", "email"],
        &["config", "set", "email_url", "http://127.0.0.1:9"],
        &["config", "set", "dialect", "key-scheme=token"],
        &["config", "unset", "email_url"],
    ] {
        let run = home.run_with_env(args, &[("SVC_SANDBOX", "1")]);
        assert_usage(&run, "SVC_SANDBOX");
        assert_eq!(files(), before, "{args:?}");
    }
}

#[test]
fn a_run_says_which_service_it_uses_beside_a_named_profile() {
    let home = Home::new();
    let prod = Service::always(200, "[]");
    let env = Service::always(200, "[]");
    let prod_url = prod.url();
    let login = [
        "login",
        "--store-only",
        "--profile",
        "prod",
        "--email-url",
        &prod_url,
    ];
    assert_eq!(home.run_with_input(&login, "mk_live_stored").code, 0);

    let url = env.url();
    let key = ("SVC_EMAIL_KEY", "mk_test_env");
    let list = ["--profile", "prod", "audiences", "list"];
    for (variables, said) in [
        (
            &[("SVC_EMAIL_URL", &*url), key][..],
            vec![url.as_str(), "environment SVC_EMAIL_URL", "SVC_EMAIL_KEY"],
        ),
        (&[key][..], vec![&*prod_url, "environment SVC_EMAIL_KEY"]),
    ] {
        let run = home.run_with_env(&list, variables);
        assert_eq!((run.code, run.stderr.lines().count()), (0, 1), "{run:?}");
        for part in said.into_iter().chain(["profile `prod`"]) {
            assert!(run.stderr.contains(part), "{part}: {run:?}");
        }
        assert!(!run.stderr.contains("mk_test_env"), "{run:?}");
    }

    // Nothing to say: no variable, or no named profile.
    assert_eq!(home.run(&list).stderr, "");

    let plain = home.run_with_env(&["audiences", "list"], &[("SVC_EMAIL_URL", &*url), key]);
    assert_eq!(plain.stderr, "");
}

#[cfg(unix)]
#[test]
fn a_send_beside_a_named_profile_asks_on_a_terminal() {
    use crate::pty::Terminal;

    let home = Home::new();
    let service = Service::always(202, r#"{"id":"eml_1","status":"queued"}"#);
    let login = [
        "login",
        "--store-only",
        "--profile",
        "prod",
        "--email-url",
        URL,
    ];
    assert_eq!(home.run_with_input(&login, "mk_live_stored").code, 0);

    let url = service.url();
    let env = [
        ("SVC_EMAIL_URL", &*url),
        ("SVC_EMAIL_KEY", "mk_test_env"),
        ("NO_COLOR", "1"),
    ];
    let send = "--profile prod emails send --from a@b.test --to c@d.test --subject s --text t";
    let send = send.split(' ').collect::<Vec<_>>();
    for (typed, requests) in [("n\n", 0), ("y\n", 1)] {
        let mut terminal = Terminal::start(&home, &send, &env, 200);
        terminal.until("not those of profile `prod`. Send? [y/N] ");
        terminal.write(typed);
        terminal.end();
        assert_eq!(service.requests().len(), requests, "{typed}");
    }
}

/// Names of files, of which most systems allow any bytes.
#[cfg(target_os = "linux")]
mod not_utf8 {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    fn name(bytes: &[u8]) -> &OsStr {
        OsStr::from_bytes(bytes)
    }

    #[test]
    fn a_bulk_job_reads_and_keeps_files_whose_paths_are_not_utf8() {
        let home = Home::new();
        std::fs::create_dir(home.path("state")).expect("created");
        let file = home.path("state").join(name(b"p\xff.csv"));
        std::fs::write(&file, "email\na@b.test\n").expect("written");
        let args = "--sandbox bulk send --from hello@sandbox.test --subject s --text t --yes";
        let mut command = home.command(&args.split(' ').collect::<Vec<_>>());
        command
            .arg(&file)
            .env("XDG_STATE_HOME", home.path("state").join(name(b"s\xff")));
        let sent = Run::complete(command);
        assert_eq!(sent.code, 0, "{sent:?}");

        let mut command = home.command(&["bulk", "list"]);
        command.env("XDG_STATE_HOME", home.path("state").join(name(b"s\xff")));
        let jobs = Run::complete(command).json();
        assert!(
            jobs[0]["file"].to_string().contains("p\u{fffd}.csv"),
            "{jobs}"
        );
    }

    #[test]
    fn a_key_file_and_a_data_directory_are_found() {
        let home = Home::new();
        let service = Service::always(200, "[]");
        let key = home.path(".").join(name(b"k\xff"));
        std::fs::write(&key, "mk_test_infile").expect("written");
        let mut command = home.command(&["audiences", "list", "--email-url", &service.url()]);
        command.env("SVC_EMAIL_KEY_FILE", &key);
        assert_eq!(Run::complete(command).code, 0);
        assert!(service.requests()[0].contains("mk_test_infile"));

        for args in [
            &["config", "path"][..],
            &["config", "show"],
            &["listen", "--print-secret"],
            &["--sandbox", "sandbox", "status"],
        ] {
            let mut command = home.command(args);
            command.env("XDG_DATA_HOME", home.path(".").join(name(b"d\xff")));
            let run = Run::complete(command);
            assert_ne!(run.stdout, "null\n", "{args:?}: {run:?}");
            assert!(!run.stderr.contains("UTF-8"), "{args:?}: {run:?}");
        }
    }

    #[test]
    fn a_delivery_is_recorded_with_its_secret_file() {
        let home = Home::new();
        let secret = home.path(".").join(name(b"secret\xff"));
        std::fs::write(&secret, "whsec_3f1c").expect("written");
        let app = Service::always(200, "{}");
        let record = json!({
            "id": "rec_1", "received_at": "2026-01-04T09:00:00.000Z", "service": "email",
            "event": "email.sent", "headers": [], "body": "e30=", "forwarded_to": app.url(),
            "secret_file": {"bytes": secret.as_os_str().as_bytes()},
        });
        home.file("data/svc/deliveries/rec_1.json", record.to_string());
        let replayed = home.run(&["replay", "rec_1"]);
        assert_eq!(replayed.code, 0, "{replayed:?}");
        assert!(
            app.requests()[0].contains("mail-signature"),
            "{:?}",
            app.requests()
        );

        let list: Value = home.run(&["replay", "--list"]).json();
        assert_eq!(list[0]["id"], "rec_1");
    }
}
