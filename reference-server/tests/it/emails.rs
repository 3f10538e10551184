//! Emails over the wire (`email-service.md` §4).

use crate::harness::Sandbox;

#[tokio::test]
async fn an_email_is_accepted_and_delivered() {
    let sandbox = Sandbox::start().await;
    let sent = sandbox
        .call(
            "POST /api/v1/emails",
            r#"{"from":"hello@sandbox.test","to":"ada@example.test","subject":"Hi","text":"Hello"}"#,
        )
        .await;
    assert_eq!(sent.status, 202, "{sent:?}");
    sandbox.settle().await;
    let found = sandbox.call(&format!("GET /api/v1/emails/{}", sent.id()), "").await;
    assert_eq!(found.status, 200);
    assert_eq!(found.between(r#""status":""#), "delivered", "{found:?}");
}
