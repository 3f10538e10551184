//! Exit codes and error objects of failures, beside those that the table of `runs` has of every command.

use std::io::{Read, Write};

use serde_json::{Value, json};

use crate::support::{Home, Service, http_response, with_longer_timeouts};

const KEY: (&str, &str) = ("SVC_EMAIL_KEY", "mk_test_0123456789");
const SEND: [&str; 10] = [
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

fn run(service: &Service, args: &[&str]) -> crate::support::Run {
    Home::new().run_with_env(args, &[KEY, ("SVC_EMAIL_URL", &service.url())])
}

#[test]
fn each_status_has_its_exit_code() {
    let error = |code: &str| format!(r#"{{"error":{{"code":"{code}","message":"said so"}}}}"#);
    for (status, body, code, kind) in [
        (400, error("invalid_json"), 6, "refused"),
        (401, error("unauthorized"), 3, "unauthenticated"),
        (402, error("payment_required"), 1, "other"),
        (403, error("insufficient_scope"), 4, "missing_scope"),
        (403, error("domain_not_verified"), 6, "refused"),
        (404, error("not_found"), 5, "not_found"),
        (408, error("request_timeout"), 8, "unavailable"),
        (409, error("conflict"), 6, "refused"),
        (413, error("payload_too_large"), 6, "refused"),
        (415, error("unsupported_media_type"), 6, "refused"),
        (422, error("validation_failed"), 6, "refused"),
    ] {
        let service = Service::always(status, &body);
        let run = run(&service, &["emails", "get", "eml_1", "--retries", "0"]);
        assert_eq!(
            (run.code, run.stdout.as_str()),
            (code, ""),
            "{status}: {run:?}"
        );
        let error = run.error();
        assert_eq!(error["kind"], kind, "{error}");
        assert_eq!(error["status"], status, "{error}");
        assert_eq!(error["operation"], "email emails.get");
        assert_eq!(error["request_id"], "req_1");
        let message = error["message"].as_str().unwrap_or_default();
        let said = match status {
            404 => "no email with ID `eml_1`",
            _ => "said so",
        };
        assert!(message.contains(said), "{error}");
    }
}

/// Which thing a refusal is about, whatever its status is.
#[test]
fn a_hint_blames_what_the_text_is_about() {
    let hint = |status: u16, message: &str, args: &[&str]| {
        let service = Service::always(status, &format!(r#"{{"message":"{message}"}}"#));
        let run = run(&service, args);
        let error = run.error();
        let hint = error["hint"].as_str().unwrap_or_default().to_owned();
        (run.code, hint)
    };

    let delete = ["domains", "delete", "dom_1", "--yes"];
    let (code, of_thing) = hint(404, "domain not found", &delete);
    assert_eq!(code, 5);
    assert!(!of_thing.contains("base URL"), "{of_thing}");

    for of_path in ["Not Found", "no route for DELETE /api/v1/domains/dom_1"] {
        let (code, hint) = hint(404, of_path, &delete);
        assert!(code == 5 && hint.contains("base URL"), "{of_path}: {hint}");
    }

    let sender = "sender domain b.test is not verified";
    for status in [200, 401, 403] {
        let body = match status {
            200 => format!(r#"{{"code":230013,"msg":"{sender}"}}"#),
            _ => format!(r#"{{"message":"{sender}"}}"#),
        };
        let run = run(&Service::always(status, &body), &SEND);
        let error = run.error();
        let message = error["message"].as_str().unwrap_or_default();
        assert!(run.code == 6 && message.contains(sender), "{run:?}");
        let hint = error["hint"].as_str().unwrap_or_default();
        assert!(!hint.contains("key") && !hint.contains("scope"), "{hint}");
        assert!(hint.contains("svc domains verify b.test"), "{hint}");
    }
}

#[test]
fn the_path_of_a_base_url_may_be_wrong() {
    let service = Service::always(404, r#"{"error":{"code":"not_found","message":"no"}}"#);
    let url = format!("{}/base", service.url());
    for args in [&["emails", "get", "eml_1"][..], &["audiences", "list"]] {
        let run = Home::new().run_with_env(args, &[KEY, ("SVC_EMAIL_URL", &url)]);
        let hint = run.error()["hint"].as_str().unwrap_or_default().to_owned();
        assert!(
            run.code == 5 && hint.contains("the path of the base URL, /base"),
            "{run:?}"
        );
    }
}

#[test]
fn api_shows_a_response_that_is_an_error() {
    let body = r#"{"error":{"code":"not_found","message":"no"}}"#;
    let service = Service::always(404, body);
    let run = run(&service, &["api", "-i", "GET", "/x"]);
    assert!(run.stdout.starts_with("HTTP 404 Not Found\n"), "{run:?}");
    assert!(run.stdout.ends_with(&format!("\n\n{body}")), "{run:?}");
    assert_eq!(
        (run.code, &run.error()["status"]),
        (5, &json!(404)),
        "{run:?}"
    );
}

#[test]
fn a_rate_limit_reports_the_wait() {
    let service = Service::with_responses(&[http_response(429, "retry-after: 90\r\n", "{}")]);
    let run = run(&service, &[&SEND[..], &["--retries", "0"]].concat());
    assert_eq!(run.code, 7, "{run:?}");
    let error = run.error();
    assert_eq!(error["retry_after"], 90);
    assert_eq!(error["retryable"], true);
    assert_eq!(service.requests().len(), 1);
}

#[test]
fn a_server_error_after_a_send_is_an_unknown_outcome_without_retry() {
    for responses in [http_response(503, "", "{}"), String::new()] {
        let service = Service::with_responses(&[responses]);
        let run = run(&service, &SEND);
        assert_eq!(run.code, 9, "{run:?}");
        let error = run.error();
        assert_eq!(error["kind"], "outcome_unknown");
        assert_eq!(error["outcome"], "unknown");
        assert_eq!(error["retryable"], false);
        assert!(
            error["hint"]
                .as_str()
                .is_some_and(|hint| hint.contains("before sending again")),
            "{error}"
        );
        assert_eq!(service.requests().len(), 1, "sent twice");
    }
}

#[test]
fn a_read_is_retried_and_then_unavailable() {
    let service = Service::always(503, "{}");
    let run = run(&service, &["emails", "get", "eml_1", "--retries", "1"]);
    assert_eq!(run.code, 8, "{run:?}");
    assert_eq!(run.error()["attempts"], 2);
    assert_eq!(service.requests().len(), 2);
}

#[test]
fn table_output_shows_errors_in_at_most_five_lines() {
    let body = r#"{"error":{"code":"domain_not_verified","message":"not verified"}}"#;
    let service = Service::always(403, body);
    let run = run(&service, &[&["-o", "table"], &SEND[..]].concat());
    assert_eq!(run.code, 6);
    assert!(
        run.stderr
            .starts_with("error: the service refused the request: not verified (HTTP 403)\n"),
        "{run:?}"
    );
    assert!(run.stderr.contains("svc domains create"), "{run:?}");
    assert!(run.stderr.contains("svc domains verify"), "{run:?}");
    assert!(run.stderr.lines().count() <= 5, "{run:?}");
    assert!(
        !run.stderr.contains('\u{1b}'),
        "colours without a terminal: {run:?}"
    );
}

/// One that exceeds a limit keeps none of the others from being sent; one that cannot be read does.
#[test]
fn a_bad_row_of_a_batch_is_refused_and_the_others_are_sent() {
    let body = r#"[{"id":"eml_1","status":"queued"},{"id":"eml_2","status":"queued"}]"#;
    let service = Service::always(200, body);
    let home = Home::new();
    let rows = [
        r#"{"from":"a@b.test","to":"first@d.test","subject":"s","text":"t"}"#,
        r#"{"from":"a@b.test","to":"private","subject":"s","text":"t"}"#,
        r#"{"from":"a@b.test","to":"third@d.test","subject":"s","text":"t"}"#,
        r#"{"from":"a@b.test","to":"x@d.test","subject":["private"],"text":"t"}"#,
    ];
    let env = [KEY, ("SVC_EMAIL_URL", &*service.url())];
    let file = home.file("unreadable.ndjson", rows.join("\n"));
    let run = home.run_with_env(&["emails", "batch", &file], &env);
    assert_eq!((run.code, service.requests().len()), (2, 0), "{run:?}");
    assert_eq!(
        run.error()["fields"][0]["field"],
        "emails[3].subject",
        "{run:?}"
    );
    assert!(!run.stderr.contains("private"), "{run:?}");

    let file = home.file("emails.ndjson", rows[..3].join("\n"));
    let run = home.run_with_env(&["emails", "batch", &file], &env);
    assert_eq!(run.code, 11, "{run:?}");

    let items = run.json();
    let at = |index: usize, pointer: &str| items[index].pointer(pointer).cloned();
    for (index, result) in ["accepted", "refused", "accepted"].into_iter().enumerate() {
        assert_eq!(at(index, "/index"), Some(index.into()));
        assert_eq!(at(index, "/result"), Some(result.into()));
    }

    assert_eq!(at(2, "/id"), Some("eml_2".into()));
    assert_eq!(at(1, "/error/code"), Some("invalid_input".into()));
    assert!(
        at(1, "/error/message").is_some_and(|it| it.to_string().contains("to[0]")),
        "{run:?}"
    );
    assert!(
        !format!("{}{}", run.stdout, run.stderr).contains("private"),
        "{run:?}"
    );
    assert!(
        run.error()["message"]
            .as_str()
            .expect("text")
            .starts_with("1 of 3 emails"),
        "{run:?}"
    );

    // None is accepted.
    let body = r#"[{"error":{"code":"x","message":"no"}}]"#;
    let service = Service::always(200, body);
    let env = [KEY, ("SVC_EMAIL_URL", &*service.url())];
    let file = home.file("refused.ndjson", rows[0]);
    let run = home.run_with_env(&["emails", "batch", &file], &env);
    assert_eq!(run.code, 11, "{run:?}");
    assert!(
        run.error()["hint"]
            .as_str()
            .is_some_and(|h| h.starts_with("none was acc")),
        "{run:?}"
    );

    // Nothing is left to send.
    let file = home.file("bad.ndjson", format!("{}\n{}", rows[1], rows[1]));
    let run = home.run_with_env(&["emails", "batch", &file], &env);
    assert_eq!(run.code, 2, "{run:?}");
    assert_eq!(
        run.error()["fields"][1]["field"],
        "emails[1].to[0]",
        "{run:?}"
    );
}

#[test]
fn the_recipient_guard_names_positions_in_the_file() {
    let email = r#"{"from":"a@b.test","to":"c@d.test","subject":"s","text":"t"}"#;
    let home = Home::new();
    let file = home.file(
        "emails.ndjson",
        format!("{}\n{email}\n", email.replace("c@d.test", "c")),
    );
    let env = [
        KEY,
        ("SVC_EMAIL_URL", "http://127.0.0.1:9"),
        ("SVC_ALLOW_RECIPIENTS", "x@y.test"),
    ];
    let run = home.run_with_env(&["emails", "batch", &file], &env);
    assert_eq!(
        (run.code, &run.error()["fields"][0]["field"]),
        (2, &"emails[1].to[0]".into())
    );
}

#[test]
fn an_incomplete_batch_response_is_an_unknown_outcome() {
    let home = Home::new();
    let email = r#"{"from":"a@b.test","to":"c@d.test","subject":"s","text":"t"}"#;
    let file = home.file("emails.ndjson", format!("{email}\n{email}\n"));
    for body in [
        r#"[{"id":"eml_1","status":"queued"}]"#,
        r#"[{"index":0,"id":"eml_1"},{"index":0,"id":"eml_2"}]"#,
    ] {
        let service = Service::always(200, body);
        let env = [KEY, ("SVC_EMAIL_URL", &service.url())];
        let run = home.run_with_env(&["emails", "batch", &file], &env);
        assert_eq!(
            (run.code, &run.error()["code"]),
            (9, &"batch_incomplete".into()),
            "{run:?}"
        );
    }

    // A refused email beside it must not read as if all others were accepted.
    let service = Service::always(200, r#"[{"id":"eml_1"},{}]"#);
    let bad = email.replace("c@d.test", "no address");
    let file = home.file("emails.ndjson", format!("{email}\n{bad}\n{email}\n"));
    let run = home.run_with_env(
        &["emails", "batch", &file],
        &[KEY, ("SVC_EMAIL_URL", &service.url())],
    );
    assert_eq!(
        (run.code, &run.error()["code"]),
        (9, &"batch_incomplete".into()),
        "{run:?}"
    );
}

#[test]
fn a_test_delivery_without_2xx_is_a_failed_check() {
    // The status has one name, whatever the service calls it.
    for (body, code, status) in [
        (r#"{"statusCode":204}"#, 0, Value::from(204)),
        (r#"{"responseStatus":500}"#, 10, Value::from(500)),
        (r#"{"statusCode":null,"error":"refused"}"#, 10, Value::Null),
    ] {
        let service = Service::always(200, body);
        let run = run(
            &service,
            &[
                "webhooks",
                "test",
                "whk_019a0b1c-0000-7000-8000-000000000001",
            ],
        );
        assert_eq!(run.code, code, "{run:?}");
        let mut expected: Value = serde_json::from_str(body).expect("JSON");
        expected["statusCode"] = status;
        assert_eq!(run.json(), expected);
    }
}

#[test]
fn a_time_out_after_a_send_is_unknown_and_after_a_read_is_not() {
    // Accepts connections and never responds.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        listener
            .incoming()
            .filter_map(Result::ok)
            .collect::<Vec<_>>()
    });
    for (line, code) in [(&SEND[..], 9), (&["emails", "get", "eml_1"], 8)] {
        let run = with_longer_timeouts(|timeout| {
            let args = [line, &["--timeout", timeout, "--retries", "0"]].concat();
            let run = Home::new().run_with_env(&args, &[KEY, ("SVC_EMAIL_URL", &url)]);
            // Under load, the timeout can expire before the request is sent.
            (run.error()["outcome"] != "not_sent").then_some(run)
        });
        assert_eq!((run.code, run.stdout.as_str()), (code, ""), "{run:?}");
        assert_eq!(run.error()["outcome"], "unknown");
    }
}

/// A service that refuses an upload as soon as it has the head, and ends the connection while the
/// rest is being sent. Like nginx, it reads on until the client stops: unread data would make the
/// system reset the connection, and a reset can overtake the response.
#[test]
fn an_upload_that_is_refused_while_it_is_sent_reports_the_refusal() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            std::thread::spawn(move || {
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") {
                    stream.read_exact(&mut byte).expect("a head");
                    head.push(byte[0]);
                }
                let body = r#"{"error":{"code":"payload_too_large","message":"too large",
                    "details":{"limit":1048576}}}"#;
                stream
                    .write_all(http_response(413, "", body).as_bytes())
                    .expect("written");
                stream.shutdown(std::net::Shutdown::Write).expect("ended");
                let _ = std::io::copy(&mut stream, &mut std::io::sink());
            });
        }
    });
    let home = Home::new();
    let large = home.file("large.bin", "x".repeat(8 << 20));
    for _ in 0..3 {
        let args = [&SEND[..], &["--attach", &large, "--retries", "0"]].concat();
        let run = home.run_with_env(&args, &[KEY, ("SVC_EMAIL_URL", &url)]);
        assert_eq!(run.code, 6, "{run:?}");
        let text = "the request is larger than the service accepts: too large";
        assert_eq!(run.error()["message"], text, "{run:?}");
        assert_eq!(run.error()["outcome"], "refused");
    }
}

#[test]
fn an_invalid_response_to_a_send_is_an_unknown_outcome() {
    let service = Service::always(200, "<html>not what it should be");
    assert_eq!(run(&service, &SEND).code, 9);
    assert_eq!(run(&service, &["audiences", "list"]).code, 1);
}

#[test]
fn a_success_response_without_an_email_is_printed_and_unknown() {
    for body in ["[]", "\"queued\"", "null", "7"] {
        let service = Service::always(200, body);
        let run = run(&service, &SEND);
        assert_eq!(run.code, 9, "{body}: {run:?}");
        assert_eq!(
            run.json(),
            serde_json::from_str::<Value>(body).expect("JSON")
        );
        assert_eq!(run.error()["code"], "response_not_understood");
        assert_eq!(service.requests().len(), 1, "sent twice");
    }

    let service = Service::always(200, r#"{"error":{"code":"x","message":"no"}}"#);
    let failed = run(&service, &SEND);
    let actual = (failed.code, &failed.error()["code"]);
    assert_eq!(actual, (6, &"x".into()), "{failed:?}");
    assert_eq!(failed.error()["outcome"], "refused", "{failed:?}");

    // Without its id, an email cannot be tracked, and another send may deliver it twice.
    for body in [
        "",
        "{}",
        r#"{"message":"accepted"}"#,
        r#"{"id":null,"error":null}"#,
    ] {
        let service = Service::always(202, body);
        let run = run(&service, &SEND);
        assert_eq!(
            (run.code, &run.error()["code"]),
            (9, &"response_not_understood".into())
        );
        assert!(run.stderr.contains("probably accepted"), "{body}: {run:?}");
        let response = serde_json::from_str::<Value>(body).ok();
        assert_eq!(
            serde_json::from_str(&run.stdout).ok(),
            response,
            "the response: {run:?}"
        );
    }

    let unknown = run(&Service::always(200, "[1]"), &["audiences", "get", "x"]);
    assert!(
        unknown.stderr.contains("does not contain an audience"),
        "{unknown:?}"
    );
    assert_eq!((unknown.code, unknown.stdout.as_str()), (1, ""));
}

#[test]
fn an_invalid_response_is_shown_only_by_twice_verbose() {
    let service = Service::always(200, "<html>a captive\nportal\u{1b}[2J");
    let quiet = run(&service, &SEND);
    assert_eq!(
        (quiet.code, quiet.stderr.contains("captive")),
        (9, false),
        "{quiet:?}"
    );

    let verbose = run(&service, &[&SEND[..], &["-vv"]].concat());
    assert!(
        verbose
            .stderr
            .contains("< <html>a captive\n< portal\\u{1b}[2J\n"),
        "{verbose:?}"
    );

    // A truncated response of the service may contain a secret.
    let cut = Service::always(201, r#"{"id":"whk_1","signingSecret":"whsec_hidden"#);
    let create = [
        "-vv",
        "webhooks",
        "create",
        "https://a.test/h",
        "--event",
        "email.sent",
    ];
    let run = run(&cut, &create);
    assert_eq!(run.code, 9, "{run:?}");
    assert!(!run.stderr.contains("hidden"), "{run:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_write_error_does_not_hide_that_the_request_succeeded() {
    let service = Service::always(201, r#"{"id":"eml_1","status":"queued"}"#);
    let home = Home::new();
    let full = |args: &[&str]| {
        let full = std::fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .expect("opened");
        let mut command = home.command(args);
        command
            .envs([KEY, ("SVC_EMAIL_URL", &service.url())])
            .stdout(full);
        crate::support::Run::of(command.output().expect("svc runs"))
    };

    let run = full(&SEND);
    assert_eq!(
        (run.code, &run.error()["code"]),
        (1, &"output_failed".into()),
        "{run:?}"
    );
    assert_eq!(
        run.error()["hint"],
        "the email was accepted as eml_1: do not send it again"
    );

    let run = full(&["audiences", "create", "Ada"]);
    let done = "the service processed the request; only its response could not be written";
    assert_eq!(
        (run.code, &run.error()["hint"]),
        (1, &done.into()),
        "{run:?}"
    );

    let run = full(&["emails", "get", "eml_1"]);
    assert_eq!((run.code, run.error().get("hint")), (1, None), "{run:?}");
}

#[test]
fn a_redirect_is_not_followed() {
    let elsewhere = Service::always(200, "[]");
    let location = format!("location: {}/api/v1/audiences\r\n", elsewhere.url());
    let service = Service::with_responses(&[http_response(302, &location, "")]);
    let run = run(&service, &["audiences", "list"]);
    assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{run:?}");
    assert!(elsewhere.requests().is_empty(), "the redirect was followed");
}

#[test]
fn ids_cannot_change_the_request_path() {
    let service = Service::always(200, "{}");
    for id in ["..", ".", ""] {
        let run = run(&service, &["emails", "get", id]);
        assert_eq!(run.code, 2, "{id:?}: {run:?}");
    }

    assert!(service.requests().is_empty());

    run(&service, &["emails", "get", "../api-keys?x#y"]);
    assert!(
        service.requests()[0].starts_with("GET /api/v1/emails/..%2Fapi-keys%3Fx%23y HTTP/1.1\r\n")
    );
}
