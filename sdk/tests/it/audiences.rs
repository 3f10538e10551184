//! Audiences on the wire (`docs/email-service/audiences.md`).

use svc_sdk::email::NewAudience;

use crate::peer::Peer;

#[tokio::test]
async fn create() {
    let peer = Peer::json(201, r#"{"id":"aud_1","name":"News \"now\""}"#).await;
    let client = peer.email().build().unwrap();
    let audience = client.audiences().create("News \"now\"").await.unwrap();
    let seen = peer.only();
    assert_eq!(seen.line, "POST /api/v1/audiences HTTP/1.1");
    assert_eq!(seen.body, r#"{"name":"News \"now\""}"#);
    assert_eq!((audience.id.as_str(), audience.name.as_deref()), ("aud_1", Some("News \"now\"")));
}

#[tokio::test]
async fn create_with_a_field_that_the_documents_do_not_show() {
    let peer = Peer::json(201, r#"{"id":"aud_1"}"#).await;
    let client = peer.email().build().unwrap();
    client.audiences().create(NewAudience::new("News").extra("color", "red")).await.unwrap();
    assert_eq!(peer.only().body, r#"{"name":"News","color":"red"}"#);
}

#[tokio::test]
async fn list() {
    let peer = Peer::json(200, r#"[{"id":"aud_1","name":"A"},{"id":"aud_2","name":"B"}]"#).await;
    let client = peer.email().build().unwrap();
    let audiences = client.audiences().list().await.unwrap();
    assert_eq!(peer.only().line, "GET /api/v1/audiences HTTP/1.1");
    assert_eq!(audiences.iter().map(|a| &*a.id).collect::<Vec<_>>(), ["aud_1", "aud_2"]);
}

#[tokio::test]
async fn get() {
    let peer = Peer::json(200, r#"{"id":"aud_1","name":"A"}"#).await;
    let client = peer.email().build().unwrap();
    let audience = client.audiences().get("aud_1").await.unwrap();
    assert_eq!(peer.only().line, "GET /api/v1/audiences/aud_1 HTTP/1.1");
    assert_eq!(audience.name.as_deref(), Some("A"));
}

#[tokio::test]
async fn delete() {
    let peer = Peer::json(204, "").await;
    let client = peer.email().build().unwrap();
    let deleted = client.audiences().delete("aud_1").await.unwrap();
    assert_eq!(peer.only().line, "DELETE /api/v1/audiences/aud_1 HTTP/1.1");
    assert!(!deleted.already_gone);
}
