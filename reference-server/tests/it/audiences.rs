//! Audiences (`docs/email-service/audiences.md`).

use crate::harness::Sandbox;

#[tokio::test]
async fn creates_gets_lists_and_deletes_audiences() {
    let sandbox = Sandbox::start().await;
    let now = sandbox.freeze().await;

    let created = sandbox.call("POST /api/v1/audiences", r#"{"name":"Readers","extra":1}"#).await;
    let id = created.id();
    let expected =
        format!(r#"{{"id":"{id}","name":"Readers","createdAt":"{now}","updatedAt":"{now}"}}"#);
    assert_eq!((created.status, created.body.as_str()), (201, expected.as_str()));
    assert!(id.starts_with("aud_"), "{id}");

    let found = sandbox.call(&format!("GET /api/v1/audiences/{id}"), "").await;
    assert_eq!((found.status, found.body.as_str()), (200, expected.as_str()));
    let second = sandbox.call("POST /api/v1/audiences", r#"{"name":"Readers"}"#).await;
    let listed = sandbox.call("GET /api/v1/audiences", "").await;
    let both = format!("[{expected},{}]", second.body);
    assert_eq!((listed.status, listed.body.as_str()), (200, both.as_str()));

    let deleted = sandbox.call(&format!("DELETE /api/v1/audiences/{id}"), "").await;
    assert_eq!((deleted.status, deleted.body.as_str()), (204, ""));
    for line in ["GET", "DELETE"] {
        let missing = sandbox.call(&format!("{line} /api/v1/audiences/{id}"), "").await;
        let expected = r#"{"error":{"code":"not_found","message":"no such audience"}}"#;
        assert_eq!((missing.status, missing.body.as_str()), (404, expected));
    }
}

#[tokio::test]
async fn rejects_a_missing_or_invalid_name() {
    let sandbox = Sandbox::start().await;
    for (body, message) in [
        ("{}", "is required"),
        (r#"{"name":null}"#, "is required"),
        (r#"{"name":" "}"#, "must not be empty"),
        (r#"{"name":7}"#, "must be a string"),
    ] {
        let rejected = sandbox.call("POST /api/v1/audiences", body).await;
        let expected = format!(
            r#"{{"error":{{"code":"validation_failed","message":"name: {message}","details":{{"fields":[{{"field":"name","message":"{message}"}}]}}}}}}"#
        );
        assert_eq!((rejected.status, rejected.body.as_str()), (422, expected.as_str()), "{body}");
    }
}

/// `docs/undocumented/email-service.md#audience-deletion`.
#[tokio::test]
async fn deleting_an_audience_deletes_its_contacts() {
    let sandbox = Sandbox::start().await;
    let audience = sandbox.call("POST /api/v1/audiences", r#"{"name":"a"}"#).await.id();
    let line = format!("POST /api/v1/audiences/{audience}/contacts");
    let contact = sandbox.call(&line, r#"{"email":"a@b.test"}"#).await.id();
    sandbox.call(&format!("DELETE /api/v1/audiences/{audience}"), "").await;
    let missing = sandbox.call(&format!("PATCH /api/v1/contacts/{contact}"), "{}").await;
    assert_eq!(missing.status, 404);
}
