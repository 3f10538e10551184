//! Audiences over the wire (`docs/email-service/audiences.md`).

use crate::harness::Sandbox;

#[tokio::test]
async fn an_audience_is_made_found_listed_and_deleted() {
    let sandbox = Sandbox::start().await;
    let now = sandbox.freeze().await;

    let made = sandbox.call("POST /api/v1/audiences", r#"{"name":"Readers","extra":1}"#).await;
    let id = made.id();
    let expected =
        format!(r#"{{"id":"{id}","name":"Readers","createdAt":"{now}","updatedAt":"{now}"}}"#);
    assert_eq!((made.status, made.body.as_str()), (201, expected.as_str()));
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
        let gone = sandbox.call(&format!("{line} /api/v1/audiences/{id}"), "").await;
        let expected = r#"{"error":{"code":"not_found","message":"there is no such audience"}}"#;
        assert_eq!((gone.status, gone.body.as_str()), (404, expected));
    }
}

#[tokio::test]
async fn a_name_is_required() {
    let sandbox = Sandbox::start().await;
    for (body, message) in [
        ("{}", "is required"),
        (r#"{"name":null}"#, "is required"),
        (r#"{"name":" "}"#, "must not be empty"),
        (r#"{"name":7}"#, "must be a string"),
    ] {
        let refused = sandbox.call("POST /api/v1/audiences", body).await;
        let expected = format!(
            r#"{{"error":{{"code":"validation_failed","message":"name: {message}","details":{{"fields":[{{"field":"name","message":"{message}"}}]}}}}}}"#
        );
        assert_eq!((refused.status, refused.body.as_str()), (422, expected.as_str()), "{body}");
    }
}

/// `docs/undocumented/email-service.md#audience-deletion`.
#[tokio::test]
async fn the_contacts_go_with_their_audience() {
    let sandbox = Sandbox::start().await;
    let audience = sandbox.call("POST /api/v1/audiences", r#"{"name":"a"}"#).await.id();
    let line = format!("POST /api/v1/audiences/{audience}/contacts");
    let contact = sandbox.call(&line, r#"{"email":"a@b.test"}"#).await.id();
    sandbox.call(&format!("DELETE /api/v1/audiences/{audience}"), "").await;
    let gone = sandbox.call(&format!("PATCH /api/v1/contacts/{contact}"), "{}").await;
    assert_eq!(gone.status, 404);
}
