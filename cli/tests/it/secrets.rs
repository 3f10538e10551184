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
