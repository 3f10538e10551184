//! Every documented limit, at the limit and one above it (`docs/email-service/README.md#limits`).

use crate::harness::Sandbox;

const SEND: &str = "POST /api/v1/emails";

#[tokio::test]
async fn limits_to_to_50_recipients() {
    let sandbox = Sandbox::start().await;
    let body = |field: &str, count: usize| {
        let list: Vec<String> = (0..count).map(|n| format!(r#""r{n}@x.test""#)).collect();
        let to = if field == "to" {
            ""
        } else {
            r#""to":"a@x.test","#
        };
        format!(
            r#"{{"from":"a@sandbox.test",{to}"{field}":[{}],"subject":"s"}}"#,
            list.join(",")
        )
    };

    assert_eq!(sandbox.call(SEND, &body("to", 50)).await.status, 202);

    let rejected = sandbox.call(SEND, &body("to", 51)).await;
    assert_eq!(
        (rejected.status, rejected.between(r#""field":""#).as_str()),
        (422, "to")
    );
    assert_eq!(sandbox.call(SEND, &body("to", 0)).await.status, 422);
    // No limit is documented for `cc` and `bcc`
    // (`docs/undocumented/services.md#other-limits`).
    assert_eq!(sandbox.call(SEND, &body("cc", 51)).await.status, 202);
    assert_eq!(sandbox.call(SEND, &body("bcc", 200)).await.status, 202);
}

#[tokio::test]
async fn limits_the_subject_to_998_characters() {
    let sandbox = Sandbox::start().await;
    let body = |subject: &str| {
        format!(r#"{{"from":"a@sandbox.test","to":"b@x.test","subject":"{subject}"}}"#)
    };
    assert_eq!(sandbox.call(SEND, &body("")).await.status, 202);
    assert_eq!(
        sandbox.call(SEND, &body(&"s".repeat(998))).await.status,
        202
    );
    // Unicode scalar values, neither bytes nor UTF-16 units.
    assert_eq!(
        sandbox.call(SEND, &body(&"🚀".repeat(998))).await.status,
        202
    );

    let rejected = sandbox.call(SEND, &body(&"s".repeat(999))).await;
    assert_eq!(
        (rejected.status, rejected.between(r#""field":""#).as_str()),
        (422, "subject")
    );
    assert_eq!(
        rejected.between(r#""message":"subject: "#),
        "has 999 characters, at most 998 are allowed"
    );
}

#[tokio::test]
async fn limits_attachments_to_20() {
    let sandbox = Sandbox::start().await;
    let body = |count: usize| {
        let list = vec![r#"{"filename":"a.txt","content":""}"#; count].join(",");
        format!(
            r#"{{"from":"a@sandbox.test","to":"b@x.test","subject":"s","attachments":[{list}]}}"#
        )
    };

    assert_eq!(sandbox.call(SEND, &body(20)).await.status, 202);

    let rejected = sandbox.call(SEND, &body(21)).await;
    assert_eq!(
        (rejected.status, rejected.between(r#""field":""#).as_str()),
        (422, "attachments")
    );
}

/// `docs/undocumented/README.md#size-limits`.
#[tokio::test]
async fn limits_the_body_to_64_mib() {
    const LIMIT: usize = 64 << 20;

    let sandbox = Sandbox::start().await;
    let json = r#"{"name":"x"}"#;
    let body = |size: usize| format!("{json}{}", " ".repeat(size - json.len()));
    assert_eq!(
        sandbox
            .call("POST /api/v1/audiences", &body(LIMIT))
            .await
            .status,
        201
    );

    // A larger body is rejected before it is sent.
    let rejected = sandbox.announce("POST /api/v1/audiences", LIMIT + 1).await;
    assert_eq!(
        (rejected.status, rejected.between(r#""code":""#).as_str()),
        (413, "payload_too_large")
    );
    assert!(
        rejected.body.contains(r#""limit":67108864"#),
        "{rejected:?}"
    );
}
