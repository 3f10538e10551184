//! How each option changes the request.

use serde_json::{Value, json};

use crate::support::{Home, Run, Service, with_longer_timeouts};

/// The request of a dry run.
fn request(home: &Home, args: &[&str], input: &str) -> Value {
    let env = [
        ("SVC_EMAIL_URL", "http://127.0.0.1:9"),
        ("SVC_EMAIL_KEY", "mk_test_x"),
    ];
    let mut command = home.command(&[&["--dry-run", "--quiet"], args].concat());
    command.envs(env);
    let run = Home::run_command_with_input(command, input);
    assert_eq!(
        (run.code, run.stderr.as_str()),
        (0, ""),
        "{args:?}: {run:?}"
    );

    run.json()
}

const SEND: [&str; 8] = [
    "emails",
    "send",
    "--from",
    "a@b.test",
    "--to",
    "c@d.test",
    "--subject",
    "s",
];

fn email(home: &Home, options: &[&str], input: &str) -> Value {
    const CONTENT: [&str; 5] = ["--html", "--text", "--template", "--attach", "--body"];

    let has_content = options.iter().any(|option| CONTENT.contains(option));
    let text: &[&str] = if has_content { &[] } else { &["--text", "t"] };
    let mut email = request(home, &[&SEND[..], options, text].concat(), input)["body"].take();
    if !has_content {
        let text = email.as_object_mut().and_then(|email| email.remove("text"));
        assert_eq!(text, Some("t".into()));
    }
    email
}

/// The email of [`SEND`] with more fields.
fn with(more: Value) -> Value {
    let mut email = json!({"from": "a@b.test", "to": ["c@d.test"], "subject": "s"});
    let Value::Object(more) = more else {
        panic!("an object")
    };
    email.as_object_mut().expect("an object").extend(more);
    email
}

#[test]
fn emails_send() {
    let home = Home::new();
    home.file("part", "from a file");
    home.file("vars.json", r#"{"name": "Ada", "n": 1}"#);
    for (options, expected) in [
        (
            &["--to", "e@d.test"][..],
            json!({"to": ["c@d.test", "e@d.test"]}),
        ),
        (
            &["--cc", "e@d.test", "f@d.test"],
            json!({"cc": ["e@d.test", "f@d.test"]}),
        ),
        (
            &["--bcc", "e@d.test", "--bcc", "f@d.test"],
            json!({"bcc": ["e@d.test", "f@d.test"]}),
        ),
        (
            &["--reply-to", "Ada <e@d.test>"],
            json!({"replyTo": ["Ada <e@d.test>"]}),
        ),
        (&["--text", "t"], json!({"text": "t"})),
        (&["--text", "@part"], json!({"text": "from a file"})),
        (&["--text", "-"], json!({"text": "typed"})),
        (&["--text", "@@home"], json!({"text": "@home"})),
        (
            &["--html", "<b>x</b>"],
            json!({"html": "<b>x</b>", "text": "x"}),
        ),
        (&["--html", "-"], json!({"html": "typed", "text": "typed"})),
        (
            &["--html", "<b>x</b>", "--text", "y"],
            json!({"html": "<b>x</b>", "text": "y"}),
        ),
        (
            &["--html", "<b>x</b>", "--no-text"],
            json!({"html": "<b>x</b>"}),
        ),
        // A generated text part would override the template's.
        (
            &["--html", "x", "--template", "t"],
            json!({"html": "x", "templateId": "t"}),
        ),
        (
            &["--header", "X-A: b: c"],
            json!({"headers": {"X-A": "b: c"}}),
        ),
        (
            &["--tag", "k=1", "--tag", "l="],
            json!({"tags": {"k": "1", "l": ""}}),
        ),
        (
            &["--template", "t", "--var", "k=1", "--var", "l:=[2]"],
            json!({"templateId": "t", "variables": {"k": "1", "l": [2]}}),
        ),
        (
            &["--template", "t", "--vars", "@vars.json"],
            json!({"templateId": "t", "variables": {"name": "Ada", "n": 1}}),
        ),
        (
            &["--template", "t", "--vars", "@vars.json", "--var", "n:=2"],
            json!({"templateId": "t", "variables": {"name": "Ada", "n": 2}}),
        ),
        (
            &["--at", "2099-01-02T03:04:05+01:00"],
            json!({"scheduledAt": "2099-01-02T02:04:05.000Z"}),
        ),
        (
            &["--attach", "part", "--attach", "-;name=n;type=text/csv"],
            json!({"attachments": [
                {"filename": "part", "content": "ZnJvbSBhIGZpbGU="},
                {"filename": "n", "content": "dHlwZWQ=", "contentType": "text/csv"},
            ]}),
        ),
    ] {
        assert_eq!(
            email(&home, options, "typed"),
            with(expected),
            "{options:?}"
        );
    }
}

#[test]
fn options_override_the_body() {
    let home = Home::new();
    let body = r#"{"from": "old@b.test", "to": ["old@d.test"], "subject": "old", "cc": ["x@d.test"],
                   "text": "old", "tags": {"a": "1"}}"#;
    home.file("email.json", body);
    let kept = request(&home, &["emails", "send", "--body", "@email.json"], "");
    assert_eq!(
        kept["body"],
        serde_json::from_str::<Value>(body).expect("JSON")
    );

    let changed = email(
        &home,
        &["--body", "-", "--text", "new", "--tag", "b=2"],
        body,
    );
    let expected = json!({"cc": ["x@d.test"], "text": "new", "tags": {"a": "1", "b": "2"}});
    assert_eq!(changed, with(expected));
}

#[test]
fn contacts_and_webhooks() {
    let home = Home::new();
    for (line, method, path, body) in [
        (
            "contacts create aud_019a0b1c-0000-7000-8000-000000000001 a@b.test --name Ada --meta k=1 --meta l:=null --topic x --topic y",
            "POST",
            "/api/v1/audiences/aud_019a0b1c-0000-7000-8000-000000000001/contacts",
            json!({"email": "a@b.test", "name": "Ada", "metadata": {"k": "1", "l": null}, "topics": ["x", "y"]}),
        ),
        (
            "contacts update con_019a0b1c-0000-7000-8000-000000000001 --name Eve --meta k=2 --topic z --subscribed false",
            "PATCH",
            "/api/v1/contacts/con_019a0b1c-0000-7000-8000-000000000001",
            json!({"name": "Eve", "metadata": {"k": "2"}, "topics": ["z"], "subscribed": false}),
        ),
        (
            "contacts update con_019a0b1c-0000-7000-8000-000000000001 --no-topics",
            "PATCH",
            "/api/v1/contacts/con_019a0b1c-0000-7000-8000-000000000001",
            json!({"topics": []}),
        ),
        (
            "contacts list aud_019a0b1c-0000-7000-8000-000000000001 --page 2 --page-size 5",
            "GET",
            "/api/v1/audiences/aud_019a0b1c-0000-7000-8000-000000000001/contacts?page=2&pageSize=5",
            Value::Null,
        ),
        (
            "webhooks create https://a.test/h --event email.sent --event email.opened",
            "POST",
            "/api/v1/webhooks",
            json!({"url": "https://a.test/h", "events": ["email.sent", "email.opened"]}),
        ),
        (
            "webhooks update whk_019a0b1c-0000-7000-8000-000000000001 --url https://b.test --event email.sent --active false",
            "PATCH",
            "/api/v1/webhooks/whk_019a0b1c-0000-7000-8000-000000000001",
            json!({"url": "https://b.test", "events": ["email.sent"], "active": false}),
        ),
    ] {
        let shown = request(&home, &line.split(' ').collect::<Vec<_>>(), "");
        assert_eq!(shown["method"], method, "{line}");
        assert_eq!(shown["url"], format!("http://127.0.0.1:9{path}"), "{line}");
        assert_eq!(shown["body"], body, "{line}");
    }
}

#[test]
fn api() {
    let home = Home::new();
    home.file("body", r#"{"a": 1}"#);
    let shown = request(
        &home,
        &["api", "put", "/x?y=1", "--data", "@body", "-H", "X-A: b"],
        "",
    );
    assert_eq!(
        (&shown["method"], &shown["body"]),
        (&json!("PUT"), &json!({"a": 1}))
    );
    assert_eq!(shown["headers"]["x-a"], "b");
    assert_eq!(shown["headers"]["content-type"], "application/json");

    let typed = [
        "api",
        "POST",
        "/x",
        "--data",
        "-",
        "-H",
        "Content-Type: text/csv",
    ];
    let shown = request(&home, &typed, "a,b");
    assert_eq!(
        (&shown["body"], &shown["headers"]["content-type"]),
        (&json!("a,b"), &json!("text/csv"))
    );
}

#[test]
fn api_all_stops_if_the_service_ignores_pages() {
    let service = Service::always(200, r#"[{"id":"a"}]"#);
    let env = [
        ("SVC_EMAIL_URL", &*service.url()),
        ("SVC_EMAIL_KEY", "mk_test_x"),
    ];
    let run = Home::new().run_with_env(&["api", "GET", "/x", "--all"], &env);
    assert_eq!(
        (run.code, run.json(), service.requests().len()),
        (0, json!([{"id": "a"}]), 2)
    );
}

#[test]
fn a_time_in_the_past_is_refused() {
    let home = Home::new();
    for (at, code, message) in [
        (
            "2000-01-01T00:00:00Z",
            2,
            "--at: 2000-01-01 00:00:00 +00:00 is in the past",
        ),
        ("yesterday", 2, " is in the past"),
        ("now", 0, "sending now: "),
        (
            "2099-01-01T00:00:00Z",
            0,
            "scheduled for 2099-01-01 00:00:00 +00:00\n",
        ),
    ] {
        let args = [
            &["--dry-run", "--sandbox"],
            &SEND[..],
            &["--text", "t", "--at", at],
        ]
        .concat();
        for format in ["table", "json"] {
            let run = home.run(&[&args[..], &["-o", format]].concat());
            assert!(run.code == code && run.stderr.contains(message), "{run:?}");
        }
    }
}

/// Nothing that the user wrote is left out of the request, or replaced, without being said.
#[test]
fn what_would_be_lost_is_refused() {
    let home = Home::new();
    let env = [
        ("SVC_EMAIL_URL", "http://127.0.0.1:9"),
        ("SVC_EMAIL_KEY", "mk_test_x"),
    ];
    let body = r#"{"from":"a@b.test","to":"c@d.test","subject":"s","text":"t","#;
    for (more, why) in [
        (
            r#""scheduled_at":"2030-01-01T00:00:00Z"}"#,
            "unknown field `scheduled_at`: did you mean `scheduledAt`?",
        ),
        (
            r#""ReplyTo":"e@f.test"}"#,
            "unknown field `ReplyTo`: did you mean `replyTo`?",
        ),
        (r#""variables":{"name":"Ada"}}"#, "variables"),
        (
            r#""template":"t"}"#,
            "unknown field `template`: did you mean `templateId`?",
        ),
    ] {
        let body = format!("{body}{more}");
        let file = home.file("email.json", &body);
        let send = ["emails", "send", "--body", &format!("@{file}"), "--dry-run"];
        let run = home.run_with_env(&send, &env);
        assert!(run.code == 2 && run.stderr.contains(why), "{why}: {run:?}");
        let run = home.run_with_env(&["emails", "batch", &file], &env);
        let why = match why
            .split_once(" field `")
            .and_then(|(_, rest)| rest.split_once("`: "))
        {
            Some((field, meant)) => format!("{field}: unknown field: {meant}"),
            None => why.to_owned(),
        };
        assert!(run.code == 2 && run.stderr.contains(&why), "{why}: {run:?}");
    }

    let headers = ["--header", "X-A: 1", "--header", "x-a: 2"];
    let send = home.run_with_env(&[&SEND[..], &["--text", "t"], &headers].concat(), &env);
    assert!(
        send.code == 2 && send.stderr.contains("`x-a` is given twice"),
        "{send:?}"
    );

    let file = home.file("people.csv", "email\na@b.test\n");
    let bulk = [
        "bulk",
        "send",
        &file,
        "--from",
        "a@b.test",
        "--subject",
        "s",
        "--text",
        "t",
    ];
    let run = home.run_with_env(&[&bulk[..], &headers].concat(), &env);
    assert!(
        run.code == 2 && run.stderr.contains("`x-a` is given twice"),
        "{run:?}"
    );

    let both = [
        "--unsubscribe",
        "https://x.test",
        "--header",
        "list-unsubscribe: <mailto:u@b.test>",
    ];
    let run = home.run_with_env(&[&bulk[..], &both].concat(), &env);
    assert!(
        run.code == 2 && run.stderr.contains("sets the header"),
        "{run:?}"
    );

    for (args, why) in [
        (
            &["domains", "records", "dom_1", "-o", "bind", "--jq", "."][..],
            "--jq filters JSON",
        ),
        (
            &[
                "contacts", "create", "a", "b@c", "--meta", "k=1", "--meta", "k=2",
            ],
            "given twice",
        ),
        (
            &["contacts", "create", "aud_1", "b@c.test", "--topic", ""],
            "a value is required",
        ),
        (
            &["contacts", "update", "con_1", "--topic", "news,,x"],
            "a value is required",
        ),
        (
            &["webhooks", "update", "whk_1", "--active", "maybe"],
            "[possible values: true, false]",
        ),
    ] {
        let run = home.run_with_env(args, &env);
        assert!(
            run.code == 2 && run.stderr.contains(why),
            "{args:?}: {run:?}"
        );
    }

    let to = ["--text", "t", "--cc", "e@f.test; g@h.test"];
    let run = home.run_with_env(&[&SEND[..], &to].concat(), &env);
    assert!(
        run.stderr.contains("several addresses in one value"),
        "{run:?}"
    );

    // An option overrides the header of the body, in any case.
    let body = format!("{body}\"headers\":{{\"X-A\":\"1\"}}}}");
    let send = ["emails", "send", "--body", "-", "--header", "x-a: 2"];
    assert_eq!(
        request(&home, &send, &body)["body"]["headers"],
        json!({"x-a": "2"})
    );
}

/// A field that the reference does not name is sent, as a profile may need, but not in silence.
#[test]
fn a_field_that_is_not_documented_is_sent_with_a_warning() {
    let home = Home::new();
    let email = r#"{"from":"a@b.test","to":"c@d.test","subject":"s","text":"t","trackOpens":true}"#;
    let file = home.file("email.ndjson", format!("{email}\n{email}\n"));
    let body = format!("@{}", home.file("email.json", email));
    let env = [
        ("SVC_EMAIL_URL", "http://127.0.0.1:9"),
        ("SVC_EMAIL_KEY", "mk_test_x"),
    ];
    let warning = "warning: not documented, sent unchanged: `trackOpens`";
    for args in [
        ["emails", "send", "--body", &body],
        ["emails", "batch", &file, "-q"],
    ] {
        let run = home.run_with_env(&[&args[..], &["--dry-run"]].concat(), &env);
        assert_eq!(
            (run.code, run.stderr.matches(warning).count()),
            (0, 1),
            "{run:?}"
        );
        assert!(run.stdout.contains("trackOpens"), "{run:?}");
    }

    let attached = email.replace(
        r#""trackOpens":true"#,
        r#""attachments":[{"filename":"a","content":"","cid":"x"}]"#,
    );
    let run = home.run_with_env(&["emails", "send", "--dry-run", "--body", &attached], &env);
    let warning = "warning: not documented, sent unchanged: `cid`";
    assert!(run.code == 0 && run.stderr.contains(warning), "{run:?}");

    home.file(
        "config/svc/config.toml",
        "[profiles.default.dialect]\nlimits = \"other\"\n",
    );
    let send = ["emails", "send", "--dry-run", "--body"];
    let other = email.replace("trackOpens", "sendAt");
    let run = home.run_with_env(&[&send[..], &[&other]].concat(), &env);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{run:?}");
    assert_eq!(run.json()["body"]["sendAt"], true);
}

/// Only templates and `svc bulk send` fill placeholders.
#[test]
fn a_placeholder_without_a_template_is_sent_with_a_warning() {
    let home = Home::new();
    let env = [
        ("SVC_EMAIL_URL", "http://127.0.0.1:9"),
        ("SVC_EMAIL_KEY", "mk_test_x"),
    ];
    let send = [&SEND[..], &["--dry-run", "--html"]].concat();
    for (html, more, warns) in [
        ("<p>Hi {{ first_name }}</p>", &[][..], true),
        ("<p>Hi {{name|upper}}</p>", &["--text", "Hi"], true),
        ("<p>Hi {{ name }}</p>", &["--template", "t"], false),
        ("<p>a {{ b</p>", &[], false),
        ("<style>a{{}}</style>{{#if x}}", &[], false),
    ] {
        let run = home.run_with_env(&[&send[..], &[html], more].concat(), &env);
        assert_eq!(
            (run.code, run.stderr.contains("placeholders")),
            (0, warns),
            "{html}: {run:?}"
        );
    }

    let row = r#"{"from":"a@b.test","to":"c@d.test","subject":"Hi {{ name }}","text":"t"}"#;
    let file = home.file("rows.ndjson", row);
    let run = home.run_with_env(&["emails", "batch", &file, "--dry-run"], &env);
    assert!(
        run.code == 0 && run.stderr.contains("placeholders such as"),
        "{run:?}"
    );
}

/// The items of a page are not mistaken for another list beside them.
/// A service that always has another page.
#[test]
fn every_page_of_a_list_is_read_within_the_timeout() {
    let home = Home::new();
    let pages = (0..50_000).map(|page| {
        let body =
            format!(r#"{{"data":[{{"id":"aud_{page}","name":"n","subscribed":true}}],"nextCursor":"c{page}"}}"#);
        crate::support::http_response(200, "", &body)
    });
    let service = Service::with_responses(&pages.collect::<Vec<_>>());
    let env = [
        ("SVC_EMAIL_URL", &*service.url()),
        ("SVC_EMAIL_KEY", "mk_test_x"),
    ];
    let audience = "aud_019a0b1c-0000-7000-8000-000000000001";
    let file = home.file("people.csv", "email\na@example.test\n");
    for line in [
        "api GET /api/v1/things --all",
        "api GET /api/v1/things --all -o ndjson",
        &format!("contacts list {audience} --all"),
        "audiences list",
        "audiences get Newsletter",
        &format!("contacts import {audience} {file}"),
        &format!("bulk send --audience {audience} --from a@b.test --subject s --text t --yes"),
    ] {
        let is_of_all = |run: &Run| run.stderr.contains("over all of its pages");
        let run = with_longer_timeouts(|timeout| {
            let args = line.split(' ').chain(["--timeout", timeout]);
            let run = home.run_with_env(&args.collect::<Vec<_>>(), &env);
            is_of_all(&run).then_some(run)
        });
        let error = run.error();
        assert_eq!(
            (run.code, &error["code"]),
            (8, &json!("timeout")),
            "{line}: {error}"
        );
    }
}

#[test]
fn a_page_with_several_lists_is_read_or_refused() {
    let home = Home::new();
    let all = |body: &str| {
        let service = Service::always(200, body);
        let env = [
            ("SVC_EMAIL_URL", &*service.url()),
            ("SVC_EMAIL_KEY", "mk_test_x"),
        ];
        home.run_with_env(&["api", "GET", "/api/v1/things", "--all"], &env)
    };

    let run = all(r#"{"warnings":[],"data":[{"id":1}],"page":1,"totalPages":1}"#);
    assert_eq!((run.code, run.json()), (0, json!([{"id": 1}])), "{run:?}");

    let run = all(r#"{"warnings":[],"things":[{"id":1}]}"#);
    assert_eq!((run.code, run.json()), (0, json!([{"id": 1}])), "{run:?}");

    let run = all(r#"{"others":[{"id":2}],"things":[{"id":1}]}"#);
    assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{run:?}");
}
