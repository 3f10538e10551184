//! `svc replay`, and the records that it reads.

use serde_json::{Value, json};
use webhook_verify::{Secret, Verifier};

use super::{BODY, RunningListen, SECRET, body, header, sign};
use crate::support::{Home, Service, http_response};

#[test]
fn recorded_deliveries_are_replayed_with_a_new_signature() {
    let home = Home::new();
    // Secret files may end in a line end of any platform.
    let secret = home.file("secret", format!("{SECRET}\r\n"));
    let app = Service::always(200, "{}");
    let args = [
        "listen",
        "--secret-file",
        &secret,
        "--forward-to",
        &app.url(),
    ];
    let mut listening = RunningListen::start(&home, &args);
    listening.post(Some(&sign(BODY)), BODY);
    let id = listening.next()["id"].as_str().expect("an id").to_owned();
    drop(listening);

    let run = home.run(&["replay", &id]);
    assert_eq!(
        (run.code, run.json()[0]["status"].clone()),
        (0, json!(200)),
        "{run:?}"
    );

    let new = home.file("new", "whsec_new");
    let run = home.run(&[
        "replay",
        "--since",
        "1h",
        "--secret-file",
        &new,
        "--to",
        &app.url(),
    ]);
    assert_eq!(run.code, 0, "{run:?}");

    let requests = app.requests();
    assert_eq!(requests.len(), 3);

    for (request, secret) in requests.iter().zip([SECRET, SECRET, "whsec_new"]) {
        assert_eq!(body(request), BODY);
        let signature = header(request, "mail-signature").expect("signed");
        let verifier = Verifier::email(Secret::new(secret).expect("a secret"));
        assert!(
            verifier.verify(signature, body(request).to_owned()).is_ok(),
            "{secret}"
        );
    }

    assert_eq!(home.run(&["replay", "rec_0"]).code, 5);

    let listed = home.run(&["replay", "--list"]).json();
    let listed = listed.as_array().expect("a list");
    assert!(
        listed.len() == 1 && listed[0]["id"] == json!(id),
        "{listed:?}"
    );

    let shown = home.run(&["replay", &id, "--dry-run"]).json();
    assert_eq!(
        shown[0]["body"],
        serde_json::from_str::<Value>(BODY).expect("JSON")
    );
    assert!(shown[0]["headers"].to_string().contains("ail-"), "{shown}");

    let run = home.run(&["replay", "--since", "1h"]);
    assert_eq!(
        (run.code, &run.json()[0]["status"]),
        (0, &json!(200)),
        "{run:?}"
    );
}

#[test]
fn records_are_listed_and_a_corrupt_one_is_named() {
    let home = Home::new();
    let record = |id: &str, at: &str| {
        json!({"id": id, "received_at": at, "service": "email", "event": "email.sent",
            "headers": [["Mail-Event", "email.sent"]], "body": "eyJhIjogMX0=",
            "forwarded_to": null, "secret_file": null})
    };

    for (id, at) in [
        ("rec_1", "2020-01-04T09:00:00.000Z"),
        ("rec_2", "2020-01-05T09:00:00.000Z"),
    ] {
        home.file(
            &format!("data/svc/deliveries/{id}.json"),
            record(id, at).to_string(),
        );
    }

    let listed = home.run(&["replay", "--list"]).json();
    assert_eq!(listed.as_array().map(Vec::len), Some(2), "{listed}");
    assert_eq!(
        (&listed[0]["id"], &listed[0]["body"]),
        (&json!("rec_1"), &json!("eyJhIjogMX0="))
    );

    let run = home.run(&[
        "replay",
        "--list",
        "--since",
        "2020-01-05T00:00:00Z",
        "--jq",
        ".[].id",
    ]);
    assert_eq!((run.code, run.stdout.as_str()), (0, "rec_2\n"), "{run:?}");

    home.file("data/svc/deliveries/rec_3.json", "{");
    let run = home.run(&["replay", "--list", "--jq", ".[].id"]);
    assert_eq!(
        (run.code, run.stdout.as_str()),
        (0, "rec_1\nrec_2\n"),
        "{run:?}"
    );
    assert!(
        run.stderr.contains("rec_3.json: the record is corrupt"),
        "{run:?}"
    );

    let to = ["--to", "http://127.0.0.1:9", "--dry-run"];
    assert_eq!(home.run(&[&["replay", "rec_2"], &to[..]].concat()).code, 0);

    let run = home.run(&[&["replay", "rec_3"], &to[..]].concat());
    assert!(
        run.code == 1 && run.stderr.contains("rec_3.json"),
        "{run:?}"
    );

    let mut moved = record("rec_4", "2020-01-06T09:00:00.000Z");
    moved["secret_file"] = json!("/no/secret");
    home.file("data/svc/deliveries/rec_4.json", moved.to_string());
    let error = home.run(&[&["replay", "rec_4"], &to[..]].concat()).error();
    assert!(
        error["message"]
            .to_string()
            .contains("the recorded secret of rec_4"),
        "{error}"
    );
    assert_eq!(error["hint"], "give the application's: --secret-file PATH");
}

#[test]
fn a_failed_replay_does_not_stop_the_others() {
    let home = Home::new();
    let secret = home.file("secret", SECRET);
    let app = Service::with_responses(&[
        http_response(200, "", ""),
        http_response(200, "", ""),
        http_response(500, "", "no"),
        http_response(200, "", ""),
    ]);
    let args = [
        "listen",
        "--secret-file",
        &secret,
        "--forward-to",
        &app.url(),
    ];
    let listening = RunningListen::start(&home, &args);
    for id in ["one", "two"] {
        let body = format!("{{\"event\":\"email.sent\",\"id\":\"{id}\"}}");
        listening.post(Some(&sign(&body)), &body);
    }

    drop(listening);
    let run = home.run(&["replay", "one", "two"]);
    assert_eq!(run.code, 10, "{run:?}");

    let statuses = [0, 1].map(|row| run.json()[row]["status"].clone());
    assert_eq!(statuses, [json!(500), json!(200)]);
    assert_eq!(
        run.error()["message"],
        "1 of 2 deliveries had no 2xx response"
    );

    let away = home.run(&["replay", "--since", "1h", "--to", "http://127.0.0.1:9"]);
    assert_eq!(away.code, 10, "{away:?}");

    let problem = away.json()[1]["problem"]
        .as_str()
        .expect("a problem")
        .to_owned();
    assert!(
        problem.starts_with("cannot connect to the application"),
        "{problem}"
    );
}
