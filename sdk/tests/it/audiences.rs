//! Requests and responses of the audience operations (`docs/email-service/contacts-and-domains.md`).

use crate::mock_server::MockServer;

#[tokio::test]
async fn create() {
    let server = MockServer::json(201, r#"{"id":"aud_1","name":"News \"now\""}"#).await;
    let client = server.email().build().unwrap();
    let audience = client.audiences().create("News \"now\"").await.unwrap();
    let request = server.single_request();
    assert_eq!(request.line, "POST /api/v1/audiences HTTP/1.1");
    assert_eq!(request.body, r#"{"name":"News \"now\""}"#);
    assert_eq!(
        (audience.id.as_str(), audience.name.as_deref()),
        ("aud_1", Some("News \"now\""))
    );
}

#[tokio::test]
async fn create_with_an_additional_field() {
    let server = MockServer::json(201, r#"{"id":"aud_1"}"#).await;
    let client = server.email().build().unwrap();
    let audience = serde_json::json!({"name": "News", "color": "red"});
    let call = client.raw("POST", "/api/v1/audiences").json(&audience);
    assert_eq!(call.operation(), Some(svc_sdk::Operation::AudiencesCreate));
    call.await.unwrap();
    let body: serde_json::Value = serde_json::from_str(&server.single_request().body).unwrap();
    assert_eq!(body, audience);
}

#[tokio::test]
async fn list() {
    let server = MockServer::json(
        200,
        r#"[{"id":"aud_1","name":"A"},{"id":"aud_2","name":"B"}]"#,
    )
    .await;
    let client = server.email().build().unwrap();
    let audiences = client.audiences().list().await.unwrap();
    assert_eq!(
        server.single_request().line,
        "GET /api/v1/audiences HTTP/1.1"
    );
    assert_eq!(
        audiences.iter().map(|a| &*a.id).collect::<Vec<_>>(),
        ["aud_1", "aud_2"]
    );
}

#[tokio::test]
async fn get() {
    let server = MockServer::json(200, r#"{"id":"aud_1","name":"A"}"#).await;
    let client = server.email().build().unwrap();
    let audience = client.audiences().get("aud_1").await.unwrap();
    assert_eq!(
        server.single_request().line,
        "GET /api/v1/audiences/aud_1 HTTP/1.1"
    );
    assert_eq!(audience.name.as_deref(), Some("A"));
}

#[tokio::test]
async fn delete() {
    let server = MockServer::json(204, "").await;
    let client = server.email().build().unwrap();
    let deleted = client.audiences().delete("aud_1").await.unwrap();
    assert_eq!(
        server.single_request().line,
        "DELETE /api/v1/audiences/aud_1 HTTP/1.1"
    );
    assert!(!deleted.already_gone);
}
