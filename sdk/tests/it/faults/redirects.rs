//! Redirects: the API key is never sent to another host, and a response from another URL is
//! never used.

use std::sync::Arc;

use svc_sdk::email::Email;
use svc_sdk::{ErrorKind, Outcome};

use super::faulty_server::{Fault, FaultyServer};
use crate::mock_server::{MockServer, response};

#[tokio::test]
async fn redirects_are_not_followed() {
    let target = MockServer::json(200, r#"{"id":"stolen"}"#).await;
    let email = Email::new("a@b", "c@d", "s");
    for status in [300, 301, 302, 303, 304, 307, 308] {
        let location = format!("Location: {}/x\r\n", target.url());
        let server = FaultyServer::start(Fault::status(status, &location), 9).await;
        // With any header for the key.
        for client in [server.builder(), server.builder().key_header("X-Api-Key").key_prefix("")] {
            let client = client.build().unwrap();
            let error = client.emails().get("x").await.unwrap_err();
            assert_eq!(
                (error.kind(), error.status().map(u16::from)),
                (&ErrorKind::Redirected, Some(status))
            );
            assert_eq!(error.attempts(), 1);
            let error = client.emails().send(&email).await.unwrap_err();
            assert_eq!((error.kind(), error.attempts()), (&ErrorKind::Redirected, 1));
        }
        assert_eq!(server.complete_requests(), 4);
    }
    assert_eq!(target.request_count(), 0);
}

/// A client that follows redirects, as reqwest does by default.
pub(super) fn own_client() -> reqwest::ClientBuilder {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    reqwest::Client::builder().tls_backend_preconfigured(tls).no_proxy()
}

/// A custom HTTP client may follow redirects. A POST then becomes a GET, whose response
/// does not tell what happened to the email.
#[tokio::test]
async fn rejects_the_response_of_a_redirect_target() {
    let target = MockServer::json(200, r#"{"id":"eml_1","status":"queued"}"#).await;
    let location = format!("Location: {}/x\r\n", target.url());
    let server = FaultyServer::start(Fault::status(302, &location), 9).await;
    let builder = server.builder().http_client(own_client().build().unwrap());
    #[cfg(feature = "tower")]
    let builders = [builder.clone(), builder.layer(tower::layer::util::Identity::new())];
    #[cfg(not(feature = "tower"))]
    let builders = [builder];
    for builder in builders {
        let client = builder.build().unwrap();
        let error = client.emails().send(Email::new("a@b", "c@d", "s")).await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (&ErrorKind::Redirected, Outcome::Unknown));
        assert_eq!(error.attempts(), 1);
        let request = target.received_requests().pop().unwrap();
        assert_eq!(
            (request.line.as_str(), request.header("authorization")),
            ("GET /x HTTP/1.1", None)
        );
        // A retry would be redirected again.
        assert_eq!(client.emails().get("x").await.unwrap_err().attempts(), 1);
    }

    // Without a redirect, its responses are used.
    let server = FaultyServer::start(Fault::Responds(response(202, r#"{"id":"eml_2"}"#)), 1).await;
    let own = own_client().build().unwrap();
    let client = server.builder().http_client(own).build().unwrap();
    let sent = client.emails().send(Email::new("a@b", "c@d", "s")).await.unwrap();
    assert_eq!(sent.id, "eml_2");
}

/// 307 and 308 repeat the same request. A custom client cannot do so with a body; without a
/// body, the redirect is detected.
#[tokio::test]
async fn classifies_307_and_308_with_a_custom_client() {
    for status in [307, 308] {
        // At the same origin, where the server then responds normally.
        let server = FaultyServer::start(Fault::status(status, "Location: /target\r\n"), 1).await;
        let own = own_client().build().unwrap();
        let client = server.builder().http_client(own).build().unwrap();
        let error = client.emails().send(Email::new("a@b", "c@d", "s")).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.status().map(u16::from)),
            (&ErrorKind::Redirected, Some(status))
        );
        assert_eq!((error.outcome(), server.complete_requests()), (Outcome::Refused, 1));

        let server = FaultyServer::start(Fault::status(status, "Location: /target\r\n"), 1).await;
        let own = own_client().build().unwrap();
        let client = server.builder().http_client(own).build().unwrap();
        let error = client.webhooks().test("x").await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (&ErrorKind::Redirected, Outcome::Unknown));
        assert_eq!(server.complete_requests(), 2);
    }
}
