//! Names, addresses and URLs in place of ids, and the next steps in errors, with the sandbox.

use serde_json::{Value, json};

use crate::support::{Home, Service, http_response, with_longer_timeouts};

fn sandbox(home: &Home, args: &[&str]) -> crate::support::Run {
    home.run(&[&["--sandbox"], args].concat())
}

fn id(value: &Value) -> &str {
    value["id"].as_str().expect("an id")
}

#[test]
fn audiences_and_contacts_are_found_by_name_and_address() {
    let home = Home::new();
    let news = home.sandbox_json(&["audiences", "create", "News"]);
    let offers = home.sandbox_json(&["audiences", "create", "Spring offers"]);
    let ada = home.sandbox_json(&["contacts", "create", "News", "ada@example.test"]);
    assert_eq!(ada["audienceId"], news["id"]);

    let bob = home.sandbox_json(&["contacts", "create", "Spring offers", "bob@example.test"]);
    assert_eq!(bob["audienceId"], offers["id"]);
    assert_eq!(home.sandbox_json(&["audiences", "get", "News"]), news);

    let listed = home.sandbox_json(&["contacts", "list", "Spring offers", "--all"]);
    assert_eq!(id(&listed[0]), id(&bob));

    let named = home.sandbox_json(&["contacts", "update", "ADA@example.test", "--name", "Ada"]);
    assert_eq!((id(&named), &named["name"]), (id(&ada), &json!("Ada")));

    home.sandbox_json(&["contacts", "create", "News", "bob@example.test"]);
    let run = sandbox(&home, &["contacts", "delete", "bob@example.test", "--yes"]);
    let error = run.error();
    assert_eq!(
        (run.code, &error["code"]),
        (2, &json!("ambiguous_name")),
        "{run:?}"
    );

    let hint = error["hint"].as_str().expect("a hint");
    assert!(
        hint.contains(id(&bob)) && hint.contains("(in News)"),
        "{hint}"
    );

    let args = [
        "contacts",
        "delete",
        "bob@example.test",
        "--audience",
        "Spring offers",
        "--yes",
    ];
    let run = sandbox(&home, &[&args[..], &["-o", "table"]].concat());
    assert_eq!(
        run.stdout,
        format!("deleted contact bob@example.test ({})\n", id(&bob))
    );

    let run = sandbox(&home, &["audiences", "get", "Nothing"]);
    assert_eq!(
        (run.code, &run.error()["status"]),
        (5, &json!(404)),
        "{run:?}"
    );
    assert_eq!(sandbox(&home, &["audiences", "get", "No thing"]).code, 5);

    let file = home.file("people.csv", "email\neve@example.test\n");
    let run = sandbox(&home, &["contacts", "import", "News", &file, "-o", "table"]);
    assert!(run.stdout.contains("1 created"), "{run:?}");
}

#[test]
fn domains_and_webhooks_are_found_by_name_and_url() {
    let home = Home::new();
    for name in ["sandbox.test", "SANDBOX.TEST."] {
        let run = sandbox(&home, &["domains", "verify", name, "-o", "table"]);
        assert_eq!(run.code, 0, "{run:?}");
    }

    let url = "http://127.0.0.1:9/hook";
    let hook = home.sandbox_json(&["webhooks", "create", url, "--event", "email.sent"]);
    let off = home.sandbox_json(&["webhooks", "update", url, "--active", "false"]);
    assert_eq!((id(&off), &off["active"]), (id(&hook), &json!(false)));

    let run = sandbox(&home, &["webhooks", "delete", url, "--yes", "-o", "table"]);
    assert_eq!(
        run.stdout,
        format!("deleted webhook {url} ({})\n", id(&hook)),
        "{run:?}"
    );

    let run = sandbox(
        &home,
        &["domains", "delete", "Sandbox.test", "--yes", "-o", "table"],
    );
    assert!(
        run.stdout.starts_with("deleted domain sandbox.test (dom_"),
        "{run:?}"
    );

    let run = sandbox(&home, &["domains", "delete", "sandbox.test", "--yes"]);
    assert_eq!(
        (run.code, &run.error()["kind"]),
        (5, &json!("not_found")),
        "{run:?}"
    );
}

/// Asks a service with these responses for an audience.
fn get(audience: &str, responses: &[String]) -> (crate::support::Run, Vec<String>) {
    let service = Service::with_responses(responses);
    let url = service.url();
    let env = [
        ("SVC_EMAIL_URL", url.as_str()),
        ("SVC_EMAIL_KEY", "mk_test_x"),
    ];
    let run = Home::new().run_with_env(&["audiences", "get", audience], &env);
    let path = |request: &String| request.split(' ').nth(1).expect("a path").to_owned();
    (run, service.requests().iter().map(path).collect())
}

/// The service may know an id that it does not list, and may check the form of an id before it looks
/// for one.
#[test]
fn a_name_costs_one_lookup_and_an_id_none() {
    let found = http_response(200, "", r#"{"id":"aud_1","name":"News"}"#);
    let list = http_response(200, "", r#"[{"id":"aud_1","name":"News"}]"#);
    let (run, paths) = get("News", &[list, found.clone()]);
    assert_eq!(
        (run.code, &run.json()["id"]),
        (0, &json!("aud_1")),
        "{run:?}"
    );
    assert_eq!(paths, ["/api/v1/audiences", "/api/v1/audiences/aud_1"]);

    // A name may begin as ids do.
    let list = http_response(200, "", r#"[{"id":"aud_1","name":"aud_team"}]"#);
    let (run, paths) = get("aud_team", &[list, found.clone()]);
    assert_eq!(
        (run.code, &*paths[1]),
        (0, "/api/v1/audiences/aud_1"),
        "{run:?}"
    );

    let uuid = "019a0b1c-0000-7000-8000-000000000000";
    for id in [uuid, &format!("aud_{uuid}")] {
        let (run, paths) = get(id, std::slice::from_ref(&found));
        assert_eq!(
            (run.code, paths),
            (0, vec![format!("/api/v1/audiences/{id}")]),
            "{run:?}"
        );
    }

    let (run, paths) = get("42", &[http_response(200, "", "[]"), found.clone()]);
    assert_eq!(
        (run.code, &*paths[1]),
        (0, "/api/v1/audiences/42"),
        "{run:?}"
    );

    // A key that may not list.
    let forbidden = r#"{"error":{"code":"insufficient_scope","message":"no"}}"#;
    let (run, paths) = get("42", &[http_response(403, "", forbidden), found]);
    assert_eq!(
        (run.code, &*paths[1]),
        (0, "/api/v1/audiences/42"),
        "{run:?}"
    );

    for status in [404, 400, 422] {
        let refused = http_response(
            status,
            "",
            r#"{"error":{"code":"some_code","message":"no"}}"#,
        );
        let (run, _) = get("News", &[http_response(200, "", "[]"), refused.clone()]);
        assert_eq!(
            (run.code, &run.error()["status"]),
            (5, &json!(status)),
            "{run:?}"
        );
        assert_eq!(
            get(uuid, &[refused]).0.code,
            if status == 404 { 5 } else { 6 }
        );
    }
}

#[test]
fn a_service_with_smaller_pages_is_read_too() {
    let responses = [
        http_response(
            422,
            "",
            r#"{"error":{"code":"invalid","message":"pageSize"}}"#,
        ),
        http_response(200, "", r#"[{"id":"con_1","email":"a@b.test"}]"#),
        http_response(200, "", "[]"),
    ];
    let service = Service::with_responses(&responses);
    let url = service.url();
    let env = [
        ("SVC_EMAIL_URL", url.as_str()),
        ("SVC_EMAIL_KEY", "mk_test_x"),
    ];
    let run = Home::new().run_with_env(
        &[
            "contacts",
            "list",
            "aud_019a0b1c-0000-7000-8000-000000000001",
            "--all",
        ],
        &env,
    );
    assert_eq!(
        (run.code, &run.json()[0]["id"]),
        (0, &json!("con_1")),
        "{run:?}"
    );

    let requests = service.requests();
    assert!(requests[0].contains("pageSize=100"), "{}", requests[0]);
    assert!(!requests[1].contains("pageSize"), "{}", requests[1]);
}

#[test]
fn errors_name_the_next_step() {
    let home = Home::new();
    let sent = [
        "emails",
        "send",
        "--from",
        "a@shop.test",
        "--to",
        "b@c.test",
        "--subject",
        "s",
        "--text",
        "t",
    ];
    let hint = |args: &[&str]| {
        let run = sandbox(&home, args);
        assert_ne!(run.code, 0, "{args:?}: {run:?}");
        run.error()["hint"].as_str().unwrap_or_default().to_owned()
    };

    assert_eq!(
        hint(&sent),
        "add the domain, if it is new: svc --sandbox domains create shop.test\n\
         publish its DNS records: svc sandbox dns publish shop.test\n\
         then verify it: svc --sandbox domains verify shop.test --wait"
    );

    let dns = home.run(&["sandbox", "dns", "publish", "nope.test"]);
    assert_eq!(
        dns.error()["hint"],
        "list the domains: svc --sandbox domains list"
    );

    let event = home.run(&["sandbox", "event", "eml_nope", "bounced"]);
    assert!(
        event.error()["hint"]
            .as_str()
            .is_some_and(|hint| hint == "list the emails: svc sandbox emails list")
    );

    let key = home.run(&[
        "sandbox",
        "keys",
        "create",
        "--service",
        "email",
        "--scope",
        "full",
    ]);
    assert!(
        key.error()["hint"]
            .as_str()
            .is_some_and(|hint| hint.contains("emails:send"))
    );

    let from = [&sent[..3], &["hello@sandbox.test"], &sent[4..], &["--wait"]].concat();
    let email = home.sandbox_json(&from);
    let cancel = hint(&["emails", "cancel", id(&email)]);
    assert!(
        cancel.ends_with(&format!("svc --sandbox emails get {}", id(&email))),
        "{cancel}"
    );
}

#[test]
fn an_unfinished_wait_prints_the_last_state() {
    let home = Home::new();
    home.sandbox_json(&["domains", "list"]);
    let status = http_response(200, "", r#"{"id":"eml_1","status":"sending"}"#);
    let accepted = http_response(202, "", r#"{"id":"eml_1","status":"queued"}"#);
    let get = ["emails", "get", "eml_1", "--wait", "--timeout"];
    let send = "emails send --from a@b.test --to c@d.test --subject s --text t --wait --timeout";
    let send = send.split(' ').collect::<Vec<_>>();
    for (args, first) in [(&get[..], &status), (&send, &accepted)] {
        let run = with_longer_timeouts(|timeout| {
            let service = Service::with_responses(&[first.clone(), status.clone()]);
            let url = service.url();
            let env = [
                ("SVC_EMAIL_URL", url.as_str()),
                ("SVC_EMAIL_KEY", "mk_test_x"),
            ];
            let run = home.run_with_env(&[args, &[timeout]].concat(), &env);
            // Under load, the timeout can expire before the service reports `sending`.
            run.stdout.contains("sending").then_some(run)
        });
        assert_eq!(
            (run.code, &run.json()["status"]),
            (9, &json!("sending")),
            "{run:?}"
        );
        assert_eq!(run.error()["code"], "wait_timed_out", "{run:?}");
    }
}

/// The service says that it has more of everything, but every page is the first one.
#[test]
fn what_needs_all_of_a_list_fails_if_some_of_it_cannot_be_read() {
    const PAGE: &str = r#"{"data": [{"id": "a1", "name": "News", "email": "ada@x.test",
        "url": "https://x.test/", "subscribed": true}], "has_more": true}"#;

    let service = Service::always(200, PAGE);
    let home = Home::new();
    home.file("email.toml", "subject = 'Hi'\ntext = 'Hello'\n");
    home.file("people.csv", "email\nada@x.test\n");
    let run = |line: &str| {
        let args = line.split(' ').collect::<Vec<_>>();
        let env = [
            ("SVC_EMAIL_URL", &*service.url()),
            ("SVC_EMAIL_KEY", "mk_test_0123456789"),
            ("SVC_EXTRACTION_URL", &service.url()),
            ("SVC_EXTRACTION_KEY", "sk_test_0123456789"),
        ];
        home.run_with_env(&args, &env)
    };

    for line in [
        "audiences list",
        "domains list",
        "webhooks list",
        "extraction webhooks list",
    ] {
        let shown = run(&format!("{line} -o json"));
        assert_eq!(shown.code, 0, "{line}: {shown:?}");
        assert_eq!(shown.json()["complete"], false, "{line}");
        assert_eq!(shown.json()["items"][0]["id"], "a1", "{line}");
        assert!(shown.stderr.contains("warning"), "{line}: {shown:?}");
        for format in ["csv", "ndjson"] {
            let exported = run(&format!("{line} -o {format}"));
            assert_eq!(exported.code, 1, "{line}: {exported:?}");
            assert!(exported.stdout.contains("a1"), "{line}: {exported:?}");
            assert!(!exported.stdout.contains("complete"), "{exported:?}");
        }
    }

    let page = run("contacts list a1 -o json");
    assert_eq!(page.code, 0, "{page:?}");
    assert!(page.stderr.contains("use --all"), "{page:?}");
    // An id is one, whatever the other pages have.
    assert_eq!(run("audiences delete a1 --yes").code, 0);

    for line in [
        "contacts list a1 --all -o json",
        "api GET /api/v1/audiences --all",
    ] {
        let part = run(line);
        assert_eq!(part.code, 1, "{line}: {part:?}");
        assert_eq!(part.json()["complete"], false, "{line}");
        assert!(part.stderr.contains("svc conform"), "{line}: {part:?}");
    }

    for line in [
        "contacts list a1 --all -o csv",
        "contacts list a1 --all -o ndjson",
        "contacts list News --all",
        "contacts create News ada@x.test",
        "contacts update ada@x.test --name Ada",
        "contacts delete ada@x.test --yes",
        "contacts import News people.csv --yes",
        "audiences get News",
        "audiences delete News --yes",
        "domains get News",
        "domains records News",
        "domains verify News",
        "domains delete News --yes",
        "webhooks get https://x.test/",
        "webhooks update https://x.test/ --active false",
        "webhooks test https://x.test/",
        "webhooks delete https://x.test/ --yes",
        "extraction webhooks delete https://x.test/ --yes",
        "bulk send --audience a1 --from a@x.test --subject Hi --text Hello --yes",
        "bulk send --audience News --from a@x.test --subject Hi --text Hello --yes",
    ] {
        let failed = run(line);
        assert_eq!(failed.code, 1, "{line}: {failed:?}");
        let error = failed.error();
        assert_eq!(error["code"], "incomplete_list", "{line}: {error}");
    }
}
