//! `svc webhooks rotate`.

use serde_json::json;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use crate::support::{self, Home, Run, accept, http_response};

#[test]
fn a_rotated_webhook_has_the_same_url_and_events_and_another_secret() {
    let home = Home::new();
    let create = ["webhooks", "create", "http://127.0.0.1:9/hooks", "--event", "email.sent"];
    let old = home.sandbox_json(&create);
    let id = old["id"].as_str().expect("an id");
    home.sandbox_json(&["webhooks", "update", id, "--active", "no"]);
    let secret = home.path("secret").display().to_string();
    let keep = ["webhooks", "rotate", id, "--keep-old", "--secret-file", &secret];
    let new = home.sandbox_json(&keep);
    assert_eq!((&new["url"], &new["events"]), (&old["url"], &old["events"]));
    assert_eq!((&new["replaces"], &new["active"]), (&old["id"], &json!(false)));
    let stored = std::fs::read_to_string(&secret).expect("a secret");
    assert!(!new.to_string().contains(&stored) && old["signingSecret"] != stored.as_str());
    assert_eq!(home.sandbox_json(&["webhooks", "list"]).as_array().map(Vec::len), Some(2));

    let run = home.run(&["--sandbox", "webhooks", "rotate", id, "--yes"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.json()["signingSecret"].is_string(), "{run:?}");
    let list = home.sandbox_json(&["webhooks", "list"]);
    assert!(list.as_array().is_some_and(|all| all.len() == 2), "{list}");
    assert!(!list.to_string().contains(id), "{list}");

    // Without a place for the secret, nothing changes.
    let new = new["id"].as_str().expect("an id");
    let long = home.path(&"x".repeat(300)).display().to_string();
    let run = home.run(&["--sandbox", "webhooks", "rotate", new, "--yes", "--secret-file", &long]);
    assert!(run.code == 2 && run.stderr.contains("nothing was changed"), "{run:?}");
    assert_eq!(home.sandbox_json(&["webhooks", "list"]), list);
}

/// The file exists before the service creates a secret, and only as long as there may be one.
#[test]
fn a_rotation_creates_its_file_first_and_removes_it_without_a_secret() {
    let home = Home::new();
    let (listener, url) = support::listen();
    let file = home.path("new-secret");
    let path = file.display().to_string();
    let mut command =
        home.command(&["webhooks", "rotate", "whk_1", "--yes", "--secret-file", &path]);
    command.envs([("SVC_EMAIL_URL", url.as_str()), ("SVC_EMAIL_KEY", "mk_test_x")]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("svc starts");
    let webhook = r#"{"id":"whk_1","url":"https://a.test","events":["email.sent"]}"#;
    let refused = http_response(422, "", r#"{"error":{"code":"no","message":"no"}}"#);
    let mut created = 0;
    while created == 0 {
        let mut stream = accept(&listener);
        let mut head = BufReader::new(stream.try_clone().expect("a stream"));
        let mut first = String::new();
        head.read_line(&mut first).expect("a request");
        let is_list = first.starts_with("GET ");
        created += usize::from(!is_list);
        assert_eq!(std::fs::read(&file).expect("the file exists"), b"");
        let list = http_response(200, "", &format!("[{webhook}]"));
        let response = if is_list { &list } else { &refused };
        stream.write_all(response.as_bytes()).expect("sent");
    }
    let run = Run::wait(child);
    assert_eq!(run.code, 6, "{run:?}");
    assert!(!file.exists());
}

#[test]
fn a_rotation_never_overwrites_a_file_or_creates_a_directory() {
    let home = Home::new();
    let file = home.file("precious.txt", "precious");
    let missing = home.path("missing/secret").display().to_string();
    for (service, url) in [
        (&["webhooks"][..], "http://127.0.0.1:9/hooks"),
        (&["extraction", "webhooks"], "http://127.0.0.1:9/hooks"),
    ] {
        let event = if service.len() == 1 { "email.sent" } else { "extraction.completed" };
        let run = |words: &[&str]| home.sandbox_json(&[service, words].concat());
        let id = run(&["create", url, "--event", event])["id"].as_str().expect("an id").to_owned();
        let list = run(&["list"]);
        for (path, why) in [(&file, "already exists"), (&missing, "is not an existing directory")] {
            let rotate = ["rotate", &id, "--yes", "--secret-file", path];
            let run = home.run(&[&["--sandbox"], service, &rotate].concat());
            assert!(run.code == 2 && run.stderr.contains(why), "{run:?}");
        }
        assert_eq!(run(&["list"]), list);
    }
    assert_eq!(std::fs::read_to_string(&file).expect("the file"), "precious");
    assert!(!home.path("missing").exists());
}

/// A service on this machine or in the local network reaches plain http there.
#[test]
fn a_local_service_takes_webhooks_without_tls() {
    let home = Home::new();
    let create = |base_url: &str| {
        let env = [("SVC_EMAIL_URL", base_url), ("SVC_EMAIL_KEY", "mk_test_x")];
        let hooks = "http://127.0.0.1:3000/hooks";
        let args = ["--dry-run", "webhooks", "create", hooks, "--event", "email.sent"];
        home.run_with_env(&args, &env).code
    };
    for local in ["https://localhost:8443", "https://192.168.1.9", "http://127.0.0.1:4080"] {
        assert_eq!(create(local), 0, "{local}");
    }
    assert_eq!(create("https://mail.example.com"), 2);
}
