//! Redirects elsewhere: the key never follows, and no other address's answer
//! passes for the service's.

use std::sync::Arc;

use svc_sdk::email::Email;
use svc_sdk::{ErrorKind, Outcome};

use super::peer::{Fault, FaultyPeer};
use crate::peer::{Peer, answer};

#[tokio::test]
async fn the_key_never_follows() {
    let elsewhere = Peer::json(200, r#"{"id":"stolen"}"#).await;
    let email = Email::new("a@b", "c@d", "s");
    for status in [300, 301, 302, 303, 304, 307, 308] {
        let location = format!("Location: {}/x\r\n", elsewhere.url());
        let peer = FaultyPeer::start(Fault::status(status, &location), 9).await;
        // Wherever the key stands.
        for client in [peer.builder(), peer.builder().key_header("X-Api-Key").key_prefix("")] {
            let client = client.build().unwrap();
            let error = client.emails().get("x").await.unwrap_err();
            assert_eq!((error.kind(), error.status()), (&ErrorKind::Redirected, Some(status)));
            assert_eq!(error.attempts(), 1);
            let error = client.emails().send(&email).await.unwrap_err();
            assert_eq!((error.kind(), error.attempts()), (&ErrorKind::Redirected, 1));
        }
        assert_eq!(peer.whole(), 4);
    }
    assert_eq!(elsewhere.lines().len(), 0);
}

/// It follows redirects, as reqwest's do unless told otherwise.
pub(super) fn own_client() -> reqwest::ClientBuilder {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    reqwest::Client::builder().tls_backend_preconfigured(tls).no_proxy()
}

/// A client of the caller's own may follow redirects. A POST becomes a GET on
/// its way; what that answers is not what became of the email.
#[tokio::test]
async fn what_another_address_answers_is_no_answer() {
    let elsewhere = Peer::json(200, r#"{"id":"eml_1","status":"queued"}"#).await;
    let location = format!("Location: {}/x\r\n", elsewhere.url());
    let peer = FaultyPeer::start(Fault::status(302, &location), 9).await;
    let builder = peer.builder().http_client(own_client().build().unwrap());
    #[cfg(feature = "tower")]
    let builders = [builder.clone(), builder.layer(tower::layer::util::Identity::new())];
    #[cfg(not(feature = "tower"))]
    let builders = [builder];
    for builder in builders {
        let client = builder.build().unwrap();
        let error = client.emails().send(&Email::new("a@b", "c@d", "s")).await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (&ErrorKind::Redirected, Outcome::Unknown));
        assert_eq!(error.attempts(), 1);
        let seen = elsewhere.seen().pop().unwrap();
        assert_eq!((seen.line.as_str(), seen.header("authorization")), ("GET /x HTTP/1.1", None));
        // It would be redirected again.
        assert_eq!(client.emails().get("x").await.unwrap_err().attempts(), 1);
    }

    // Where it is not redirected, its answers count.
    let peer = FaultyPeer::start(Fault::Answers(answer(202, r#"{"id":"eml_2"}"#)), 1).await;
    let own = own_client().build().unwrap();
    let client = peer.builder().http_client(own).build().unwrap();
    let sent = client.emails().send(&Email::new("a@b", "c@d", "s")).await.unwrap();
    assert_eq!(sent.id, "eml_2");
}

/// 307 and 308 ask for the same request again. A client of the caller's own
/// cannot do it with a body, and what it does without one is told apart.
#[tokio::test]
async fn the_same_request_again_at_another_address() {
    for status in [307, 308] {
        // At the same origin, where the peer then answers as it should.
        let peer = FaultyPeer::start(Fault::status(status, "Location: /elsewhere\r\n"), 1).await;
        let own = own_client().build().unwrap();
        let client = peer.builder().http_client(own).build().unwrap();
        let error = client.emails().send(&Email::new("a@b", "c@d", "s")).await.unwrap_err();
        assert_eq!((error.kind(), error.status()), (&ErrorKind::Redirected, Some(status)));
        assert_eq!((error.outcome(), peer.whole()), (Outcome::Refused, 1));

        let peer = FaultyPeer::start(Fault::status(status, "Location: /elsewhere\r\n"), 1).await;
        let own = own_client().build().unwrap();
        let client = peer.builder().http_client(own).build().unwrap();
        let error = client.webhooks().test("x").await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (&ErrorKind::Redirected, Outcome::Unknown));
        assert_eq!(peer.whole(), 2);
    }
}
