//! The parameter `search` of the lists: each of its words is somewhere in an entry.

use crate::harness::{EXTRACTION_KEY, Sandbox};

/// The subjects of a list of messages, emails or deliveries.
async fn subjects(sandbox: &Sandbox, list: &str, search: &str) -> String {
    let search = search.replace(' ', "+");
    let line = format!("GET /_sandbox/{list}?search={search}");
    let found = sandbox.control(&line, "").await;
    assert_eq!(found.status, 200, "{found:?}");

    let subjects = found.body.split(r#""subject":""#).skip(1);
    subjects
        .map(|rest| rest.split('"').next().expect("a subject"))
        .collect::<Vec<_>>()
        .join(", ")
}

async fn sandbox() -> Sandbox {
    let sandbox = Sandbox::start().await;
    // Port 9 is closed.
    let hook = r#"{"url":"http://127.0.0.1:9/","events":["email.delivered","email.bounced","email.received"]}"#;
    assert_eq!(
        sandbox.call("POST /api/v1/webhooks", hook).await.status,
        201
    );

    sandbox.freeze().await;
    for email in [
        r#""to":"Ada L\u00f6velace <ada@example.test>","subject":"Welcome","text":"Your code is 482913.","tags":{"kind":"signup"}"#,
        r#""to":"bounced@example.test","subject":"Invoice \u00dcber","html":"<p>Total: 12 EUR</p>""#,
    ] {
        let body = format!(r#"{{"from":"Shop <hello@sandbox.test>",{email}}}"#);
        assert_eq!(sandbox.call("POST /api/v1/emails", &body).await.status, 202);
    }

    let large = "x".repeat(2_000);
    let received = format!(
        r#"{{"from":"Eve <eve@example.test>","to":"help@sandbox.test","subject":"Question","text":"Gr\u00fc\u00dfe? {large}"}}"#
    );
    assert_eq!(
        sandbox
            .control("POST /_sandbox/inbound", &received)
            .await
            .status,
        202
    );

    sandbox.settle().await;
    sandbox
}

#[tokio::test]
async fn messages_and_emails_are_found_by_any_part_of_them() {
    let sandbox = sandbox().await;
    for (search, messages, emails) in [
        ("ada@exam", "Welcome", "Welcome"),
        ("WELCOME 482913", "Welcome", "Welcome"),
        ("482913 invoice", "", ""),
        ("question eve", "Question", ""),
        // Its transfer encoding hides the text in the source.
        ("gr%C3%BC%C3%9Fe?", "Question", ""),
        ("shop", "Welcome", "Invoice \u{dc}ber, Welcome"),
        ("msg_", "Question, Welcome", ""),
        // Only emails have names of recipients, tags, statuses and what did not arrive.
        ("l%C3%96vel", "", "Welcome"),
        ("kind=signup", "", "Welcome"),
        ("bounced", "", "Invoice \u{dc}ber"),
        ("%C3%BCber 12", "", "Invoice \u{dc}ber"),
        ("nothing", "", ""),
    ] {
        assert_eq!(
            subjects(&sandbox, "messages", search).await,
            messages,
            "{search}"
        );
        assert_eq!(
            subjects(&sandbox, "emails", search).await,
            emails,
            "{search}"
        );
    }

    let deleted = sandbox
        .control("DELETE /_sandbox/messages?search=482913", "")
        .await;
    assert_eq!(deleted.status, 204);
    assert_eq!(subjects(&sandbox, "messages", "").await, "Question");
}

/// A delivery says which recipient and which subject it is about.
#[tokio::test]
async fn deliveries_are_found_by_recipient_subject_and_event() {
    let sandbox = sandbox().await;
    for (search, found) in [
        ("ada@example.test", "Welcome"),
        ("delivered", "Welcome"),
        ("bounced", "Invoice \u{dc}ber"),
        ("help@ question", "Question"),
        ("whk_", "Question, Invoice \u{dc}ber, Welcome"),
        ("pending", "Question, Invoice \u{dc}ber, Welcome"),
        ("elsewhere", ""),
    ] {
        let list = subjects(&sandbox, "deliveries", search).await;
        let sorted = |list: &str| {
            let mut all: Vec<_> = list.split(", ").map(str::to_owned).collect();
            all.sort();
            all
        };
        assert_eq!(sorted(&list), sorted(found), "{search}");
    }

    let one = sandbox
        .control("GET /_sandbox/deliveries?search=received", "")
        .await;
    assert!(
        one.body
            .contains(r#""recipient":"help@sandbox.test","subject":"Question""#),
        "{one:?}"
    );

    // The data of an event with a long subject is stored apart.
    let long = "long ".repeat(190);
    let email = format!(
        r#"{{"from":"shop@sandbox.test","to":"grace@example.test","subject":"{long}","text":"x"}}"#
    );
    sandbox.call("POST /api/v1/emails", &email).await;
    sandbox.settle().await;
    let one = sandbox
        .control("GET /_sandbox/deliveries?search=grace", "")
        .await;
    assert!(
        one.body
            .contains(r#""recipient":"grace@example.test","subject":"long long"#),
        "{one:?}"
    );

    // An event without a recipient.
    let hook = r#"{"url":"http://127.0.0.1:9/","events":["extraction.completed"]}"#;
    sandbox
        .with_key(EXTRACTION_KEY, "POST /v1/webhooks", hook)
        .await;
    let event = r#"{"event":"extraction.completed","data":{"recipient":1,"subject":{}}}"#;
    sandbox.control("POST /_sandbox/extractions", event).await;
    let one = sandbox
        .control("GET /_sandbox/deliveries?search=extraction", "")
        .await;
    assert!(
        one.body.contains(r#""recipient":null,"subject":null"#),
        "{one:?}"
    );
}

#[tokio::test]
async fn requests_are_found_by_operation_status_and_body() {
    let sandbox = sandbox().await;
    for (search, count) in [
        ("emails.send", 2),
        ("emails.send 482913", 1),
        ("webhooks 201", 1),
        ("/api/v1/", 3),
        ("audiences", 0),
    ] {
        let line = format!("GET /_sandbox/requests?search={}", search.replace(' ', "+"));
        let found = sandbox.control(&line, "").await;
        assert_eq!(
            found.body.matches(r#""operation":"#).count(),
            count,
            "{search}: {found:?}"
        );
    }
}
