//! The recipient guard, from the environment and the profile, for every command that sends.

use serde_json::{Value, json};

use crate::support::{Home, Run, Service, http_response};

const SEND: [&str; 8] = [
    "emails",
    "send",
    "--from",
    "a@b.test",
    "--subject",
    "s",
    "--text",
    "t",
];

fn run(home: &Home, service: &Service, args: &[&str], env: &[(&str, &str)]) -> Run {
    let url = service.url();
    let base = [
        ("SVC_EMAIL_URL", url.as_str()),
        ("SVC_EMAIL_KEY", "mk_test_x"),
    ];
    home.run_with_env(args, &[&base, env].concat())
}

fn refused(run: &Run, problem: &str) {
    assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{run:?}");

    let error = run.error();
    assert_eq!(
        (&error["code"], &error["kind"]),
        (&json!("recipient_guard"), &json!("invalid_input"))
    );
    assert!(
        error["message"]
            .as_str()
            .is_some_and(|text| text.contains(problem)),
        "{error}"
    );
    assert!(
        error["hint"]
            .as_str()
            .is_some_and(|text| text.contains("svc config show")),
        "{error}"
    );
}

fn setting(home: &Home, name: &str, env: &[(&str, &str)]) -> (Value, Value) {
    let rows = home.run_with_env(&["config", "show"], env).json();
    let rows = rows.as_array().expect("a list");
    let row = rows
        .iter()
        .find(|row| row["setting"] == name)
        .expect("the setting");
    (row["value"].clone(), row["from"].clone())
}

#[test]
fn every_command_that_sends_is_guarded_by_profile_and_environment() {
    let service = Service::always(202, r#"{"id":"eml_1"}"#);
    let home = Home::new();
    let profile = "[profiles.default]\nallow_recipients = [\"@example.com\", \"me+*@x.test\"]\n";
    home.file("config/svc/config.toml", profile);
    home.file("batch.ndjson", "{\"from\":\"a@b.test\",\"to\":\"a@example.com\",\"subject\":\"s\",\"text\":\"t\",\"bcc\":\"ada@customer.test\"}\n");
    home.file("people.csv", "email\na@example.com\nada@customer.test\n");
    let raw = r#"{"to":"ada@customer.test"}"#;
    let bulk = [
        "bulk",
        "send",
        "people.csv",
        "--from",
        "a@b.test",
        "--subject",
        "s",
    ];
    let ways: [(Vec<&str>, &str); 6] = [
        (
            [&SEND[..], &["--to", "ada@customer.test"]].concat(),
            "to[0]: ada@customer.test",
        ),
        (
            [
                &SEND[..],
                &["--to", "a@EXAMPLE.com", "--cc", "x@sub.example.com"],
            ]
            .concat(),
            "cc[0]: x@sub.example.com is not allowed; allowed are only @example.com, me+*@x.test",
        ),
        (
            [
                &SEND[..],
                &[
                    "--to",
                    "me+1@x.test",
                    "--bcc",
                    "me@x.test <ada@customer.test>",
                ],
            ]
            .concat(),
            "bcc[0]: `me@x.test <ada@customer.test>` can be read as several addresses",
        ),
        (
            vec!["emails", "batch", "batch.ndjson"],
            "emails[0].bcc[0]: ada@customer.test",
        ),
        (
            vec![
                "api",
                "POST",
                "/api/v1/emails",
                "--service",
                "email",
                "--data",
                raw,
            ],
            "path: raw requests cannot be checked",
        ),
        (
            [&bulk[..], &["--text", "t", "--yes"]].concat(),
            "row 3: stopped by the recipient guard",
        ),
    ];
    for (args, problem) in &ways {
        refused(&run(&home, &service, args, &[]), problem);
    }

    refused(
        &run(
            &home,
            &service,
            &[&ways[0].0[..], &["--dry-run"]].concat(),
            &[],
        ),
        "customer",
    );
    // The environment replaces the profile.
    let env = [("SVC_ALLOW_RECIPIENTS", "me@x.test, @customer.test")];
    refused(
        &run(
            &home,
            &service,
            &[&SEND[..], &["--to", "a@example.com"]].concat(),
            &env,
        ),
        "a@ex",
    );
    assert_eq!(service.requests(), [""; 0]);

    let sent = run(&home, &service, &ways[0].0, &env);
    assert_eq!((sent.code, service.requests().len()), (0, 1), "{sent:?}");

    let from = |env: &[(&str, &str)]| setting(&home, "allow_recipients", env);
    assert_eq!(
        from(&[]),
        (json!(["@example.com", "me+*@x.test"]), json!("profile"))
    );

    let source = json!("environment SVC_ALLOW_RECIPIENTS");
    assert_eq!(from(&env), (json!(["me@x.test", "@customer.test"]), source));

    let doctor = home.run_with_env(&["doctor"], &env);
    let doctor = doctor.json();
    let finding = doctor.as_array().expect("a list").iter();
    let finding = finding
        .clone()
        .find(|row| row["check"] == "recipient guard")
        .expect("a finding");
    assert_eq!(finding["finding"], "only me@x.test, @customer.test");
}

/// Neither the other service nor a test event is a way around the guard.
#[test]
fn nothing_else_sends_past_the_guard() {
    let service = Service::always(202, r#"{"id":"eml_1"}"#);
    let home = Home::new();
    let url = service.url();
    let raw = r#"{"from":"a@b.test","to":"ada@customer.test","subject":"s","text":"t"}"#;
    let event = r#"{"event":"email.sent","id":"1","created":"2026-01-05T09:00:00Z","data":{},"to":"ada@customer.test"}"#;
    let with_key = url.replace("http://", "http://user:mk_test_x@");
    let secret = home.file("secret", "whsec_0123456789abcdef");
    let certify = |url| {
        vec![
            "certify",
            url,
            "--service",
            "email",
            "--secret-file",
            &secret,
        ]
    };

    let api = format!("{url}/api/v1/emails");
    let api_with_key = format!("{with_key}/api/v1/emails");
    let api_with_query = format!("{api}?to=ada@customer.test");
    let env = [
        ("SVC_ALLOW_RECIPIENTS", "@example.com"),
        ("SVC_EXTRACTION_KEY", "mk_test_x"),
    ];
    for args in [
        vec![
            "api",
            "POST",
            "/api/v1/emails",
            "--service",
            "extraction",
            "--extraction-url",
            &url,
            "--data",
            raw,
        ],
        vec![
            "api",
            "POST",
            "/v1/emails",
            "--extraction-url",
            &api,
            "--data",
            raw,
        ],
        vec!["api", "GET", "/api/v1/emails", "--data", raw],
        vec![
            "api",
            "GET",
            "/api/v1/emails/x",
            "-H",
            "X-HTTP-Method-Override: POST",
        ],
        vec!["api", "GET", "/api/v1/emails/x?_method=POST"],
        vec![
            "api",
            "POST",
            "/api/v1/audiences/..%2Femails%3F/contacts",
            "--data",
            raw,
        ],
        vec!["trigger", "email.sent", "--to", &api, "--payload", raw],
        vec!["trigger", "email.sent", "--to", &api, "--payload", event],
        vec!["trigger", "email.sent", "--to", &api_with_key],
        vec!["trigger", "email.sent", "--to", &api_with_query],
        certify(&api_with_key),
        certify(&api_with_query),
        vec![
            "sandbox",
            "messages",
            "release",
            "msg_1",
            "--to",
            "ada@customer.test",
        ],
    ] {
        let run = run(&home, &service, &args, &env);
        assert_eq!(run.code, 2, "{args:?}: {run:?}");
        assert_eq!(run.error()["code"], "recipient_guard", "{args:?}: {run:?}");
    }

    assert_eq!(service.requests(), [""; 0]);

    // Events are delivered, and what is documented and sends nothing is called.
    let run_it = |args: &[&str]| run(&home, &service, args, &env).code;
    assert_eq!(run_it(&["trigger", "email.sent", "--to", &url]), 0);
    assert_eq!(
        run_it(&["api", "POST", "/api/v1/audiences", "-f", "name=x"]),
        0
    );
    assert_eq!(
        run_it(&["api", "GET", "/v1/me", "--extraction-url", &url]),
        0
    );
    assert_eq!(service.requests().len(), 3);
}

#[test]
fn a_redirect_is_shown_by_a_dry_run_and_reaches_the_sandbox() {
    let home = Home::new();
    let env = [("SVC_REDIRECT_RECIPIENTS", "me@x.test")];
    let send = [
        "--sandbox",
        "emails",
        "send",
        "--from",
        "hello@sandbox.test",
        "--subject",
        "s",
    ];
    let send = [
        &send[..],
        &["--text", "t", "--to", "Ada <ada@customer.test>"],
    ]
    .concat();
    let shown = home.run_with_env(&[&send[..], &["--dry-run"]].concat(), &env);
    assert_eq!(
        shown.json()["body"]["to"],
        json!(["me@x.test"]),
        "{shown:?}"
    );
    assert!(
        shown
            .stderr
            .contains("recipient guard: all emails go to me@x.test"),
        "{shown:?}"
    );

    let sent = home.run_with_env(&send, &env);
    assert_eq!(sent.code, 0, "{sent:?}");

    let messages = home.sandbox_json(&["sandbox", "messages", "list"]);
    let messages = messages["data"]
        .as_array()
        .or(messages.as_array())
        .expect("a list")
        .clone();
    assert_eq!(messages.len(), 1, "{messages:?}");

    let id = messages[0]["id"].as_str().expect("an id");
    let raw = home
        .run(&["--sandbox", "sandbox", "messages", "get", id, "--raw"])
        .stdout;
    assert!(
        raw.contains("X-Original-To: Ada <ada@customer.test>"),
        "{raw}"
    );
    assert!(raw.contains("\nTo: <me@x.test>"), "{raw}");
}

#[test]
fn a_limit_holds_for_a_run() {
    let service = Service::always(202, r#"{"id":"eml_1"}"#);
    let home = Home::new();
    let two = [&SEND[..], &["--to", "a@b.test", "c@d.test"]].concat();
    let one_run = [("SVC_MAX_RECIPIENTS_PER_RUN", "1")];
    refused(
        &run(&home, &service, &two, &one_run),
        "max_per_run: 2 more recipients exceed",
    );

    home.file("people.csv", "email\na@b.test\nc@d.test\n");
    let bulk = [
        "bulk",
        "send",
        "people.csv",
        "--from",
        "a@b.test",
        "--subject",
        "s",
        "--text",
    ];
    let all = run(
        &home,
        &service,
        &[&bulk[..], &["t", "--yes"]].concat(),
        &one_run,
    );
    refused(&all, "2 recipients exceed the limit of 1 per run");
    assert_eq!(home.run(&["bulk", "list"]).json(), json!([]));
    assert_eq!(service.requests().len(), 0);
}

#[test]
fn an_unusable_guard_sends_nothing() {
    let service = Service::always(202, r#"{"id":"eml_1"}"#);
    let home = Home::new();
    let one = [&SEND[..], &["--to", "a@b.test"]].concat();
    for (name, value, problem) in [
        (
            "SVC_ALLOW_RECIPIENTS",
            "",
            "SVC_ALLOW_RECIPIENTS: it is empty",
        ),
        ("SVC_ALLOW_RECIPIENTS", "b.test", "`b.test` is not a rule"),
        ("SVC_REDIRECT_RECIPIENTS", "me", "me is not an address"),
        ("SVC_MAX_RECIPIENTS_PER_RUN", "-1", "`-1` is not a number"),
    ] {
        let failed = run(&home, &service, &one, &[(name, value)]);
        assert_eq!(failed.code, 2, "{failed:?}");
        assert!(failed.stderr.contains(problem), "{failed:?}");
    }

    home.file(
        "config/svc/config.toml",
        "[profiles.default]\nallow_recipients = [1]\n",
    );
    let failed = run(&home, &service, &one, &[]);
    assert!(
        failed
            .stderr
            .contains("`allow_recipients`: recipient guard: `1` is not a rule"),
        "{failed:?}"
    );

    let doctor = home.run_with_env(&["doctor"], &[("SVC_REDIRECT_RECIPIENTS", "me")]);
    assert_eq!(doctor.code, 2, "{doctor:?}");

    home.file("config/svc/config.toml", "");
    let other = [
        ("SVC_REDIRECT_RECIPIENTS", "a@c.test"),
        ("SVC_ALLOW_RECIPIENTS", "@b.test"),
    ];
    let doctor = home.run_with_env(&["doctor"], &other);
    assert_eq!(doctor.code, 10, "{doctor:?}");
    assert!(
        doctor.stdout.contains("a@c.test matches none of its rules"),
        "{doctor:?}"
    );

    home.file(
        "config/svc/config.toml",
        "[profiles.default]\nallow_recipients = [\"b.test\"]\n",
    );
    let failed = run(&home, &service, &one, &[]).error();
    let message = failed["message"].as_str().expect("a message");
    assert!(
        message.contains("profile `default`: `allow_recipients`: "),
        "{message}"
    );
    assert_eq!(
        failed["hint"],
        "correct the entry in this file, or remove it"
    );
    assert!(service.requests().is_empty());
}

/// A setting that svc does not know must not let emails through.
#[test]
fn a_misspelled_guard_sends_nothing() {
    let service = Service::always(202, r#"{"id":"eml_1"}"#);
    let send = [&SEND[..], &["--to", "ada@customer.test"]].concat();
    let home = Home::new();
    for name in [
        "SVC_ALLOW_RECIPIENT",
        "SVC_MAX_RECIPIENTS_PER_HOUR",
        "svc_allow_recipients",
    ] {
        let problem = format!("{name} is not a setting");
        refused(&run(&home, &service, &send, &[(name, "1")]), &problem);
    }

    for config in [
        "[profiles.default]\nallow_recipient = [\"@example.com\"]\n",
        "allow_recipients = [\"@example.com\"]\n[profiles.default]\n",
    ] {
        home.file("config/svc/config.toml", config);
        refused(&run(&home, &service, &send, &[]), "is not a setting");
    }

    assert_eq!(service.requests().len(), 0);

    // That of another profile is not used here.
    home.file(
        "config/svc/config.toml",
        "[profiles.other]\nallow_recipient = []\n",
    );
    assert_eq!(run(&home, &service, &send, &[]).code, 0);
}

#[test]
fn a_job_is_not_continued_without_its_guard() {
    let accepted = r#"[{"id":"eml_1"},{"id":"eml_2"}]"#;
    let responses = [(200, "[]"), (401, "{}"), (200, accepted)];
    let responses = responses.map(|(status, body)| http_response(status, "", body));
    let home = Home::new();
    let service = Service::with_responses(&responses);
    home.file("people.csv", "email\na@customer.test\nb@customer.test\n");
    let bulk = [
        "bulk",
        "send",
        "people.csv",
        "--from",
        "a@b.test",
        "--subject",
        "s",
        "--text",
    ];
    let redirect = [("SVC_REDIRECT_RECIPIENTS", "me@example.test")];
    let started = run(
        &home,
        &service,
        &[&bulk[..], &["t", "--yes"]].concat(),
        &redirect,
    );
    assert_eq!(started.code, 3, "{started:?}");

    let jobs = home.run(&["bulk", "list"]).json();
    let resume = [
        "bulk",
        "resume",
        jobs[0]["job"].as_str().expect("a job"),
        "--yes",
    ];
    refused_resume(&run(&home, &service, &resume, &[]));
    let resumed = run(&home, &service, &resume, &redirect);
    assert_eq!(
        (resumed.code, service.requests().len()),
        (0, 3),
        "{resumed:?}"
    );
    assert!(service.requests()[2].contains(r#""to":["me@example.test"]"#));
}

fn refused_resume(run: &Run) {
    assert_eq!(run.code, 2, "{run:?}");
    assert_eq!(run.error()["code"], "recipient_guard", "{run:?}");
}
