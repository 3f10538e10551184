//! Audiences over the wire (`email-service.md` §4).

use crate::harness::Sandbox;

#[tokio::test]
async fn an_audience_is_made_found_listed_and_deleted() {
    let sandbox = Sandbox::start().await;
    sandbox.control("POST /_sandbox/clock", r#"{"freeze":true}"#).await;
    let now = sandbox.control("GET /_sandbox/clock", "").await.between(r#""now":""#);

    let made = sandbox.call("POST /api/v1/audiences", r#"{"name":"Readers","extra":1}"#).await;
    let id = made.id();
    let expected =
        format!(r#"{{"id":"{id}","name":"Readers","createdAt":"{now}","updatedAt":"{now}"}}"#);
    assert_eq!((made.status, made.body.as_str()), (201, expected.as_str()));

    let found = sandbox.call(&format!("GET /api/v1/audiences/{id}"), "").await;
    assert_eq!((found.status, found.body.as_str()), (200, expected.as_str()));
    let listed = sandbox.call("GET /api/v1/audiences", "").await;
    assert_eq!((listed.status, listed.body.as_str()), (200, format!("[{expected}]").as_str()));

    let deleted = sandbox.call(&format!("DELETE /api/v1/audiences/{id}"), "").await;
    assert_eq!((deleted.status, deleted.body.as_str()), (204, ""));
    let gone = sandbox.call(&format!("GET /api/v1/audiences/{id}"), "").await;
    assert_eq!(gone.status, 404);
    assert_eq!(
        gone.body,
        r#"{"error":{"code":"not_found","message":"there is no such audience"}}"#
    );
}
