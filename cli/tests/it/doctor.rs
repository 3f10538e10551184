//! `svc doctor`: every finding with a next step.

use serde_json::Value;

use crate::support::{Home, Run, Service, answer};

fn finding(run: &Run, check: &str) -> Value {
    let all = run.json();
    let found = all.as_array().expect("a list").iter().find(|f| f["check"] == check).cloned();
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
fn with_nothing_set_up_it_says_how_to_begin() {
    let run = Home::new().run(&["doctor"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(finding(&run, "email service")["next"], "svc login --service email");
}

#[test]
fn problems_are_found_and_named() {
    let home = Home::new();
    let date = "date: Mon, 01 Jan 2024 00:00:00 GMT\r\n";
    let service = Service::answering(&[
        answer(200, date, "[]"),
        answer(200, "", "[]"),
        answer(403, "", r#"{"error":{"code":"insufficient_scope","message":"no"}}"#),
        answer(200, "", "[]"),
        answer(
            200,
            "",
            r#"[{"id":"whk_1","url":"http://127.0.0.1:9/x","events":[],"active":true}]"#,
        ),
    ]);
    let url = service.url();
    let run =
        home.run_with(&["doctor"], &[("SVC_EMAIL_URL", &url), ("SVC_EMAIL_KEY", "mk_live_x")]);
    assert_eq!(run.code, 0, "warnings are no problems: {run:?}");
    assert!(
        finding(&run, "email clock")["finding"].as_str().is_some_and(|f| f.contains("ahead of"))
    );
    assert_eq!(finding(&run, "scope emails:read")["status"], "warning");
    assert_eq!(finding(&run, "sending domains")["status"], "warning");
    assert_eq!(finding(&run, "webhook whk_1")["status"], "warning");
    assert!(
        service.requests().iter().all(|request| request.starts_with("GET ")),
        "it changes nothing"
    );

    let refused = Service::one(401, "{}");
    let url = refused.url();
    let run =
        home.run_with(&["doctor"], &[("SVC_EMAIL_URL", &url), ("SVC_EMAIL_KEY", "mk_live_x")]);
    assert_eq!((run.code, run.error()["code"].clone()), (10, "problems_found".into()), "{run:?}");
    assert_eq!(finding(&run, "email key")["next"], "svc login --service email");

    let env = [("SVC_EMAIL_URL", "http://127.0.0.1:9"), ("SVC_EMAIL_KEY", "mk_live_x")];
    let down = home.run_with(&["doctor"], &env);
    assert_eq!(down.code, 10);
    assert_eq!(finding(&down, "email service")["status"], "problem");
}
