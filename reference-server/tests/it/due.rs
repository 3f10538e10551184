//! What is due next (`docs/control-interface.md#the-clock`).

use crate::harness::Sandbox;
use crate::receiver::Receiver;

const SEND: &str = "POST /api/v1/emails";

/// An email that is scheduled, one to a delayed recipient, and a delivery that failed once.
async fn prepared(receiver: &Receiver) -> Sandbox {
    let sandbox = Sandbox::start().await;
    sandbox.freeze().await;
    let webhook = format!(
        r#"{{"url":"{}","events":["email.bounced"]}}"#,
        receiver.url()
    );
    sandbox.call("POST /api/v1/webhooks", &webhook).await;
    for (to, more) in [
        ("ada@x.test", r#","scheduledAt":"2999-01-01T00:00:00Z""#),
        ("delayed@x.test", ""),
        ("bounced@x.test", ""),
    ] {
        let email = format!(r#"{{"from":"a@sandbox.test","to":"{to}","subject":"Hi"{more}}}"#);
        assert_eq!(sandbox.call(SEND, &email).await.status, 202);
    }

    sandbox.settle().await;
    sandbox
}

#[tokio::test]
async fn what_is_due_next_is_listed_with_its_reason_earliest_first() {
    let receiver = Receiver::start(&[500]).await;
    let sandbox = prepared(&receiver).await;
    let due = sandbox.control("GET /_sandbox/due", "").await;
    let kinds: Vec<_> = due.body.split(r#""kind":""#).skip(1).collect();
    let url = receiver.url();
    let expected = [
        (
            "delivery",
            format!("email.bounced for bounced@x.test goes to {url}, attempt 2"),
        ),
        (
            "recipient",
            "\\\"Hi\\\" to delayed@x.test is delivered, with a delay".to_owned(),
        ),
        (
            "email",
            "\\\"Hi\\\" to ada@x.test is sent, as scheduled".to_owned(),
        ),
    ];
    assert_eq!(kinds.len(), expected.len(), "{due:?}");

    for (found, (kind, description)) in kinds.iter().zip(&expected) {
        assert!(
            found.starts_with(kind) && found.contains(description),
            "{kind}: {description} in {found}"
        );
    }

    assert!(due.body.ends_with(r#""next":null}"#), "{due:?}");

    // Page by page.
    let first = sandbox.control("GET /_sandbox/due?limit=2", "").await;
    assert!(first.body.ends_with(r#""next":"2"}"#), "{first:?}");

    let second = sandbox
        .control("GET /_sandbox/due?limit=2&cursor=2", "")
        .await;
    assert!(second.body.contains(r#""kind":"email""#), "{second:?}");

    let wrong = sandbox.control("GET /_sandbox/due?cursor=far", "").await;
    assert_eq!(wrong.status, 422);

    // Another organization has nothing to do.
    sandbox
        .control("POST /_sandbox/organizations", r#"{"name":"Other"}"#)
        .await;
    let other = sandbox
        .control("GET /_sandbox/due?organization=Other", "")
        .await;
    assert_eq!(other.body, r#"{"data":[],"next":null}"#);
}

#[tokio::test]
async fn each_of_them_runs_now_on_request() {
    let receiver = Receiver::start(&[500]).await;
    let sandbox = prepared(&receiver).await;
    let due = sandbox.control("GET /_sandbox/due", "").await;
    let subjects = due.body.split(r#""subject":""#).skip(1);
    for subject in subjects.map(|rest| rest.split('"').next().unwrap()) {
        let run = format!("POST /_sandbox/due/{subject}/run");
        assert_eq!(sandbox.control(&run, "").await.status, 204);
        sandbox.settle().await;
        assert_eq!(sandbox.control(&run, "").await.status, 404, "it has run");
    }

    assert_eq!(receiver.received().len(), 2);

    let messages = sandbox.control("GET /_sandbox/messages/count", "").await;
    assert_eq!(messages.body, r#"{"count":2}"#);

    let clock = sandbox.control("GET /_sandbox/clock", "").await;
    assert!(clock.body.contains(r#""next_due":null,"#), "{clock:?}");
}

#[tokio::test]
async fn idempotency_keys_expire_and_deleted_work_is_not_listed() {
    let receiver = Receiver::start(&[500]).await;
    let sandbox = prepared(&receiver).await;
    let email = r#"{"from":"a@sandbox.test","to":"bounced@x.test","subject":"Hi"}"#;
    for key in ["one", "two"] {
        let headers =
            format!("authorization: Bearer mk_test_sandbox\r\nidempotency-key: {key}\r\n");
        assert_eq!(sandbox.raw(SEND, &headers, email).await.status, 202);
    }

    let due = sandbox.control("GET /_sandbox/due", "").await;
    let expiry = "the idempotency key one expires; more that follow: 1";
    assert!(due.body.contains(expiry), "{due:?}");

    sandbox.control("POST /_sandbox/reset", "").await;
    let due = sandbox.control("GET /_sandbox/due", "").await;
    assert_eq!(due.body, r#"{"data":[],"next":null}"#);
}
