//! `svc emails send`, `batch` and `cancel`: times, addresses, and what became of each email.

use serde_json::json;
use svc_reference_server::Server;
use svc_sdk::Dialect;
use tokio::runtime::Runtime;

use crate::support::{Home, Run, Service, http_response};

fn run(home: &Home, service: &Service, args: &[&str], input: &str) -> Run {
    let mut command = home.command(args);
    command
        .env("SVC_EMAIL_URL", service.url())
        .env("SVC_EMAIL_KEY", "mk_test_x");
    Home::run_command_with_input(command, input)
}

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

#[test]
fn a_past_time_in_any_form_is_refused_and_a_future_one_is_taken() {
    let home = Home::new();
    let service = Service::always(202, r#"{"id":"eml_1","status":"scheduled"}"#);
    for at in [
        "2024-11-01T09:00Z",
        "2024-11-01T09:00:00+0100",
        "2024-11-01",
        "20241101T0900",
        "2024-W44-5",
        "2024-306",
    ] {
        let to = [&SEND[..], &["--to", "c@d.test", "--at", at]].concat();
        let body = format!(
            r#"{{"from":"a@b.test","to":"c@d.test","subject":"s","text":"t","scheduledAt":"{at}"}}"#
        );
        for run in [
            run(&home, &service, &to, ""),
            run(&home, &service, &["emails", "send", "--body", "-"], &body),
            run(&home, &service, &["emails", "batch", "-"], &body),
        ] {
            assert_eq!(run.code, 2, "{at}: {run:?}");
            assert!(run.stderr.contains("is in the past"), "{at}: {run:?}");
        }
    }

    assert_eq!(service.requests(), [""; 0]);

    let to = [
        &SEND[..],
        &["--to", "c@d.test", "--at", "2199-11-01T09:00+0100"],
    ]
    .concat();
    assert_eq!(run(&home, &service, &to, "").code, 0);
    assert!(service.requests()[0].contains(r#""scheduledAt":"2199-11-01T08:00:00.000Z""#));
}

/// A service that reads it otherwise would send the email at once.
#[test]
fn a_time_in_another_form_is_refused_in_json() {
    let home = Home::new();
    let service = Service::always(202, r#"{"id":"eml_1","status":"scheduled"}"#);
    for at in [
        "Sun, 01 Nov 2026 09:00:00 GMT",
        "2026/11/01",
        "2026-13-01",
        "",
    ] {
        let body = format!(
            r#"{{"from":"a@b.test","to":"c@d.test","subject":"s","text":"t","scheduledAt":"{at}"}}"#
        );
        for args in [
            &["emails", "send", "--body", "@-"],
            &["emails", "batch", "-"][..],
        ] {
            let run = run(&home, &service, args, &body);
            assert_eq!(run.code, 2, "{at}: {run:?}");
            assert!(run.stderr.contains("ISO 8601"), "{at}: {run:?}");
        }
    }

    assert_eq!(service.requests(), [""; 0]);
}

#[test]
fn an_email_that_the_service_delivers_in_place_of_cancelling_is_not_cancelled() {
    let service = Service::always(200, r#"{"id":"eml_1","status":"delivered"}"#);
    let run = run(&Home::new(), &service, &["emails", "cancel", "eml_1"], "");
    assert_eq!(
        (run.code, &run.error()["code"]),
        (6, &json!("not_cancelled")),
        "{run:?}"
    );
}

#[test]
fn an_address_with_an_invisible_character_is_refused_with_its_place() {
    let home = Home::new();
    let service = Service::always(202, r#"{"id":"eml_1"}"#);
    let to = [&SEND[..], &["--to", "c@d.test", "a\u{200b}da@b.test"]].concat();
    let body = "{\"from\":\"a@b.test\",\"to\":[\"c@d.test\",\"a\u{200b}da@b.test\"],\"subject\":\"s\",\"text\":\"t\"}";
    for (run, field) in [
        (run(&home, &service, &to, ""), "to[1]"),
        (
            run(&home, &service, &["emails", "send", "--body", "-"], body),
            "to[1]",
        ),
        (
            run(&home, &service, &["emails", "batch", "-"], body),
            "emails[0].to[1]",
        ),
    ] {
        let error = run.error();
        assert_eq!(
            (run.code, &error["fields"][0]["field"]),
            (2, &json!(field)),
            "{error}"
        );
        let problem = error["fields"][0]["message"].as_str().expect("a message");
        assert!(problem.contains("U+200B, at position 2"), "{problem}");
    }

    assert_eq!(service.requests(), [""; 0]);
}

#[test]
fn a_name_with_separators_is_quoted_and_one_with_quotation_marks_refused() {
    let home = Home::new();
    let service = Service::always(202, r#"{"id":"eml_1"}"#);
    let to = |name: &'static str| [&SEND[..], &["--to", name]].concat();
    let body = r#"{"from":"a@b.test","to":["Smith, John <c@d.test>"],"subject":"s","text":"t"}"#;
    let batch = run(&home, &service, &["emails", "batch", "-"], body);
    assert_ne!(batch.code, 2, "{batch:?}");

    let single = run(&home, &service, &to("Smith, John <c@d.test>"), "");
    assert_eq!(single.code, 0, "{single:?}");

    let requests = service.requests();
    for request in &requests {
        let quoted = r#""\"Smith, John\" <c@d.test>""#;
        assert!(request.contains(quoted), "{request}");
    }

    let refused = run(&home, &service, &to("O\"Neil <c@d.test>"), "");
    assert_eq!(refused.code, 2, "{refused:?}");
    assert_eq!(service.requests(), requests);
}

#[test]
fn cancel_tells_what_became_of_each_email() {
    let home = Home::new();
    let cancelled = http_response(200, "", r#"{"id":"eml_a","status":"cancelled"}"#);
    let refused = http_response(
        409,
        "",
        r#"{"error":{"code":"not_scheduled","message":"sent"}}"#,
    );
    let missing = http_response(
        404,
        "",
        r#"{"error":{"code":"not_found","message":"no email"}}"#,
    );
    let service = Service::with_responses(&[cancelled.clone(), refused, missing]);
    let cancel = [
        "emails",
        "cancel",
        "eml_a",
        "eml_b",
        "eml_c",
        "--retries",
        "0",
    ];
    let some = run(&home, &service, &cancel, "");
    let results = |run: &Run| {
        let items = run.json();
        let items = items.as_array().expect("a list").clone();
        let each = items
            .iter()
            .map(|item| [item["id"].clone(), item["result"].clone()]);
        each.collect::<Vec<_>>()
    };

    assert_eq!(some.code, 11, "{some:?}");
    assert_eq!(
        json!(results(&some)),
        json!([
            ["eml_a", "cancelled"],
            ["eml_b", "refused"],
            ["eml_c", "not_found"]
        ])
    );
    assert_eq!(some.json()[0]["status"], "cancelled");
    assert_eq!(some.json()[1]["error"]["code"], "not_scheduled");

    // A failure that concerns all: the first result is not lost.
    let rejected = http_response(
        401,
        "",
        r#"{"error":{"code":"unauthorized","message":"no"}}"#,
    );
    let service = Service::with_responses(&[cancelled, rejected]);
    let ended = run(&home, &service, &cancel, "");
    assert_eq!((ended.code, service.requests().len()), (3, 2), "{ended:?}");
    assert_eq!(
        json!(results(&ended)),
        json!([
            ["eml_a", "cancelled"],
            ["eml_b", "failed"],
            ["eml_c", "not_tried"]
        ])
    );
}

#[test]
fn cancel_without_an_id_is_wrong_usage() {
    let home = Home::new();
    let service = Service::always(200, r#"{"id":"eml_a"}"#);
    for (args, input) in [
        (&["emails", "cancel", "-"][..], " \n"),
        (&["emails", "cancel", "-", "x"], "y"),
    ] {
        let run = run(&home, &service, args, input);
        assert_eq!(
            (run.code, &run.error()["kind"]),
            (2, &json!("usage")),
            "{run:?}"
        );
    }

    assert_eq!(service.requests(), [""; 0]);
}

#[test]
fn a_sandbox_that_is_the_only_one_to_check_limits_gets_fields_that_the_reference_lacks() {
    let runtime = Runtime::new().expect("a runtime");
    let dialect = Dialect::with(["limits=other"]).expect("a dialect");
    let builder = Server::builder().in_memory().dialect(dialect);
    let server = runtime.block_on(builder.start()).expect("it starts");
    let home = Home::new();
    let body = r#"{"from":"a@sandbox.test","to":"c@d.test","subject":"s","text":"t","ReplyTo":"x@y.test"}"#;
    for command in ["send", "batch"] {
        let args = match command {
            "send" => &["--sandbox", "emails", "send", "--body", "-"][..],
            _ => &["--sandbox", "emails", "batch", "-"],
        };
        let mut svc = home.command(args);
        svc.env("SVC_SANDBOX_URL", server.base_url());
        let run = Home::run_command_with_input(svc, body);
        assert_eq!(run.code, 0, "{command}: {run:?}");
        assert!(!run.stderr.contains("ReplyTo"), "{command}: {run:?}");
    }

    runtime.block_on(server.stop());
}
