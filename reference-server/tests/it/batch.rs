//! Batches of emails (`docs/email-service/README.md#batch`,
//! `docs/undocumented/services.md#batch-result`).

use svc_reference_server::client::{EmailFilter, EmailStatus};

use crate::harness::Sandbox;

const BATCH: &str = "POST /api/v1/emails/batch";
const GOOD: &str = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s"}"#;

#[tokio::test]
async fn accepts_or_rejects_each_email_on_its_own() {
    let sandbox = Sandbox::start().await;
    let body = format!(
        r#"[{GOOD},{{"from":"a@unverified.test","to":"b@x.test","subject":"s"}},{{"from":"a@sandbox.test","subject":7}},{GOOD},7]"#
    );
    let response = sandbox.call(BATCH, &body).await;
    assert_eq!(response.status, 200, "{response:?}");

    let ids: Vec<&str> = response
        .body
        .split(r#""id":""#)
        .skip(1)
        .map(|rest| &rest[..40])
        .collect();
    let expected = format!(
        r#"{{"results":[{{"index":0,"id":"{}","status":"queued"}},{{"index":1,"error":{{"code":"domain_not_verified","message":"the domain unverified.test is not a verified domain of this organization","details":{{"domain":"unverified.test"}}}}}},{{"index":2,"error":{{"code":"validation_failed","message":"subject: must be a string","details":{{"fields":[{{"field":"subject","message":"must be a string"}}]}}}}}},{{"index":3,"id":"{}","status":"queued"}},{{"index":4,"error":{{"code":"validation_failed","message":"must be an object","details":{{"fields":[{{"field":"","message":"must be an object"}}]}}}}}}]}}"#,
        ids[0], ids[1]
    );
    assert_eq!(response.body, expected);

    sandbox.settle().await;
    for id in ids {
        let found = sandbox.call(&format!("GET /api/v1/emails/{id}"), "").await;
        assert_eq!(found.between(r#""status":""#), "delivered");
    }
}

#[tokio::test]
async fn accepts_an_object_with_the_emails() {
    let sandbox = Sandbox::start().await;
    let response = sandbox
        .call(BATCH, &format!(r#"{{"emails":[{GOOD}]}}"#))
        .await;
    assert_eq!(response.status, 200);
    assert_eq!(response.body.matches(r#""status":"queued""#).count(), 1);
}

#[tokio::test]
async fn accepts_one_to_a_hundred_emails() {
    let sandbox = Sandbox::start().await;
    let many = |count: usize| format!("[{}]", vec![GOOD; count].join(","));
    let most = sandbox.call(BATCH, &many(100)).await;
    assert_eq!(
        (
            most.status,
            most.body.matches(r#""status":"queued""#).count()
        ),
        (200, 100)
    );

    for body in [many(101), many(0), r#"{"emails":[]}"#.to_owned()] {
        let rejected = sandbox.call(BATCH, &body).await;
        assert_eq!(
            (rejected.status, rejected.between(r#""field":""#).as_str()),
            (422, "emails")
        );
    }

    for body in ["{}", r#"{"emails":7}"#, "7", r#""x""#] {
        assert_eq!(sandbox.call(BATCH, body).await.status, 422, "{body}");
    }

    for body in ["[", r#"{"emails":[}"#, "", r#"{"emails":[7],]"#, "x"] {
        let rejected = sandbox.call(BATCH, body).await;
        assert_eq!(
            (rejected.status, rejected.between(r#""code":""#).as_str()),
            (400, "invalid_json"),
            "{body}"
        );
    }
}

/// What is accepted can be read, also in a list.
#[tokio::test]
async fn tags_are_limited_in_depth() {
    let sandbox = Sandbox::start().await;
    let email = |levels: usize| {
        let deep = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        format!(
            r#"{{"from":"a@sandbox.test","to":"b@x.test","subject":"s","text":"x","tags":{{"a":{deep}}}}}"#
        )
    };

    let refused = sandbox.call("POST /api/v1/emails", &email(101)).await;
    assert_eq!(refused.status, 422, "{refused:?}");
    assert!(
        refused
            .body
            .contains("has 101 levels, at most 100 are allowed"),
        "{refused:?}"
    );

    let sent = sandbox.call("POST /api/v1/emails", &email(100)).await;
    assert_eq!(sent.status, 202, "{sent:?}");

    sandbox.settle().await;
    let emails = sandbox
        .server
        .client()
        .unwrap()
        .emails(&EmailFilter::default())
        .await
        .unwrap();
    assert_eq!(emails.data[0].status, EmailStatus::Delivered);

    let line = format!("POST /_sandbox/emails/{}/events", sent.id());
    let detail = format!(
        r#"{{"event":"bounced","detail":{}}}"#,
        "[".repeat(101) + &"]".repeat(101)
    );
    let refused = sandbox.control(&line, &detail).await;
    assert!(refused.body.contains("has 101 levels"), "{refused:?}");
}

/// Invalid JSON is an error of the request, not of one email.
#[tokio::test]
async fn invalid_json_in_an_email_fails_the_request() {
    let sandbox = Sandbox::start().await;
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let deep =
        format!(r#"{{"from":"a@sandbox.test","to":"b@x.test","subject":"s","tags":{deep}}}"#);
    let half = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"\ud800"}"#;
    for (email, message) in [
        (
            deep.as_str(),
            "the body is nested too deeply; the limit is 127 levels",
        ),
        (half, "the body is not valid JSON: error at line 1 column"),
    ] {
        for (line, body) in [
            ("POST /api/v1/emails", email.to_owned()),
            (BATCH, format!("[{GOOD},{email}]")),
            (BATCH, format!(r#"{{"emails":[{email}]}}"#)),
        ] {
            let rejected = sandbox.call(line, &body).await;
            let code = rejected.between(r#""code":""#);
            assert_eq!(
                (rejected.status, code.as_str()),
                (400, "invalid_json"),
                "{rejected:?}"
            );
            assert!(
                rejected.between(r#""message":""#).starts_with(message),
                "{rejected:?}"
            );
        }
    }

    let list = sandbox.control("GET /_sandbox/messages", "").await;
    assert_eq!(list.body, r#"{"data":[],"next":null}"#);
}
