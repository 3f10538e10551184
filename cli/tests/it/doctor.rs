//! `svc doctor` and `svc whoami`.

use serde_json::Value;

use crate::support::{Home, Run, Service, http_response};

fn finding(run: &Run, check: &str) -> Value {
    let all = run.json();
    let found = all
        .as_array()
        .expect("a list")
        .iter()
        .find(|f| f["check"] == check)
        .cloned();
    found.unwrap_or_else(|| panic!("no `{check}` in {all:#}"))
}

#[test]
fn a_healthy_sandbox_has_no_problem() {
    let run = Home::new().run(&["--sandbox", "doctor"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{run:?}");
    for check in [
        "email service",
        "email key",
        "scope domains:manage",
        "domain sandbox.test",
        "organization",
    ] {
        assert_eq!(finding(&run, check)["status"], "ok", "{check}");
    }

    assert_eq!(finding(&run, "scope emails:send")["status"], "unknown");
}

#[test]
fn without_configuration_the_next_step_is_login() {
    let run = Home::new().run(&["doctor"]);
    assert_eq!(run.code, 10, "{run:?}");
    assert_eq!(finding(&run, "services")["finding"], "no service is set up");
    assert_eq!(
        finding(&run, "email service")["next"],
        "svc login --service email"
    );
}

#[test]
fn finds_and_reports_problems() {
    let home = Home::new();
    let service = Service::with_responses(&[
        http_response(200, "", "[]"),
        http_response(200, "", "[]"),
        http_response(
            403,
            "",
            r#"{"error":{"code":"insufficient_scope","message":"no"}}"#,
        ),
        http_response(200, "", "[]"),
        http_response(
            200,
            "",
            r#"[{"id":"whk_1","url":"http://127.0.0.1:9/x","events":[],"active":false},
                {"id":"whk_2","url":"http://127.0.0.1:9/y","events":[],"active":true}]"#,
        ),
    ]);
    let url = service.url();
    let run = home.run_with_env(
        &["doctor"],
        &[("SVC_EMAIL_URL", &url), ("SVC_EMAIL_KEY", "mk_live_x")],
    );
    assert_eq!(run.code, 0, "warnings do not fail: {run:?}");
    assert_eq!(finding(&run, "scope emails:read")["status"], "warning");
    assert_eq!(finding(&run, "sending domains")["status"], "warning");
    assert_eq!(finding(&run, "webhook whk_1")["status"], "warning");
    assert_eq!(
        finding(&run, "webhook whk_2")["next"],
        "svc webhooks test whk_2"
    );
    assert!(
        service
            .requests()
            .iter()
            .all(|request| request.starts_with("GET ")),
        "only GET requests"
    );

    let refused = Service::always(401, "{}");
    let url = refused.url();
    let run = home.run_with_env(
        &["doctor"],
        &[("SVC_EMAIL_URL", &url), ("SVC_EMAIL_KEY", "mk_live_x")],
    );
    assert_eq!(
        (run.code, run.error()["code"].clone()),
        (10, "problems_found".into()),
        "{run:?}"
    );

    let next = "svc sends the key as bearer in authorization; if the service wants it otherwise \
                (the points `key-scheme` and `key-header` of the dialect), find it out: svc \
                conform; or put another key into SVC_EMAIL_KEY, or unset it to use the profile's";
    assert_eq!(finding(&run, "email key")["next"], next);

    let env = [
        ("SVC_EMAIL_URL", "http://127.0.0.1:9"),
        ("SVC_EMAIL_KEY", "mk_live_x"),
    ];
    let down = home.run_with_env(&["doctor"], &env);
    assert_eq!(down.code, 10);
    assert_eq!(finding(&down, "email service")["status"], "problem");
}

/// What keeps doctor from a check is a finding with its next step, and does not prevent the others.
#[test]
fn an_unusable_configuration_is_a_problem_with_a_next_step() {
    let home = Home::new();
    let peer = Service::always(
        200,
        r#"{"organization":{"id":"org_1","name":"A"},"auth":{}}"#,
    );
    let env = [
        ("SVC_EXTRACTION_URL", &*peer.url()),
        ("SVC_EXTRACTION_KEY", "sk_live_x"),
    ];
    let examine = |config: &str, credentials: &str| {
        home.file("config/svc/config.toml", config);
        let keys = home.file("config/svc/credentials.toml", credentials);
        #[cfg(unix)]
        let owner_alone = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        #[cfg(unix)]
        std::fs::set_permissions(&keys, owner_alone).expect("changed");
        home.run_with_env(&["doctor"], &env)
    };

    let profile = "[profiles.default]\nemail_url = \"http://127.0.0.1:9\"\n";
    for (config, credentials, check, problem, next) in [
        (
            profile,
            "[profiles.default]\nemail_key = \"mk_test_x\"\nemail_key_url = \"http://127.0.0.1:8\"\n",
            "email service",
            "belongs to http://127.0.0.1:8",
            "svc login --service email --profile default",
        ),
        (
            profile,
            "[profiles.default]\nemail_key = = x\n",
            "credentials",
            "line 2 is not TOML",
            "svc login",
        ),
        (
            "[profiles.default]\nemail_url = \"mail.example.com\"\n",
            "[profiles.default]\nemail_key = \"mk_test_x\"\n",
            "email service",
            "is not a valid URL",
            "did you mean https://mail.example.com?",
        ),
    ] {
        let run = examine(config, credentials);
        assert_eq!(
            (run.code, &run.error()["code"]),
            (10, &"problems_found".into()),
            "{run:?}"
        );
        let found = finding(&run, check);
        assert_eq!(found["status"], "problem", "{found}");
        assert!(
            found["finding"]
                .as_str()
                .is_some_and(|f| f.contains(problem)),
            "{found}"
        );
        assert!(
            found["next"].as_str().is_some_and(|n| n.contains(next)),
            "{found}"
        );
        assert_eq!(finding(&run, "organization")["finding"], "A (org_1)");
        let all = run.json();
        let problems = all.as_array().expect("a list").iter();
        assert_eq!(
            problems.filter(|f| f["status"] == "problem").count(),
            1,
            "{all:#}"
        );
    }

    for (config, problem) in [
        (
            "[profiles.default]\nretries = = 1\n",
            "config.toml: line 2 is not TOML",
        ),
        (
            "[profiles.default]\ntimeout = \"soon\"\n",
            "`timeout`: `soon` is not a duration",
        ),
    ] {
        let run = examine(config, "");
        assert_eq!(run.code, 2, "{run:?}");
        let error = run.error();
        assert!(
            error["message"]
                .as_str()
                .is_some_and(|m| m.contains(problem)),
            "{error}"
        );
        assert!(
            error["hint"]
                .as_str()
                .is_some_and(|h| h.starts_with("correct")),
            "{error}"
        );
    }
}

/// The response comes from another server, or the service is unavailable. In both cases the key was
/// not checked, so nothing is reported about it.
#[test]
fn an_unexpected_response_is_a_problem_of_the_service() {
    let home = Home::new();
    let elsewhere = "location: https://elsewhere.example/\r\n";
    let html = "content-type: text/html\r\n";
    for (response, finding_holds, next) in [
        (
            http_response(500, "", "{}"),
            "HTTP 500",
            "run svc doctor again later",
        ),
        (
            http_response(429, "", "{}"),
            "HTTP 429",
            "run svc doctor again later",
        ),
        (
            http_response(302, elsewhere, ""),
            "HTTP 302",
            "check the URL",
        ),
        (
            http_response(404, html, "<h1>Not here</h1>"),
            "HTTP 404",
            "check the URL",
        ),
        (
            http_response(200, html, "<h1>Welcome</h1>"),
            "HTTP 200",
            "check the URL",
        ),
    ] {
        for (service, other, key) in [
            ("email", "extraction", "mk_live_x"),
            ("extraction", "email", "sk_live_x"),
        ] {
            let peer = Service::with_responses(std::slice::from_ref(&response));
            let names = [
                format!("SVC_{}_URL", service.to_uppercase()),
                format!("SVC_{}_KEY", service.to_uppercase()),
            ];
            let url = peer.url();
            let run = home.run_with_env(
                &["doctor", "--retries", "0"],
                &[(&names[0], &url), (&names[1], key)],
            );
            assert_eq!(run.code, 10, "{service} {response}: {run:?}");
            let found = finding(&run, &format!("{service} service"));
            assert_eq!(found["status"], "problem", "{found}");
            assert!(
                found["finding"]
                    .as_str()
                    .is_some_and(|f| f.contains(finding_holds)),
                "{found}"
            );
            assert_eq!(found["next"], next, "{found}");
            let all = run.json();
            let checks: Vec<_> = all
                .as_array()
                .expect("a list")
                .iter()
                .map(|f| f["check"].clone())
                .collect();
            assert_eq!(checks.len(), 3, "{checks:?}");
            assert!(
                checks.contains(&format!("{other} service").into()),
                "{checks:?}"
            );
        }
    }
}

#[test]
fn missing_details_of_the_extraction_service_are_unknown() {
    let home = Home::new();
    let examine = |response: String, code: i32| {
        let peer = Service::with_responses(&[response]);
        let url = peer.url();
        let env = [
            ("SVC_EXTRACTION_URL", url.as_str()),
            ("SVC_EXTRACTION_KEY", "sk_live_x"),
        ];
        let run = home.run_with_env(&["doctor"], &env);
        assert_eq!(run.code, code, "{run:?}");
        assert_eq!(finding(&run, "extraction key")["status"], "ok");
        run
    };

    let refused = r#"{"error":{"code":"insufficient_scope","message":"no"}}"#;
    let peer = Service::always(200, "{}");
    let env = [
        ("SVC_EXTRACTION_URL", &*peer.url()),
        ("SVC_EXTRACTION_KEY", "sk_live_x"),
    ];
    let run = home.run_with_env(&["doctor"], &env);
    assert_eq!(run.code, 10, "{run:?}");
    assert_eq!(finding(&run, "extraction service")["status"], "problem");

    let run = examine(http_response(403, "", refused), 0);
    assert_eq!(finding(&run, "organization")["status"], "unknown");

    let run = examine(
        http_response(
            200,
            "",
            r#"{"organization":{"id":"org_1","name":"Acme"},"auth":{}}"#,
        ),
        0,
    );
    assert_eq!(finding(&run, "organization")["finding"], "Acme (org_1)");
    assert_eq!(finding(&run, "extraction scope")["status"], "unknown");

    let wrapped =
        r#"{"data":{"organization":{"id":"org_1","name":"Acme"},"auth":{"scope":"full"}}}"#;
    assert_eq!(
        finding(
            &examine(http_response(200, "", wrapped), 0),
            "extraction scope"
        )["finding"],
        "full"
    );
}

/// A failed request says nothing about the key.
#[test]
fn whoami_reports_only_what_the_service_confirmed() {
    let home = Home::new();
    for (status, accepted, code) in [
        (200, Value::Bool(true), 0),
        (401, Value::Bool(false), 3),
        (403, Value::Bool(true), 0),
        (404, Value::Null, 5),
        (500, Value::Null, 8),
    ] {
        let peer = Service::with_responses(&vec![http_response(status, "", "[]"); 4]);
        let url = peer.url();
        let env = [
            ("SVC_EMAIL_URL", url.as_str()),
            ("SVC_EMAIL_KEY", "mk_live_x"),
        ];
        let run = home.run_with_env(&["whoami", "--retries", "0"], &env);
        assert_eq!(run.code, code, "{status}: {run:?}");
        assert_eq!(
            run.json()["email"]["accepted"],
            accepted,
            "{status}: {run:?}"
        );
    }
}

#[test]
fn a_server_without_tls_is_named_as_such() {
    let (listener, url) = crate::support::listen();
    let url = url.replace("http:", "https:");
    let env = [
        ("SVC_EMAIL_URL", url.as_str()),
        ("SVC_EMAIL_KEY", "mk_live_x"),
    ];
    let peer = std::thread::spawn(move || {
        // A server without TLS refuses a handshake with 400.
        let mut stream = crate::support::accept(&listener);
        std::io::Write::write_all(&mut stream, http_response(400, "", "").as_bytes())
            .expect("sent");
        stream
    });
    let run = Home::new().run_with_env(&["doctor", "--retries", "0"], &env);
    drop(peer.join().expect("no panic"));
    assert_eq!(run.code, 10, "{run:?}");

    let found = finding(&run, "email service");
    let text = found["finding"].as_str().expect("a text");
    assert!(
        text.contains("the server does not use TLS on this port"),
        "{found}"
    );
    assert!(
        found["next"]
            .as_str()
            .is_some_and(|next| next.contains("check the URL")),
        "{found}"
    );
}
