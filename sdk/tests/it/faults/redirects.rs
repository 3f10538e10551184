//! Redirects: the API key is never sent to another host, and a response from another URL is
//! never used.

use svc_sdk::email::Email;
use svc_sdk::{Dialect, ErrorKind};

use super::faulty_server::{Fault, FaultyServer};
use crate::mock_server::MockServer;

#[tokio::test]
async fn redirects_are_not_followed() {
    let target = MockServer::json(200, r#"{"id":"stolen"}"#).await;
    let email = Email::new("a@b", "c@d", "s");
    for status in [300, 301, 302, 303, 304, 307, 308] {
        let location = format!("Location: {}/x\r\n", target.url());
        let server = FaultyServer::start(Fault::status(status, &location), 9).await;
        // With any header for the key.
        for client in [
            server.builder(),
            server
                .builder()
                .dialect(Dialect::with(["key-header=X-Api-Key"]).unwrap()),
        ] {
            let client = client.build().unwrap();
            let error = client.emails().get("x").await.unwrap_err();
            assert_eq!(
                (error.kind(), error.status().map(u16::from)),
                (&ErrorKind::Redirected, Some(status))
            );
            assert_eq!(error.attempts(), 1);
            let error = client.emails().send(&email).await.unwrap_err();
            assert_eq!(
                (error.kind(), error.attempts()),
                (&ErrorKind::Redirected, 1)
            );
        }
        assert_eq!(server.complete_requests(), 4);
    }

    assert_eq!(target.request_count(), 0);
}

/// The application's settings of the HTTP client do not change that.
#[tokio::test]
async fn a_configured_http_client_does_not_follow_redirects_either() {
    let target = MockServer::json(200, r#"{"id":"stolen"}"#).await;
    for status in [302, 307] {
        let location = format!("Location: {}/x\r\n", target.url());
        let server = FaultyServer::start(Fault::status(status, &location), 9).await;
        let builder = server
            .builder()
            .configure_http(|http| http.redirect(reqwest::redirect::Policy::limited(9)));
        let builders = [builder];
        for builder in builders {
            let client = builder.build().unwrap();
            let error = client
                .emails()
                .send(Email::new("a@b", "c@d", "s"))
                .await
                .unwrap_err();
            let seen = (error.kind(), error.status().map(u16::from));
            assert_eq!(seen, (&ErrorKind::Redirected, Some(status)));
            assert_eq!(client.emails().get("x").await.unwrap_err().attempts(), 1);
        }
    }
    assert_eq!(target.request_count(), 0);
}
