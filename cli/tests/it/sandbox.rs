//! The sandbox: the sandbox, and commands that share its data directory. One file, because all
//! tests use the same fixtures.

mod attachments;
#[cfg(unix)]
mod exec;
mod keys;
#[cfg(unix)]
mod open;
mod public;
#[cfg(unix)]
mod serve;
#[cfg(unix)]
mod watch;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::support::{Home, Run, Service, Watchdog, with_longer_timeouts};

fn send<'a>(from: &'a str, to: &'a str) -> Vec<&'a str> {
    vec![
        "emails",
        "send",
        "--from",
        from,
        "--to",
        to,
        "--subject",
        "Hi",
        "--text",
        "Hello",
    ]
}

/// A running `svc sandbox serve`, which is killed at the end of the test.
struct RunningServer {
    child: Child,
    _watchdog: Watchdog,
    http: String,
}

impl RunningServer {
    fn start(home: &Home, args: &[&str]) -> Self {
        Self::start_at(home, "127.0.0.1:0", args)
    }

    fn start_at(home: &Home, address: &str, args: &[&str]) -> Self {
        Self::of(home.command(&[&["sandbox", "serve", "--addr", address], args].concat()))
    }

    fn of(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("svc starts");
        let watchdog = Watchdog::start(&child);
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped"))
            .read_line(&mut line)
            .expect("a line");
        let ready: Value = serde_json::from_str(&line).expect("JSON");
        Self {
            child,
            _watchdog: watchdog,
            http: ready["http"].as_str().expect("an address").to_owned(),
        }
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn state_persists_between_commands() {
    let home = Home::new();
    let sent = home.sandbox_json(&send("hello@sandbox.test", "ada@example.test"));
    let id = sent["id"].as_str().expect("an id");
    let found = home.sandbox_json(&["emails", "get", id]);
    assert_eq!(found["status"], "delivered");
    assert_eq!(found["subject"], "Hi");
}

#[test]
fn an_unverified_sender_is_refused_with_a_hint() {
    let home = Home::new();
    let args = [
        vec!["--sandbox"],
        send("hello@unverified.test", "ada@example.test"),
    ]
    .concat();
    let run = home.run(&args);
    assert_eq!((run.code, run.stdout.as_str()), (6, ""), "{run:?}");

    let error = run.error();
    assert_eq!(error["code"], "domain_not_verified");

    let hint = error["hint"].as_str().expect("a hint");
    assert!(hint.contains("svc --sandbox domains create"), "{hint}");
    assert!(hint.contains("svc --sandbox domains verify"), "{hint}");
}

#[test]
fn a_verified_domain_can_send() {
    let home = Home::new();
    let domain = home.sandbox_json(&["domains", "create", "shop.test"]);
    let id = domain["id"].as_str().expect("an id");
    assert_eq!(
        domain["records"].as_array().map(Vec::len),
        Some(4),
        "{domain}"
    );

    let no = home.run(&["--sandbox", "domains", "verify", id]);
    assert_eq!(
        (no.code, no.json()["verified"].clone()),
        (10, json!(false)),
        "{no:?}"
    );
    assert_eq!(no.error()["code"], "domain_not_verified");

    let publish = home.run(&["sandbox", "dns", "publish", "shop.test"]);
    assert_eq!(publish.code, 0, "{publish:?}");
    assert_eq!(
        home.sandbox_json(&["domains", "verify", id])["verified"],
        true
    );

    home.sandbox_json(&send("hello@shop.test", "ada@example.test"));

    assert_eq!(
        home.sandbox_json(&["domains", "delete", id, "--yes"])["deleted"],
        true
    );
    assert_eq!(home.run(&["--sandbox", "domains", "verify", id]).code, 5);
}

#[test]
fn wait_follows_an_email_to_its_final_status() {
    let home = Home::new();
    let good = [
        send("hello@sandbox.test", "ada@example.test"),
        vec!["--wait"],
    ]
    .concat();
    assert_eq!(home.sandbox_json(&good)["status"], "delivered");

    let bad = [
        send("hello@sandbox.test", "bounced@example.test"),
        vec!["--wait"],
    ]
    .concat();
    let run = home.run(&[&["--sandbox"], &bad[..]].concat());
    assert_eq!(
        (run.code, run.json()["status"].clone()),
        (10, json!("bounced")),
        "{run:?}"
    );
    assert_eq!(run.error()["code"], "email_bounced");
}

#[test]
fn a_scheduled_email_can_be_cancelled() {
    let home = Home::new();
    let args = [
        send("hello@sandbox.test", "ada@example.test"),
        vec!["--at", "+2h"],
    ]
    .concat();
    let email = home.sandbox_json(&args);
    let id = email["id"].as_str().expect("an id");
    assert_eq!(
        home.sandbox_json(&["emails", "get", id])["status"],
        "queued"
    );

    let late = with_longer_timeouts(|timeout| {
        let run = home.run(&[
            "--sandbox",
            "emails",
            "get",
            id,
            "--wait",
            "--timeout",
            timeout,
        ]);
        // Under load, the timeout can expire before the first response.
        (run.code != 8).then_some(run)
    });
    assert_eq!(
        (late.code, &late.json()["status"]),
        (9, &json!("queued")),
        "{late:?}"
    );
    assert_eq!(
        home.sandbox_json(&["emails", "cancel", id])["status"],
        "cancelled"
    );

    let again = home.run(&["--sandbox", "emails", "cancel", id]);
    assert_eq!(
        (again.code, again.error()["code"].clone()),
        (6, json!("not_cancellable"))
    );
}

#[test]
fn audiences_contacts_and_webhooks() {
    let home = Home::new();
    let audience = home.sandbox_json(&["audiences", "create", "News"]);
    let audience = audience["id"].as_str().expect("an id");
    let contact = home.sandbox_json(&[
        "contacts",
        "create",
        audience,
        "ada@example.test",
        "--name",
        "Ada",
        "--meta",
        "seats:=5",
        "--topic",
        "a,b",
    ]);
    assert_eq!(
        (&contact["metadata"], &contact["topics"]),
        (&json!({"seats": 5}), &json!(["a", "b"]))
    );

    let id = contact["id"].as_str().expect("an id");
    let updated = home.sandbox_json(&[
        "contacts",
        "update",
        id,
        "--meta",
        "seats:=null",
        "--meta",
        "plan=pro",
        "--no-topics",
        "--subscribed",
        "false",
    ]);
    assert_eq!(updated["metadata"], json!({"plan": "pro"}));
    assert_eq!(
        (&updated["topics"], &updated["subscribed"]),
        (&json!([]), &json!(false))
    );
    assert_eq!(
        home.sandbox_json(&["contacts", "list", audience])
            .as_array()
            .map(Vec::len),
        Some(1)
    );
    assert_eq!(
        home.sandbox_json(&["audiences", "get", audience])["name"],
        "News"
    );

    home.sandbox_json(&["contacts", "delete", id, "--yes"]);
    assert_eq!(
        home.sandbox_json(&["contacts", "list", audience, "--all"]),
        json!([])
    );

    home.sandbox_json(&["audiences", "delete", audience, "--yes"]);
    assert_eq!(
        home.run(&["--sandbox", "audiences", "get", audience]).code,
        5
    );

    let url = "http://127.0.0.1:9/hooks";
    let webhook = home.sandbox_json(&["webhooks", "create", url, "--event", "email.sent"]);
    assert!(
        webhook["signingSecret"]
            .as_str()
            .is_some_and(|secret| !secret.is_empty())
    );

    let id = webhook["id"].as_str().expect("an id");
    assert_eq!(
        home.sandbox_json(&["webhooks", "update", id, "--active", "false"])["active"],
        false
    );
    assert_eq!(
        home.run(&["--sandbox", "webhooks", "test", id]).code,
        10,
        "no listener at that port"
    );

    home.sandbox_json(&["webhooks", "delete", id, "--yes"]);
    assert_eq!(home.sandbox_json(&["webhooks", "list"]), json!([]));
}

#[test]
fn extraction_service() {
    let home = Home::new();
    let me = home.sandbox_json(&["api", "GET", "/v1/me", "--service", "extraction"]);
    assert_eq!(
        (&me["organization"]["name"], &me["auth"]["scope"]),
        (&json!("Sandbox"), &json!("full"))
    );

    let url = "http://127.0.0.1:9/hooks";
    let args = [
        "extraction",
        "webhooks",
        "create",
        url,
        "--event",
        "extraction.completed",
    ];
    let webhook = home.sandbox_json(&args);
    let id = webhook["id"].as_str().expect("an id");
    assert_eq!(
        home.sandbox_json(&["extraction", "webhooks", "list"])[0]["url"],
        url
    );

    home.sandbox_json(&["extraction", "webhooks", "delete", id, "--yes"]);
    assert_eq!(
        home.sandbox_json(&["extraction", "webhooks", "list"]),
        json!([])
    );
}

#[test]
fn emails_of_a_batch_fail_individually() {
    let home = Home::new();
    let good = r#"{"from":"hello@sandbox.test","to":"ada@example.test","subject":"s","text":"t"}"#;
    let bad =
        r#"{"from":"hello@unverified.test","to":"ada@example.test","subject":"s","text":"t"}"#;
    let file = home.file("emails.ndjson", format!("{good}\n{bad}\n"));
    let run = home.run(&["--sandbox", "emails", "batch", &file]);
    assert_eq!(run.code, 11, "{run:?}");
    assert_eq!(run.json()[0]["result"], "accepted");
    assert_eq!(run.json()[1]["error"]["code"], "domain_not_verified");

    let file = home.file("good.json", format!("[{good}]"));
    assert_eq!(
        home.sandbox_json(&["emails", "batch", &file])[0]["status"],
        "queued"
    );
}

#[test]
fn a_running_server_is_found_and_used() {
    let home = Home::new();
    let serving = RunningServer::start(&home, &[]);
    let status = home.run(&["sandbox", "status"]);
    assert_eq!(status.json()["status"], "ok", "{status:?}");

    let sent = home.sandbox_json(&send("hello@sandbox.test", "ada@example.test"));
    // The same server, without `--sandbox` and with the sandbox's default key.
    let key = home.file("key", "mk_test_sandbox");
    let id = sent["id"].as_str().expect("an id");
    let args = [
        "--email-url",
        &serving.http,
        "--key-file",
        &key,
        "emails",
        "get",
        id,
    ];
    assert_eq!(home.run(&args).json()["id"], id);

    let second = home.run(&["sandbox", "serve", "--addr", "127.0.0.1:0"]);
    assert_eq!((second.code, second.stdout.as_str()), (1, ""), "{second:?}");
    assert_eq!(second.error()["code"], "data_directory_in_use");

    assert_eq!(home.run(&["sandbox", "stop"]).json()["stopped"], true);

    let status = home.run_with_env(
        &["sandbox", "status"],
        &[("SVC_SANDBOX_ADDR", "127.0.0.1:1")],
    );
    assert_eq!(
        (status.code, &status.json()["status"]),
        (1, &json!("not running")),
        "{status:?}"
    );
    assert_eq!(home.run(&["sandbox", "stop"]).json()["stopped"], false);
}

/// An empty list may be that of another server than the one that is meant.
#[test]
fn an_empty_list_of_a_server_of_its_own_says_so() {
    let home = Home::new();
    let list = home.run(&["sandbox", "emails", "list"]);
    assert_eq!((list.code, list.json()), (0, json!([])), "{list:?}");
    assert!(
        list.stderr.contains("this command started its own"),
        "{list:?}"
    );

    let deliveries = ["sandbox", "deliveries", "list"];
    let wrong = home.run(&[&deliveries[..], &["--event", "email.delivery"]].concat());
    assert!(
        wrong.code == 2 && wrong.stderr.contains("email.delivered"),
        "{wrong:?}"
    );

    let sent = [
        ("webhooks create", "https://shop.test/hooks"),
        ("webhooks create", "https://b.test"),
    ];
    for (command, url) in sent {
        let words = command
            .split(' ')
            .chain([url, "--event", "email.delivered"]);
        home.sandbox_json(&words.collect::<Vec<_>>());
    }

    home.sandbox_json(&send("hello@sandbox.test", "ada@example.test"));
    let of_url = home.run(&[&deliveries[..], &["--webhook", "https://shop.test/hooks"]].concat());
    assert_eq!(
        of_url.json().as_array().map(Vec::len),
        Some(1),
        "{of_url:?}"
    );
    assert!(!of_url.stderr.contains("started its own"), "{of_url:?}");
}

#[test]
fn a_server_elsewhere_is_used() {
    let home = Home::new();
    let other = Home::new();
    let args = ["--in-memory", "--network", "public"];
    let mut command = other.command(&["sandbox", "serve", "--addr", "127.0.0.1:0"]);
    command
        .args(["--in-memory"])
        .env("SVC_SANDBOX_EMAIL_KEY", "mk_of_the_team");
    command.env("SVC_SANDBOX_EXTRACTION_KEY", "sk_of_the_team");
    let serving = RunningServer::of(command);
    let url = format!("{}/", serving.http);
    let named = [("SVC_SANDBOX_URL", url.as_str())];
    let with_key = [named[0], ("SVC_SANDBOX_EMAIL_KEY", "mk_of_the_team")];
    let send = send("hello@sandbox.test", "ada@example.test");
    let send = [&["--sandbox"], send.as_slice()].concat();
    assert_eq!(
        home.run_with_env(&send, &named).code,
        3,
        "the key of another sandbox"
    );

    let sent = home.run_with_env(&send, &with_key);
    let id = sent.json()["id"].clone();
    let list = home
        .run_with_env(&["sandbox", "emails", "list"], &named)
        .json();
    assert_eq!(list[0]["id"], id, "{list}");

    let status = home.run_with_env(&["sandbox", "status"], &named).json();
    assert_eq!(
        (&status["status"], &status["data"]),
        (&json!("ok"), &Value::Null),
        "{status}"
    );

    let page = home.run_with_env(&["sandbox", "open", "--print"], &named);
    assert_eq!(page.stdout.trim(), url, "{page:?}");

    let shown = home.run_with_env(&[&["--dry-run"], send.as_slice()].concat(), &named);
    assert!(shown.stdout.contains(&serving.http), "{shown:?}");

    // Public: the control interface needs its token.
    let public = RunningServer::start(&other, &args);
    let named = [("SVC_SANDBOX_URL", public.http.as_str())];
    assert_eq!(
        home.run_with_env(&["sandbox", "emails", "list"], &named)
            .code,
        3
    );

    // What is not a sandbox gets nothing of this run, not even an address.
    let service = Service::always(404, "no such path");
    let url = service.url();
    let named = [("SVC_SANDBOX_URL", url.as_str())];
    let refused = home.run_with_env(&send, &named);
    assert_eq!(
        (refused.code, refused.error()["code"].as_str()),
        (1, Some("not_running"))
    );
    assert!(
        refused
            .stderr
            .contains("SVC_SANDBOX_URL: no sandbox responds at"),
        "{refused:?}"
    );
    assert_eq!(service.requests().len(), 1);
}

#[test]
fn a_missing_scope_is_named() {
    let home = Home::new();
    let serving = RunningServer::start(&home, &["--in-memory"]);
    let keys = format!("{}/_sandbox/keys", serving.http);
    let created = home.run_with_env(
        &[
            "api",
            "POST",
            "/_sandbox/keys",
            "--data",
            r#"{"service":"email","scopes":["emails:read"]}"#,
        ],
        &[
            ("SVC_EMAIL_URL", &serving.http),
            ("SVC_EMAIL_KEY", "mk_test_sandbox"),
        ],
    );
    let created = created.json();
    let key = created["key"]
        .as_str()
        .unwrap_or_else(|| panic!("no key from {keys}: {created}"));
    let args = send("hello@sandbox.test", "ada@example.test");
    let run = home.run_with_env(
        &args,
        &[("SVC_EMAIL_URL", &serving.http), ("SVC_EMAIL_KEY", key)],
    );
    assert_eq!((run.code, run.stdout.as_str()), (4, ""), "{run:?}");

    let error = run.error();
    assert_eq!(error["required_scope"], "emails:send");
    assert!(
        error["message"]
            .as_str()
            .is_some_and(|text| text.contains("emails:send")),
        "{error}"
    );
}

#[test]
fn concurrent_commands_share_one_server() {
    let home = Home::new();
    let args = [
        vec!["--sandbox"],
        send("hello@sandbox.test", "ada@example.test"),
    ]
    .concat();
    let children = (0..6).map(|_| home.spawn(&args)).collect::<Vec<_>>();
    for child in children {
        let run = Run::wait(child);
        assert_eq!(run.code, 0, "{run:?}");
        let id = run.json()["id"].as_str().expect("an id").to_owned();
        assert_eq!(
            home.sandbox_json(&["emails", "get", &id])["status"],
            "delivered"
        );
    }
}

#[test]
fn a_sandbox_run_ignores_live_urls_keys_and_proxies() {
    let home = Home::new();
    let live = Service::always(500, "");
    home.file(
        "config/svc/config.toml",
        format!(
            "[profiles.default]\nemail_url = \"{}\"\norganization = \"org_live\"\n\
             dialect.key-header = \"X-Live\"\ndialect.limits = \"other\"\n",
            live.url()
        ),
    );
    let env = [
        ("SVC_EMAIL_URL", &*live.url()),
        ("SVC_EMAIL_KEY", "mk_live_real"),
        ("HTTP_PROXY", "http://127.0.0.1:9"),
        ("SVC_SANDBOX", "1"),
    ];
    let run = home.run_with_env(&["audiences", "list"], &env);
    assert_eq!((run.code, run.stdout.as_str()), (0, "[]\n"), "{run:?}");

    let asked = home
        .run_with_env(&["--dry-run", "audiences", "list"], &env)
        .json();
    assert_eq!(asked["headers"]["authorization"], "Bearer ***", "{asked}");

    let who = home.run_with_env(&["whoami"], &env);
    assert_eq!(
        (who.code, who.json()["email"]["key"].as_str()),
        (0, Some("mk_test_…")),
        "{who:?}"
    );
    assert!(live.requests().is_empty());
}

#[test]
fn attachments_and_bodies_come_from_files_and_standard_input() {
    let home = Home::new();
    let html = home.file("body.html", "<h1>Hi</h1><p>there</p>");
    let file = home.file("notes.txt", "attached");
    let mut args = send("hello@sandbox.test", "ada@example.test");
    args.truncate(args.len() - 2);
    let html = format!("@{html}");
    let named = format!("{file};name=renamed.txt;type=text/plain");
    args.extend([
        "--html",
        &html,
        "--attach",
        &named,
        "--attach",
        "-;name=stdin.bin",
    ]);
    let run = home.run_with_input(&[&["--sandbox"], &args[..]].concat(), [0, 159, 146, 150]);
    assert_eq!(run.code, 0, "{run:?}");

    let email = home.sandbox_json(&["emails", "get", run.json()["id"].as_str().expect("an id")]);
    let names = email["attachments"].as_array().expect("a list");
    assert_eq!(names.len(), 2, "{email}");
    assert_eq!(names[0]["filename"], "renamed.txt");
    assert!(
        email["text"]
            .as_str()
            .is_some_and(|text| text.contains("Hi")),
        "{email}"
    );
}

#[cfg(unix)]
#[test]
fn sigterm_stops_the_server_with_success() {
    let home = Home::new();
    let mut serving = RunningServer::start(&home, &[]);
    let pid = serving.child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-TERM", &pid])
            .status()
            .expect("runs")
            .success()
    );
    assert_eq!(serving.child.wait().expect("ends").code(), Some(0));
}

#[test]
fn control_commands_work_against_a_server() {
    let home = Home::new();
    let _serving = RunningServer::start(&home, &[]);
    let endpoint = Service::always(200, "");
    let sandbox = |args: &[&str]| {
        let run = home.run(&[&["sandbox"], args].concat());
        assert_eq!(
            (run.code, run.stderr.as_str()),
            (0, ""),
            "{args:?}: {run:?}"
        );
        run
    };

    let text = |value: &Value| value.as_str().expect("a text").to_owned();

    let organization = sandbox(&["organizations", "create", "--name", "Other"]).json();
    assert!(
        text(&organization["email_key"]).starts_with("mk_test_"),
        "{organization}"
    );

    let listed = sandbox(&["organizations", "list"]).json();
    assert_eq!(
        (&listed[0]["name"], &listed[1]["id"]),
        (&json!("Sandbox"), &organization["id"])
    );

    let key = sandbox(&[
        "keys",
        "create",
        "--service",
        "email",
        "--scope",
        "emails:read",
    ])
    .json();
    let listed = sandbox(&["keys", "list"]).json();
    assert!(
        listed
            .as_array()
            .is_some_and(|keys| keys.iter().any(|k| k["id"] == key["id"]))
    );

    sandbox(&["keys", "delete", &text(&key["id"]), "--yes"]);

    sandbox(&[
        "templates",
        "put",
        "hi",
        "--subject",
        "s",
        "--text",
        "Hello {{ name }}",
    ]);
    assert_eq!(
        sandbox(&["templates", "get", "hi"]).json()["text"],
        "Hello {{ name }}"
    );

    let mut args = send("hello@sandbox.test", "ada@example.test");
    args.truncate(args.len() - 2);
    args.extend(["--template", "hi", "--var", "name=Ada", "--wait"]);
    let email = text(&home.sandbox_json(&args)["id"]);
    let message = sandbox(&["messages", "wait", "--to", "ada@example.test"]).json();
    let id = text(&message["id"]);
    assert_eq!(
        sandbox(&["messages", "list", "--all"]).json()[0]["id"],
        message["id"]
    );
    assert!(
        sandbox(&["messages", "get", &id, "--raw"])
            .stdout
            .contains("Hello Ada")
    );

    sandbox(&["messages", "get", &id, "--links"]);
    sandbox(&["templates", "delete", "hi", "--yes"]);

    let hook = home.sandbox_json(&[
        "webhooks",
        "create",
        &endpoint.url(),
        "--event",
        "email.opened",
    ]);
    sandbox(&["event", &email, "opened"]);
    // Responds after all pending work is done.
    sandbox(&["clock", "advance", "1ms"]);
    let deliveries = sandbox(&["deliveries", "list", "--event", "email.opened"]).json();
    let delivery = text(&deliveries[0]["id"]);
    assert_eq!(
        sandbox(&["deliveries", "get", &delivery]).json()["webhook"],
        hook["id"]
    );

    sandbox(&["deliveries", "replay", &delivery]);

    sandbox(&[
        "inbound",
        "--from",
        "ada@example.test",
        "--to",
        "hello@sandbox.test",
        "--subject",
        "s",
        "--text",
        "t",
    ]);
    assert!(text(&sandbox(&["extraction", "completed", "--data", "{}"]).json()["id"]).len() > 8);

    assert_eq!(sandbox(&["clock", "freeze"]).json()["frozen"], true);

    let before = text(&sandbox(&["clock", "show"]).json()["now"]);
    let after = text(&sandbox(&["clock", "advance", "1d"]).json()["now"]);
    assert!(after > before, "{before} {after}");
    assert_eq!(sandbox(&["clock", "resume"]).json()["frozen"], false);

    let fault = sandbox(&[
        "faults",
        "add",
        "--operation",
        "audiences.list",
        "--status",
        "503",
    ])
    .json();
    let failed = home.run(&["--sandbox", "audiences", "list", "--retries", "0"]);
    assert_eq!(failed.code, 8, "{failed:?}");
    assert_eq!(sandbox(&["faults", "list"]).json()[0]["id"], fault["id"]);

    let shown = sandbox(&["faults", "get", &text(&fault["id"])]).json();
    assert_eq!(
        shown["hits"][0]["operation"], "email audiences.list",
        "{shown}"
    );

    sandbox(&["faults", "remove", &text(&fault["id"])]);

    sandbox(&["dns", "withdraw", "sandbox.test", "spf"]);
    sandbox(&["reset", "--yes"]);
    assert_eq!(home.sandbox_json(&["webhooks", "list"]), json!([]));
}

/// Each command starts its own server, and the fault is in the data directory.
#[test]
fn a_fault_persists_until_the_next_command() {
    let home = Home::new();
    let added = home.run(&[
        "sandbox",
        "faults",
        "add",
        "--operation",
        "audiences.list",
        "--status",
        "503",
    ]);
    assert_eq!(added.code, 0, "{added:?}");

    let list = ["--sandbox", "audiences", "list", "--retries", "0"];
    assert_eq!(home.run(&list).code, 8);
    assert_eq!(home.run(&list).code, 0);
}

#[test]
fn an_invalid_smtp_certificate_fails_at_startup() {
    let home = Home::new();
    let file = home.file("no.pem", "nothing");
    let args = ["sandbox", "serve", "--in-memory", "--addr", "127.0.0.1:0"];
    let run = home.run(
        &[
            &args[..],
            &[
                "--smtp",
                "127.0.0.1:0",
                "--smtp-cert-file",
                &file,
                "--smtp-key-file",
                &file,
            ],
        ]
        .concat(),
    );
    assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{run:?}");

    let message = run.error()["message"].as_str().map(str::to_owned);
    assert_eq!(
        message.as_deref(),
        Some("--smtp-cert-file: no certificate in PEM form")
    );

    let alone = home.run(&[&args[..], &["--smtp-cert-file", &file]].concat());
    assert_eq!(alone.code, 2, "{alone:?}");
}

/// A command line for each operation of the control interface.
const ROWS: [(&str, &str); 45] = [
    ("GET /_sandbox/health", "status"),
    (
        "POST /_sandbox/organizations",
        "organizations create --name x",
    ),
    ("GET /_sandbox/organizations", "organizations list"),
    (
        "POST /_sandbox/keys",
        "keys create --service email --scope emails:read",
    ),
    ("GET /_sandbox/keys", "keys list"),
    ("DELETE /_sandbox/keys/{id}", "keys delete x --yes"),
    ("PUT /_sandbox/templates/{id}", "templates put x --text t"),
    ("GET /_sandbox/templates", "templates list"),
    ("GET /_sandbox/templates/{id}", "templates get x"),
    (
        "POST /_sandbox/templates/{id}/render",
        "templates render x --var name=Ada",
    ),
    (
        "DELETE /_sandbox/templates/{id}",
        "templates delete x --yes",
    ),
    ("POST /_sandbox/dns/{domain}/publish", "dns publish x.test"),
    ("DELETE /_sandbox/dns/{domain}", "dns withdraw x.test"),
    (
        "DELETE /_sandbox/dns/{domain}/{record}",
        "dns withdraw x.test spf",
    ),
    ("GET /_sandbox/messages", "messages list"),
    ("GET /_sandbox/messages/wait", "messages wait"),
    ("GET /_sandbox/messages/{id}", "messages get x"),
    (
        "DELETE /_sandbox/messages",
        "messages delete --to a@b.test --yes",
    ),
    ("DELETE /_sandbox/messages/{id}", "messages delete x --yes"),
    ("GET /_sandbox/messages/{id}/raw", "messages get x --raw"),
    ("GET /_sandbox/messages/{id}/html", "messages get x --html"),
    ("GET /_sandbox/messages/{id}/html-check", "messages check x"),
    (
        "GET /_sandbox/messages/{id}/links",
        "messages get x --links",
    ),
    ("GET /_sandbox/requests", "requests list"),
    ("GET /_sandbox/requests/{id}", "requests get x"),
    ("GET /_sandbox/emails", "emails list"),
    ("GET /_sandbox/emails/{id}/story", "emails story x"),
    ("POST /_sandbox/emails/{id}/events", "event x opened"),
    (
        "POST /_sandbox/inbound",
        "inbound --from a@b.test --to c@d.test --subject s",
    ),
    ("POST /_sandbox/extractions", "extraction completed"),
    ("GET /_sandbox/deliveries", "deliveries list"),
    ("GET /_sandbox/deliveries/{id}", "deliveries get x"),
    (
        "POST /_sandbox/deliveries/{id}/replay",
        "deliveries replay x",
    ),
    ("GET /_sandbox/clock", "clock show"),
    ("POST /_sandbox/clock", "clock freeze"),
    ("POST /_sandbox/clock", "clock resume"),
    ("POST /_sandbox/clock", "clock real"),
    ("GET /_sandbox/due", "due"),
    ("POST /_sandbox/settle", "settle"),
    ("GET /_sandbox/faults", "faults list"),
    ("POST /_sandbox/faults", "faults add --status 500"),
    (
        "POST /_sandbox/messages/{id}/release",
        "messages release x --to a@b.test",
    ),
    ("GET /_sandbox/faults/{id}", "faults get x"),
    ("DELETE /_sandbox/faults/{id}", "faults remove x"),
    ("DELETE /_sandbox/faults", "faults remove"),
];

const OTHERS: [&str; 13] = [
    "/lease",
    "/readyz",
    "/attachments/{n}",
    "GET /_sandbox/events",
    "/events/wait",
    "/_sandbox/emails/{id}/send",
    "/_sandbox/due/{id}/run",
    "/_sandbox/messages/count",
    "/_sandbox/templates/{id}/html-check",
    "/_sandbox/domains",
    "/_sandbox/webhooks",
    "/_sandbox/audiences",
    "/_sandbox/audiences/{id}/contacts",
];

#[test]
fn a_check_of_html_fails_if_a_mail_program_that_counts_lacks_a_feature() {
    let home = Home::new();
    let html = "<p style=\"border-radius: 4px\">Hello</p>";
    for (to, option, body) in [
        ("ada@example.test", "--html", html),
        ("bob@example.test", "--text", "Hello"),
    ] {
        let from = "hello@sandbox.test";
        let to = ["emails", "send", "--from", from, "--to", to];
        home.sandbox_json(&[&to[..], &["--subject", "S", option, body]].concat());
    }

    let check = |to: &str, options: &[&str]| {
        let id = home.sandbox_json(&["sandbox", "messages", "wait", "--to", to]);
        let id = id["id"].as_str().expect("an id").to_owned();
        home.run(&[&["--sandbox", "sandbox", "messages", "check", &id], options].concat())
    };

    let radius = check("ada@example.test", &["--json"]);
    assert_eq!(radius.code, 10, "{radius:?}");

    let feature = &radius.json()["features"][0];
    assert_eq!(feature["name"], "css-border-radius");
    assert_eq!(
        feature["none"],
        serde_json::json!(["Outlook (Windows, Windows Mail)"])
    );
    assert!(radius.stderr.contains("html_not_supported"), "{radius:?}");

    let table = check("ada@example.test", &["-o", "table"]);
    assert!(table.stdout.contains("border-radius"), "{table:?}");

    for (to, options, code) in [
        ("ada@example.test", &["--program", "Apple Mail"][..], 0),
        (
            "ada@example.test",
            &["--program", "Apple Mail", "--program", "GMX"],
            10,
        ),
        ("bob@example.test", &[], 0),
        ("ada@example.test", &["--program", "Elm"], 6),
    ] {
        let found = check(to, options);
        assert_eq!(found.code, code, "{options:?}: {found:?}");
    }
}

#[test]
fn every_control_operation_has_a_command() {
    let home = Home::new();
    let described = home.sandbox_json(&["api", "GET", "/openapi/control.json"]);
    let paths = described["paths"].as_object().expect("paths");
    let mut missing: Vec<String> = paths
        .iter()
        .flat_map(|(path, methods)| {
            let methods = methods.as_object().expect("methods").keys();
            methods.map(move |method| format!("{} {path}", method.to_uppercase()))
        })
        // For programs and the page only: leases, readiness, counts, and running what is scheduled. `messages get --attachments` and
        // `watch` send some of the others, which no dry run can show, and the commands for the
        // documented resources list what the last four do.
        .filter(|row| !OTHERS.iter().any(|end| row.ends_with(end)))
        .collect();
    let reset = ("POST /_sandbox/reset", "reset --yes");
    let seed = ("GET /_sandbox/seed", "export");
    for (row, line) in ROWS.into_iter().chain([reset, seed]) {
        let words = line.split(' ').collect::<Vec<_>>();
        let shown = home.run(&[&["sandbox"], &words[..], &["--dry-run", "--json"]].concat());
        assert_eq!(shown.code, 0, "{line}: {shown:?}");
        let request = shown.json();
        let url = request["url"]
            .as_str()
            .expect("a URL")
            .split('?')
            .next()
            .expect("a path");
        let path = &url[url
            .find("/_sandbox")
            .unwrap_or_else(|| panic!("{line}: {url}"))..];
        let asked = format!("{} {path}", request["method"].as_str().expect("a method"));
        let same = asked.split(['/', ' ']).zip(row.split(['/', ' ']));
        let matches = same
            .clone()
            .all(|(asked, row)| asked == row || row.starts_with('{'));
        assert!(
            matches && same.count() == row.split(['/', ' ']).count(),
            "{line}: {asked}"
        );
        missing.retain(|known| known != row);
    }

    assert!(missing.is_empty(), "without a command: {missing:#?}");
}

#[test]
fn api_sends_any_request_and_follows_pages() {
    let home = Home::new();
    let created = home.sandbox_json(&[
        "api",
        "POST",
        "/api/v1/audiences",
        "--data",
        "{\"name\":\"N\"}",
    ]);
    let id = created["id"].as_str().expect("an id");
    let people = (0..5)
        .map(|n| format!("p{n}@example.test\n"))
        .collect::<String>();
    let file = home.file("people.csv", format!("email\n{people}"));
    home.sandbox_json(&["contacts", "import", id, &file]);
    let path = format!("/api/v1/audiences/{id}/contacts?pageSize=2");
    assert_eq!(home.sandbox_json(&["api", "get", &path])["total"], 5);

    let all = home.sandbox_json(&["api", "GET", &path, "--all"]);
    assert_eq!(all.as_array().map(Vec::len), Some(5), "{all}");

    let lines = home.run(&["--sandbox", "api", "GET", &path, "--all", "-o", "ndjson"]);
    assert_eq!(lines.stdout.lines().count(), 5);
    assert_eq!(
        home.sandbox_json(&["api", "GET", "/v1/me"])["auth"]["scope"],
        "full"
    );

    let missing = home.run(&["--sandbox", "api", "GET", "/api/v1/nothing"]);
    assert_eq!(missing.code, 5, "{missing:?}");

    let deleted = home.run(&[
        "--sandbox",
        "api",
        "DELETE",
        &format!("/api/v1/audiences/{id}"),
    ]);
    assert_eq!(
        (deleted.code, deleted.json()["status"].clone()),
        (0, json!(204)),
        "{deleted:?}"
    );
}

/// The dialect of the profile is that of the live service; the sandbox has one of its own.
#[test]
fn a_sandbox_run_speaks_as_the_sandbox_does() {
    let home = Home::new();
    home.file(
        "config/svc/config.toml",
        "[profiles.default.dialect]\nkey-header = \"X-Live\"\n",
    );
    let settings = ["key-scheme=token", "list-items=rows", "opt-out=!silent"];
    let set = settings.map(|setting| ["--set", setting]).concat();
    let server = RunningServer::start(&home, &set);
    let own = home.sandbox_json(&["audiences", "create", "News"]);
    home.sandbox_json(&["contacts", "create", "News", "ada@x.test"]);
    let out = home.sandbox_json(&["contacts", "update", "ada@x.test", "--subscribed", "false"]);
    assert_eq!(out["subscribed"], false, "{out}");

    let elsewhere = [("SVC_SANDBOX_URL", server.http.as_str())];
    let listed = home.run_with_env(&["--sandbox", "audiences", "list"], &elsewhere);
    assert_eq!(listed.json()[0]["id"], own["id"], "{listed:?}");
}
