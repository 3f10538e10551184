//! What a service responds is never a command, a line of output, or a place for the key.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Home, Run, Service, http_response};

/// An id that would run a command if it were pasted without quotes, and that forges a line.
const ID: &str =
    "eml_1; touch pwned #\nFORGED: all is well\n$(touch pwned) `touch pwned` '\"\\ \u{202e}";

fn run(home: &Home, service: &Service, args: &[&str]) -> Run {
    let url = service.url();
    let env = [
        ("SVC_EMAIL_URL", url.as_str()),
        ("SVC_EMAIL_KEY", "mk_test_abcdef123"),
        ("SVC_EXTRACTION_URL", url.as_str()),
        ("SVC_EXTRACTION_KEY", "sk_test_abcdef123"),
    ];
    home.run_with_env(args, &env)
}

/// Runs the suggested commands as a person would who pastes them, with an `svc` that does nothing.
fn paste(home: &Home, text: &str) -> usize {
    let mut pasted = 0;
    for line in text.lines() {
        let Some((_, command)) = line.split_once("svc ") else {
            continue;
        };
        pasted += 1;
        let script = format!("svc() {{ :; }}\nsvc {command}\n");
        let ran = Command::new("bash")
            .args(["-c", &script])
            .current_dir(home.path("."))
            .output();
        if ran.is_ok() {
            assert!(!home.path("pwned").exists(), "{line}");
        }
    }
    pasted
}

#[test]
fn what_a_service_responds_is_one_quoted_word_of_a_hint() {
    let email = |status: &str| json!({"id": ID, "status": status, "to": [ID], "subject": ID});
    let record = json!({"kind": "mx", "type": "MX", "name": ID, "value": ID});
    let domain = json!({"id": ID, "name": ID, "verified": false, "mx_verified": false,
        "records": [record], "dns_records": [record]});
    let webhook =
        json!({"id": ID, "url": ID, "events": [ID], "active": false, "signingSecret": ID});
    let error =
        json!({"error": {"code": ID, "message": ID, "fields": [{"field": ID, "message": ID}]}});
    let send = [
        "emails",
        "send",
        "--from",
        "a@b.test",
        "--to",
        "c@d.test",
        "--subject",
        "s",
        "--text",
        "t",
    ];
    let with = |more: &[&'static str]| [&send[..], more].concat();
    let cases: [(Vec<&str>, u16, Value); 16] = [
        (with(&[]), 202, email("queued")),
        (
            with(&["--wait", "--timeout", "300ms"]),
            202,
            email("queued"),
        ),
        (with(&[]), 500, error.clone()),
        (with(&[]), 403, error.clone()),
        (
            vec!["emails", "get", ID, "--wait", "--timeout", "300ms"],
            200,
            email("queued"),
        ),
        (vec!["emails", "get", ID], 404, error.clone()),
        (vec!["emails", "cancel", ID], 409, error.clone()),
        (vec!["domains", "create", "shop.test"], 201, domain.clone()),
        (vec!["domains", "create", "shop.test"], 409, error.clone()),
        (vec!["domains", "verify", "dom_1"], 200, domain.clone()),
        (vec!["domains", "list"], 200, json!([domain])),
        (
            vec![
                "webhooks",
                "create",
                "http://localhost:1/x",
                "--event",
                "email.sent",
            ],
            201,
            webhook.clone(),
        ),
        (vec!["webhooks", "list"], 200, json!([webhook])),
        (
            vec!["webhooks", "delete", "wh_1", "--yes"],
            404,
            error.clone(),
        ),
        (vec!["audiences", "create", ID], 409, error),
        (vec!["doctor"], 200, json!([domain])),
    ];
    let mut pasted = 0;
    for (args, status, body) in cases {
        let service = Service::always(status, &body.to_string());
        for format in ["table", "json"] {
            let home = Home::new();
            let run = run(
                &home,
                &service,
                &[&args[..], &["-o", format, "--retries", "0"]].concat(),
            );
            for line in run.stderr.lines().chain(run.stdout.lines()) {
                assert!(
                    !line.trim_start().starts_with("FORGED"),
                    "{args:?}: {run:?}"
                );
            }
            let text = match serde_json::from_str::<Value>(
                run.stderr.lines().last().unwrap_or_default(),
            ) {
                Ok(error) => error["error"]["hint"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned(),
                Err(_) => run.stderr.clone(),
            };
            pasted += paste(&home, &text);
        }
    }
    assert!(pasted > 12, "only {pasted} commands were suggested");
}

#[test]
fn the_key_of_the_run_is_masked_wherever_a_service_repeats_it() {
    let key = "a-key/of\"another\"form-0123";
    let body = json!({"id": "eml_1", "status": "sent", "note": key, "list": [format!("x{key}y")]});
    let headers = format!("content-type: application/json\r\nx-echo: {key}\r\n");
    let long = json!({"error": {"message": format!("{} {key}", "x".repeat(4080)), "code": key}});
    for (status, body) in [
        (200, body.to_string()),
        (400, long.to_string()),
        (400, key.to_owned()),
    ] {
        let service = Service::with_responses(&[http_response(status, &headers, &body)]);
        let home = Home::new();
        let url = service.url();
        let env = [("SVC_EMAIL_URL", url.as_str()), ("SVC_EMAIL_KEY", key)];
        for format in ["json", "table"] {
            let run = home.run_with_env(
                &[
                    "emails",
                    "get",
                    "eml_1",
                    "-vv",
                    "-o",
                    format,
                    "--retries",
                    "0",
                ],
                &env,
            );
            assert!(!run.stderr.contains("form-0123"), "{run:?}");
            assert!(!run.stderr.is_empty());
        }
    }
}
