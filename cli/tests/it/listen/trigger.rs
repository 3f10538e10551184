//! `svc trigger`.

use serde_json::{Value, json};
use webhook_verify::{Secret, Verifier};

use super::{SECRET, body, header};
use crate::support::{Home, Service};

#[test]
fn trigger_sends_every_documented_event_with_a_valid_signature() {
    let home = Home::new();
    let secret = home.file("secret", SECRET);
    let app = Service::always(200, "{}");
    let events = [
        "email.sent",
        "email.delivered",
        "email.bounced",
        "email.opened",
        "email.clicked",
        "email.complained",
        "email.failed",
        "email.received",
        "extraction.completed",
        "extraction.failed",
    ];
    for event in events {
        let args = ["trigger", event, "--to", &app.url(), "--secret-file", &secret];
        let run = home.run(&args);
        assert_eq!((run.code, run.json()["event"].as_str()), (0, Some(event)), "{run:?}");
        let request = app.requests().pop().expect("delivered");
        let envelope: Value = serde_json::from_str(body(&request)).expect("JSON");
        assert_eq!((&envelope["event"], &envelope["id"]), (&json!(event), &run.json()["id"]));
        let secret = Secret::new(SECRET).expect("a secret");
        if event.starts_with("extraction.") {
            let signature = header(&request, "x-service-signature").expect("signed");
            assert!(
                Verifier::extraction(secret).verify(signature, body(&request).to_owned()).is_ok()
            );
            assert_eq!(header(&request, "x-service-event"), Some(event));
        } else {
            let signature = header(&request, "mail-signature").expect("signed");
            assert!(Verifier::email(secret).verify(signature, body(&request).to_owned()).is_ok());
        }
    }
}

#[test]
fn trigger_sets_values_by_json_pointer() {
    let home = Home::new();
    let base = ["trigger", "extraction.completed", "--to", "http://127.0.0.1:9", "--dry-run"];
    let dry = home.run(&[&base[..], &["--set", "/data/total=99", "--set", "/id=mine"]].concat());
    assert_eq!(dry.code, 0, "{dry:?}");
    assert_eq!(dry.json()["body"]["data"]["total"], 99);
    assert_eq!(dry.json()["body"]["id"], "mine");
    let wrong = home.run(&[&base[..], &["--set", "/data/nothing=1"]].concat());
    assert_eq!(wrong.code, 2, "{wrong:?}");
    assert!(wrong.error()["message"].as_str().is_some_and(|m| m.contains("/data/nothing")));
}

#[test]
fn trigger_distinguishes_a_refusal_from_no_connection() {
    let home = Home::new();
    let app = Service::always(500, "boom");
    let trigger = |url: &str| home.run(&["trigger", "email.sent", "--to", url]);
    let refused = trigger(&app.url());
    assert_eq!((refused.code, refused.json()["status"].clone()), (10, json!(500)));
    assert_eq!(refused.error()["hint"], "response body: boom");
    let away = trigger("http://127.0.0.1:9");
    assert_eq!((away.code, away.stdout.as_str()), (8, ""), "{away:?}");
}
