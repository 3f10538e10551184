//! Deliveries in the control interface, and their replay.

use crate::harness::{EXTRACTION_KEY, Sandbox};
use crate::receiver::Receiver;
use crate::webhooks::hmac;

async fn extraction_webhook(sandbox: &Sandbox, receiver: &Receiver) -> (String, String) {
    let body = format!(
        r#"{{"url":"{}","events":["extraction.failed"]}}"#,
        receiver.url()
    );
    let created = sandbox
        .with_key(EXTRACTION_KEY, "POST /v1/webhooks", &body)
        .await;
    assert_eq!(created.status, 201, "{created:?}");
    (created.id(), created.between(r#""secret":""#))
}

#[tokio::test]
async fn shows_every_attempt() {
    let sandbox = Sandbox::start().await;
    let now = sandbox.freeze().await;
    let receiver = Receiver::start(&[500]).await;
    let (webhook, secret) = extraction_webhook(&sandbox, &receiver).await;
    let body = r#"{"event":"extraction.failed","data":{"error":"no"}}"#;
    let fired = sandbox.control("POST /_sandbox/extractions", body).await;
    assert_eq!(fired.status, 202, "{fired:?}");

    let id = fired.id();
    sandbox.settle().await;
    let list = sandbox
        .control("GET /_sandbox/deliveries?state=pending", "")
        .await;
    let next = list.between(r#""nextDueAt":""#);
    assert_ne!(next, now);

    sandbox.advance("2s").await;

    let details = sandbox
        .control(&format!("GET /_sandbox/deliveries/{id}"), "")
        .await;
    assert_eq!(details.status, 200, "{details:?}");

    let sent = receiver.received();
    assert_eq!(sent.len(), 2);

    let start = format!(
        r#"{{"id":"{id}","webhook":"{webhook}","service":"extraction","event":"extraction.failed","emailId":null,"recipient":null,"subject":null,"state":"delivered","attemptCount":2,"nextDueAt":null,"createdAt":"{now}","updatedAt":"{next}","body":{},"attempts":[{{"delivery":"{id}","number":1,"startedAt":"{now}","#,
        serde_json::Value::from(sent[0].body.as_str())
    );
    assert!(
        details.body.starts_with(&start),
        "{start}\n{}",
        details.body
    );

    let signature = hmac(&secret, &sent[0].body);
    let url = receiver.url();
    let headers = format!(
        r#""url":"{url}","requestHeaders":{{"content-type":"application/json","user-agent":"svc-reference-server/0.1.0","x-service-event":"extraction.failed","x-service-signature":"sha256={signature}"}}"#
    );
    assert_eq!(
        details.body.matches(&headers).count(),
        2,
        "{headers}\n{}",
        details.body
    );
    assert!(
        details
            .body
            .contains(r#""status":500,"error":null,"responseBody":"ok""#),
        "{}",
        details.body
    );
    assert!(
        details
            .body
            .ends_with(r#""status":200,"error":null,"responseBody":"ok"}]}"#),
        "{}",
        details.body
    );
}

#[tokio::test]
async fn filters_and_pages_lists() {
    let sandbox = Sandbox::start().await;
    let receiver = Receiver::start(&[]).await;
    let (webhook, _) = extraction_webhook(&sandbox, &receiver).await;
    for _ in 0..3 {
        let body = r#"{"event":"extraction.failed"}"#;
        assert_eq!(
            sandbox
                .control("POST /_sandbox/extractions", body)
                .await
                .status,
            202
        );
    }

    sandbox.settle().await;
    for (query, count) in [
        (String::new(), 3),
        (
            format!("?webhook={webhook}&event=extraction.failed&state=delivered"),
            3,
        ),
        ("?webhook=whk_other".to_owned(), 0),
        (format!("?webhook={webhook}"), 3),
        ("?event=extraction.completed".to_owned(), 0),
        ("?event=extraction.failed".to_owned(), 3),
        ("?state=delivered".to_owned(), 3),
        (format!("?state=pending&webhook={webhook}"), 0),
        ("?state=failed".to_owned(), 0),
        ("?limit=2".to_owned(), 2),
    ] {
        let list = sandbox
            .control(&format!("GET /_sandbox/deliveries{query}"), "")
            .await;
        assert_eq!(list.status, 200, "{query}: {list:?}");
        assert_eq!(
            list.body.matches(r#""webhook":"#).count(),
            count,
            "{query}: {list:?}"
        );
    }

    let first = sandbox
        .control("GET /_sandbox/deliveries?limit=2", "")
        .await;
    let next = first.between(r#""next":""#);
    let second = sandbox
        .control(
            &format!("GET /_sandbox/deliveries?limit=2&cursor={next}"),
            "",
        )
        .await;
    assert_eq!(
        second.body.matches(r#""webhook":"#).count(),
        1,
        "{second:?}"
    );
    assert!(second.body.ends_with(r#""next":null}"#), "{second:?}");

    for query in [
        "state=lost",
        "limit=0",
        "limit=x",
        "cursor=",
        "cursor=msg_1",
        "cursor=%27",
    ] {
        let rejected = sandbox
            .control(&format!("GET /_sandbox/deliveries?{query}"), "")
            .await;
        assert_eq!(rejected.status, 422, "{query}");
    }

    assert_eq!(
        sandbox
            .control("GET /_sandbox/deliveries/nothing", "")
            .await
            .status,
        404
    );
}

#[tokio::test]
async fn a_replay_is_another_attempt_with_the_same_body() {
    let sandbox = Sandbox::start().await;
    let receiver = Receiver::start(&[200, 500]).await;
    let (webhook, _) = extraction_webhook(&sandbox, &receiver).await;
    let body = r#"{"event":"extraction.failed"}"#;
    let id = sandbox
        .control("POST /_sandbox/extractions", body)
        .await
        .id();
    sandbox.settle().await;
    let path = format!("POST /_sandbox/deliveries/{id}/replay");
    let replayed = sandbox.control(&path, "").await;
    assert_eq!(replayed.status, 202, "{replayed:?}");
    assert_eq!(replayed.id(), id);

    // The replay fails with 500, and no retry follows.
    sandbox.advance("10m").await;
    let received = receiver.received();
    assert_eq!(received.len(), 2);
    assert_eq!(received[0].body, received[1].body);
    assert_eq!(received[0].head, received[1].head);

    let details = sandbox
        .control(&format!("GET /_sandbox/deliveries/{id}"), "")
        .await;
    assert_eq!(details.between(r#""state":""#), "failed");

    // A list has all attempts, so there is a limit.
    for _ in 2..100 {
        assert_eq!(sandbox.control(&path, "").await.status, 202);
        sandbox.settle().await;
    }

    let refused = sandbox.control(&path, "").await;
    assert_eq!(refused.status, 409);
    assert!(refused.body.contains("has had 100 attempts"), "{refused:?}");

    let deleted = format!("DELETE /v1/webhooks/{webhook}");
    assert_eq!(
        sandbox.with_key(EXTRACTION_KEY, &deleted, "").await.status,
        204
    );

    let rejected = sandbox.control(&path, "").await;
    assert_eq!(
        (rejected.status, rejected.between(r#""code":""#)),
        (409, "conflict".to_owned())
    );
    assert_eq!(
        sandbox
            .control("POST /_sandbox/deliveries/x/replay", "")
            .await
            .status,
        404
    );
}

#[tokio::test]
async fn rejects_replay_of_a_pending_delivery() {
    let sandbox = Sandbox::start().await;
    sandbox.freeze().await;
    let receiver = Receiver::start(&[500]).await;
    extraction_webhook(&sandbox, &receiver).await;
    let body = r#"{"event":"extraction.failed"}"#;
    let id = sandbox
        .control("POST /_sandbox/extractions", body)
        .await
        .id();
    sandbox.settle().await;
    let response = sandbox
        .control(&format!("POST /_sandbox/deliveries/{id}/replay"), "")
        .await;
    assert_eq!(response.status, 409, "{response:?}");
}

#[tokio::test]
async fn rejects_replay_to_an_inactive_webhook() {
    let sandbox = Sandbox::start().await;
    let receiver = Receiver::start(&[]).await;
    let body = format!(r#"{{"url":"{}","events":["email.sent"]}}"#, receiver.url());
    let webhook = sandbox.call("POST /api/v1/webhooks", &body).await.id();
    sandbox
        .call(&format!("POST /api/v1/webhooks/{webhook}/test"), "")
        .await;
    let delivery = sandbox.control("GET /_sandbox/deliveries", "").await.id();
    let replay = format!("POST /_sandbox/deliveries/{delivery}/replay");
    for (active, status) in [(false, 409), (true, 202)] {
        let body = format!(r#"{{"active":{active}}}"#);
        sandbox
            .call(&format!("PATCH /api/v1/webhooks/{webhook}"), &body)
            .await;
        assert_eq!(
            sandbox.control(&replay, "").await.status,
            status,
            "{active}"
        );
    }
}

#[tokio::test]
async fn deliveries_are_invisible_to_other_organizations() {
    let sandbox = Sandbox::start().await;
    let receiver = Receiver::start(&[]).await;
    extraction_webhook(&sandbox, &receiver).await;
    let body = r#"{"event":"extraction.failed"}"#;
    let id = sandbox
        .control("POST /_sandbox/extractions", body)
        .await
        .id();
    sandbox.settle().await;
    let created = sandbox
        .control("POST /_sandbox/organizations", r#"{"name":"other"}"#)
        .await;
    assert_eq!(created.status, 201);

    for line in [
        format!("GET /_sandbox/deliveries/{id}?organization=other"),
        format!("POST /_sandbox/deliveries/{id}/replay?organization=other"),
    ] {
        assert_eq!(sandbox.control(&line, "").await.status, 404, "{line}");
    }

    let list = sandbox
        .control("GET /_sandbox/deliveries?organization=other", "")
        .await;
    assert_eq!(list.body, r#"{"data":[],"next":null}"#);
}
