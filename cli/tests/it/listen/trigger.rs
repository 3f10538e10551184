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
        let args = [
            "trigger",
            event,
            "--to",
            &app.url(),
            "--secret-file",
            &secret,
        ];
        let run = home.run(&args);
        assert_eq!(
            (run.code, run.json()["event"].as_str()),
            (0, Some(event)),
            "{run:?}"
        );
        let request = app.requests().pop().expect("delivered");
        let envelope: Value = serde_json::from_str(body(&request)).expect("JSON");
        assert_eq!(
            (&envelope["event"], &envelope["id"]),
            (&json!(event), &run.json()["id"])
        );
        let secret = Secret::new(SECRET).expect("a secret");
        if event.starts_with("extraction.") {
            let signature = header(&request, "x-service-signature").expect("signed");
            assert!(
                Verifier::extraction(secret)
                    .verify(signature, body(&request).to_owned())
                    .is_ok()
            );
            assert_eq!(header(&request, "x-service-event"), Some(event));
        } else {
            let signature = header(&request, "mail-signature").expect("signed");
            assert!(
                Verifier::email(secret)
                    .verify(signature, body(&request).to_owned())
                    .is_ok()
            );
        }
    }
}

#[test]
fn trigger_sets_values_by_json_pointer() {
    let home = Home::new();
    let base = [
        "trigger",
        "extraction.completed",
        "--to",
        "http://127.0.0.1:9",
        "--dry-run",
    ];
    let dry = home.run(&[&base[..], &["--set", "/data/total=99", "--set", "/id=mine"]].concat());
    assert_eq!(dry.code, 0, "{dry:?}");
    assert_eq!(dry.json()["body"]["data"]["total"], 99);
    assert_eq!(dry.json()["body"]["id"], "mine");

    let wrong = home.run(&[&base[..], &["--set", "/data/nothing=1"]].concat());
    assert_eq!(wrong.code, 2, "{wrong:?}");
    assert!(
        wrong.error()["message"]
            .as_str()
            .is_some_and(|m| m.contains("/data/nothing"))
    );
}

#[test]
fn trigger_distinguishes_a_refusal_from_no_connection() {
    let home = Home::new();
    let app = Service::always(500, "boom");
    let trigger = |url: &str| home.run(&["trigger", "email.sent", "--to", url]);
    let refused = trigger(&app.url());
    assert_eq!(
        (refused.code, refused.json()["status"].clone()),
        (10, json!(500))
    );
    assert_eq!(refused.error()["hint"], "response body: boom");

    let away = trigger("http://127.0.0.1:9");
    assert_eq!((away.code, away.stdout.as_str()), (8, ""), "{away:?}");
}

/// The email id of a delivery is that of an email.
#[test]
fn in_the_sandbox_the_event_happens() {
    let home = Home::new();
    let hook = Service::always(200, "");
    let unheard = home.run(&["--sandbox", "trigger", "email.opened"]);
    assert_eq!(unheard.code, 0, "{unheard:?}");
    assert!(
        unheard
            .stderr
            .contains("no webhook is subscribed to email.opened"),
        "{unheard:?}"
    );

    // A key that cannot list webhooks is enough.
    let scope = [
        "keys",
        "create",
        "--service",
        "email",
        "--scope",
        "emails:send",
    ];
    let key = home.sandbox_json(&[&["sandbox"], &scope[..]].concat());
    let key = [("SVC_EMAIL_KEY", key["key"].as_str().expect("a key"))];
    let sent = home.run_with_env(&["--sandbox", "trigger", "email.bounced"], &key);
    assert_eq!(sent.code, 0, "{sent:?}");

    let subscribe = [
        "webhooks",
        "create",
        &hook.url(),
        "--event",
        "email.bounced",
    ];
    home.sandbox_json(&[&subscribe[..], &["--event", "email.opened"]].concat());
    for (event, status) in [
        ("email.sent", "delivered"),
        ("email.delivered", "delivered"),
        ("email.bounced", "bounced"),
        ("email.opened", "delivered"),
        ("email.clicked", "delivered"),
        ("email.complained", "complained"),
        ("email.failed", "failed"),
    ] {
        let made = home.sandbox_json(&["trigger", event]);
        let id = made["email_id"].as_str().expect("an id");
        assert_eq!(
            home.sandbox_json(&["emails", "get", id])["status"],
            status,
            "{event}"
        );
        let story = home.run(&["sandbox", "emails", "story", id]).stdout;
        assert!(story.contains(event), "{event}: {story}");
    }

    let delivered = hook.requests();
    let events = delivered.iter().map(|request| {
        let body: Value = serde_json::from_str(body(request)).expect("JSON");
        body["event"].clone()
    });
    assert_eq!(
        events.collect::<Vec<_>>(),
        ["email.bounced", "email.opened"]
    );

    home.sandbox_json(&["trigger", "extraction.completed"]);
    home.sandbox_json(&["trigger", "email.received"]);
    let received = home
        .run(&["sandbox", "messages", "list", "--to", "hello@sandbox.test"])
        .json();
    assert_eq!(received[0]["subject"], "Hello");
}

#[test]
fn in_the_sandbox_the_delivery_to_an_application_is_about_a_real_email() {
    let home = Home::new();
    let app = Service::always(200, "");
    let set = [
        "--set",
        "/data/recipient=eve@example.test",
        "--set",
        "/data/subject=Now",
    ];
    let trigger = ["trigger", "email.bounced", "--to", &app.url()];
    let made = home.sandbox_json(&[&trigger[..], &set].concat());
    let delivered: Value = serde_json::from_str(body(&app.requests()[0])).expect("JSON");
    assert_eq!(delivered["data"]["emailId"], made["email_id"]);

    let email = home.sandbox_json(&["emails", "get", made["email_id"].as_str().expect("an id")]);
    assert_eq!(
        (&email["status"], &email["subject"]),
        (&json!("bounced"), &json!("Now"))
    );
    assert_eq!(email["to"], json!(["eve@example.test"]));
}

#[test]
fn a_payload_is_delivered_as_it_is() {
    let home = Home::new();
    let app = Service::always(200, "");
    let payload = r#"{"event":"email.sent","id":"mine","data":{"emailId":"eml_1"}}"#;
    let trigger = [
        "trigger",
        "email.sent",
        "--to",
        &app.url(),
        "--payload",
        payload,
    ];
    for sandbox in [&[][..], &["--sandbox"]] {
        let run = home.run(&[sandbox, &trigger, &["--set", "/data/emailId=eml_2"]].concat());
        assert_eq!(
            (run.code, &run.json()["email_id"]),
            (0, &json!("eml_2")),
            "{run:?}"
        );
        let request = app.requests().pop().expect("a delivery");
        assert_eq!(body(&request), payload.replace("eml_1", "eml_2"));
        assert_eq!(header(&request, "mail-delivery-id"), Some("mine"));
    }

    assert_eq!(home.run(&["sandbox", "emails", "list"]).json(), json!([]));

    let wrong = home.run(&[
        "trigger",
        "email.sent",
        "--to",
        &app.url(),
        "--payload",
        "{",
    ]);
    assert!(
        wrong.code == 2 && wrong.stderr.contains("--payload: "),
        "{wrong:?}"
    );

    let nowhere = home.run(&["trigger", "email.sent"]);
    assert!(
        nowhere.code == 2 && nowhere.stderr.contains("--to is missing"),
        "{nowhere:?}"
    );
}
