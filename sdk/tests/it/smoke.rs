use svc_sdk::email::Email;

use crate::peer::Peer;

#[tokio::test]
async fn sends_an_email() {
    let peer = Peer::json(202, r#"{"id":"eml_1","status":"queued"}"#).await;
    let client = peer.email().build().unwrap();
    let email = Email::new("a@b.test", "c@d.test", "Hi").text("Hello");
    let accepted = client.emails().send(&email).await.unwrap();
    assert_eq!(accepted.id, "eml_1");
    let seen = peer.only();
    assert_eq!(seen.line, "POST /api/v1/emails HTTP/1.1");
    assert_eq!(seen.header("authorization"), Some("Bearer mk_secret"));
    assert_eq!(seen.body, r#"{"from":"a@b.test","to":["c@d.test"],"subject":"Hi","text":"Hello"}"#);
}
