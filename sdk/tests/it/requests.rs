//! Requests: ids, URLs, headers, options and local checks.

use std::time::Duration;

use svc_sdk::email::{Attachment, Email};
use svc_sdk::{Dialect, EmailClient, ErrorKind, ExtractionClient, Operation, Outcome, Secret};

use crate::mock_server::{MockServer, response_with_headers};

#[tokio::test]
async fn ids_are_encoded_as_one_path_segment() {
    let server = MockServer::json(200, r#"{"id":"x"}"#).await;
    let client = server.email().build().unwrap();
    for id in ["a/b", "ü", "a b?c#d", "..a", "%2e%2e", "../../v1/me"] {
        client.emails().get(id).await.unwrap();
    }

    client.contacts().create("a/b", "c@d").await.unwrap();
    assert_eq!(
        server.request_lines(),
        [
            "GET /api/v1/emails/a%2Fb HTTP/1.1",
            "GET /api/v1/emails/%C3%BC HTTP/1.1",
            "GET /api/v1/emails/a%20b%3Fc%23d HTTP/1.1",
            "GET /api/v1/emails/..a HTTP/1.1",
            "GET /api/v1/emails/%252e%252e HTTP/1.1",
            "GET /api/v1/emails/..%2F..%2Fv1%2Fme HTTP/1.1",
            "POST /api/v1/audiences/a%2Fb/contacts HTTP/1.1",
        ]
    );
}

#[tokio::test]
async fn rejects_ids_that_would_change_the_path() {
    let server = MockServer::json(200, "{}").await;
    // Also if local checks are disabled.
    let client = server.email().local_checks(false).build().unwrap();
    for id in ["", ".", ".."] {
        let errors = [
            client.emails().get(id).await.unwrap_err(),
            client.emails().cancel(id).await.unwrap_err(),
            client.audiences().delete(id).await.unwrap_err(),
            client.contacts().list(id).await.unwrap_err(),
            client.domains().verify(id).await.unwrap_err(),
            client.webhooks().test(id).await.unwrap_err(),
        ];
        for error in errors {
            assert!(error.is_invalid_input(), "{error}");
            assert_eq!((error.outcome(), error.attempts()), (Outcome::NotSent, 0));
            assert!(error.operation().is_some());
        }
    }

    assert_eq!(server.request_count(), 0);
}

#[tokio::test]
async fn the_base_url_may_have_a_path() {
    for path in ["/mail", "/mail/", "/a/../mail"] {
        let server = MockServer::json(200, r#"{"id":"x"}"#).await;
        let base = format!("{}{path}", server.url());
        let client = EmailClient::builder(base, "k").build().unwrap();
        client.emails().get("x").await.unwrap();
        client.contacts().list("a").page(1).await.unwrap_err();
        client
            .raw("GET", "/v2/x?y=z")
            .query("q", "a&b")
            .await
            .unwrap();
        assert_eq!(
            server.request_lines(),
            [
                "GET /mail/api/v1/emails/x HTTP/1.1",
                "GET /mail/api/v1/audiences/a/contacts?page=1 HTTP/1.1",
                "GET /mail/v2/x?y=z&q=a%26b HTTP/1.1",
            ]
        );
    }
}

#[tokio::test]
async fn key_header_and_prefix_are_configurable() {
    let server = MockServer::json(200, "[]").await;
    let client = server
        .email()
        .dialect(Dialect::with(["key-header=X-Api-Key"]).unwrap())
        .build()
        .unwrap();
    client.domains().list().await.unwrap();
    let request = server.single_request();
    assert_eq!(request.header("x-api-key"), Some("mk_secret"));
    assert_eq!(request.header("authorization"), None);

    let server = MockServer::json(200, "[]").await;
    let dialect = Dialect::with(["key-scheme=token"]).unwrap();
    let client = server.email().dialect(dialect).build().unwrap();
    client.domains().list().await.unwrap();
    assert_eq!(
        server.single_request().header("authorization"),
        Some("Token mk_secret")
    );
}

#[tokio::test]
async fn sets_headers_per_client_and_per_call() {
    let server = MockServer::json(200, r#"{"id":"x"}"#).await;
    let client = server.email().user_agent("shop/2").header("X-Tenant", "t");
    let client = client
        .header("Accept", "application/json;v=2")
        .build()
        .unwrap();
    let email = Email::new("a@b", "c@d", "s");
    client
        .emails()
        .send(&email)
        .idempotency_key("key-1")
        .header("X-Tenant", "u")
        .header("X-Other", "o")
        .await
        .unwrap();
    client
        .emails()
        .send_batch(&[email])
        .idempotency_key("key-2")
        .await
        .unwrap_err();
    client.domains().delete("d").await.unwrap();
    let requests = server.received_requests();
    assert_eq!(requests[0].header("user-agent"), Some("shop/2"));
    assert_eq!(requests[0].header("accept"), Some("application/json;v=2"));
    assert_eq!(requests[0].header("x-tenant"), Some("u"));
    assert_eq!(requests[0].header("x-other"), Some("o"));
    assert_eq!(requests[0].header("idempotency-key"), Some("key-1"));
    assert_eq!(requests[1].header("idempotency-key"), Some("key-2"));
    assert_eq!(requests[2].header("x-tenant"), Some("t"));
    assert_eq!(requests[2].header("idempotency-key"), None);
}

#[tokio::test]
async fn rejects_invalid_headers() {
    let server = MockServer::json(200, "[]").await;
    let client = server.email().build().unwrap();
    let list = || client.domains().list();
    for call in [
        list().header("a b", "x"),
        list().header("x", "a\nb"),
        list().header("Authorization", "Bearer other"),
        // These would allow request smuggling.
        list().header("Content-Length", "3"),
        list().header("transfer-encoding", "chunked"),
        list().idempotency_key(""),
        list().idempotency_key("a\nb"),
        list().idempotency_key(" "),
        list().idempotency_key("ü"),
        list().idempotency_key("a\tb"),
    ] {
        let error = call.await.unwrap_err();
        assert!(error.is_invalid_input(), "{error}");
        assert_eq!(error.operation(), Some(Operation::DomainsList));
    }

    assert_eq!(server.request_count(), 0);
}

#[tokio::test]
async fn with_response_returns_status_and_headers() {
    let server = MockServer::start([response_with_headers(
        202,
        "X-Request-Id: r\r\nX-Cost: 3\r\n",
        r#"{"id":"x"}"#,
    )])
    .await;
    let client = server.email().build().unwrap();
    let response = client
        .emails()
        .get("x")
        .with_response()
        .timeout(Duration::from_secs(9))
        .await;
    let response = response.unwrap();
    assert_eq!(
        (
            response.status.as_u16(),
            response.attempts,
            response.value.id.as_str()
        ),
        (202, 1, "x")
    );
    assert_eq!(response.request_id.as_deref(), Some("r"));
    assert_eq!(response.headers["x-cost"], "3");
}

#[tokio::test]
async fn to_request_returns_the_request_without_sending_it() {
    let server = MockServer::json(200, r#"{"id":"x"}"#).await;
    let client = ExtractionClient::builder(server.url(), "sk_test_secret")
        .build()
        .unwrap();
    let preview = client
        .raw("post", "/v1/x")
        .json(&[1])
        .idempotency_key("k")
        .to_request()
        .unwrap();
    assert_eq!(
        (&*preview.method, &preview.url),
        ("POST", &format!("{}/v1/x", server.url()))
    );

    let mut headers = preview.headers.clone();
    headers.sort();
    let headers: Vec<_> = headers
        .iter()
        .map(|(n, v)| (n.as_str(), v.as_str()))
        .collect();
    assert_eq!(
        headers,
        [
            ("accept", "application/json"),
            ("authorization", "Bearer sk_test_***"),
            ("content-length", "3"),
            ("content-type", "application/json"),
            ("host", server.url().strip_prefix("http://").unwrap()),
            ("idempotency-key", "k"),
            ("user-agent", "svc-sdk/0.1.0"),
        ]
    );
    assert_eq!(preview.body().unwrap(), b"[1]");

    let client = server.email().build().unwrap();
    let email =
        Email::new("a@b", "c@d", "s").attachment(Attachment::from_bytes("n", vec![7; 100_000]));
    let preview = client.emails().send(&email).to_request().unwrap();
    let body = preview.body().unwrap();
    assert_eq!(body.len() as u64, preview.content_length());
    assert!(
        preview
            .headers
            .contains(&("authorization".into(), "Bearer ***".into()))
    );
    assert_eq!(server.request_count(), 0);

    // The same bytes are sent.
    client.emails().send(&email).await.unwrap();
    assert_eq!(server.single_request().body.as_bytes(), body);
    assert!(client.emails().get("").to_request().is_err());
}

#[tokio::test]
async fn raw_requests() {
    let server = MockServer::json(201, r#"{"job":"j"}"#).await;
    let client = server.extraction().build().unwrap();
    let body = serde_json::json!({"document": "d"});
    let response = client
        .raw("PUT", "/v1/extractions")
        .json(&body)
        .header("x-a", "b")
        .await
        .unwrap();
    assert_eq!(response.status, 201);
    assert_eq!(response.json::<serde_json::Value>().unwrap()["job"], "j");

    let text = client
        .raw("POST", "/v1/files")
        .body("hello", "text/plain")
        .await
        .unwrap();
    assert_eq!(text.text(), r#"{"job":"j"}"#);

    let requests = server.received_requests();
    assert_eq!(requests[0].line, "PUT /v1/extractions HTTP/1.1");
    assert_eq!(requests[0].body, r#"{"document":"d"}"#);
    assert_eq!(requests[1].header("content-type"), Some("text/plain"));

    for (method, path) in [
        ("GET", "v1/x"),
        ("GET", "/../x"),
        ("G T", "/x"),
        ("GET", "/a b"),
    ] {
        let error = client.raw(method, path).await.unwrap_err();
        assert!(error.is_invalid_input());
        assert_eq!(error.operation(), None);
    }

    // An id that exceeds the maximum URL length is an ordinary error.
    let error = client
        .raw("GET", format!("/{}", "x".repeat(100_000)))
        .await
        .unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotSent);

    // A documented path is recognized, including its scope.
    let server = MockServer::json(403, "scope").await;
    let error = server
        .email()
        .build()
        .unwrap()
        .raw("GET", "/api/v1/domains")
        .await
        .unwrap_err();
    assert_eq!(error.operation(), Some(Operation::DomainsList));
}

#[tokio::test]
async fn local_checks_report_field_and_limit_and_can_be_disabled() {
    let many = |count: usize| {
        let mut email = Email::new("a@b", "c@d", "s");
        email.to = vec!["c@d".to_owned(); count];
        email
    };

    let long = |length: usize| Email::new("a@b", "c@d", "ü".repeat(length));
    let mut full = Email::new("a@b", "c@d", "s");
    full.attachments = vec![Attachment::from_bytes("n", "x"); 21];

    let server = MockServer::json(200, r#"{"id":"x"}"#).await;
    let client = server.email().build().unwrap();
    for (email, field, problem) in [
        (many(51), "to", "51 recipients exceed the limit of 50"),
        (many(0), "to", "at least one"),
        (
            long(999),
            "subject",
            "999 characters exceed the limit of 998",
        ),
        (full, "attachments", "21 attachments exceed the limit of 20"),
        (
            Email::new("nobody", "c@d", "s"),
            "from",
            "not an email address",
        ),
        (
            Email::new("a@b", "c@d e", "s"),
            "to[0]",
            "not an email address",
        ),
        (
            Email::new("a@b", "c@d", "s").cc("c@d").cc("nobody"),
            "cc[1]",
            "not an email address",
        ),
        (
            Email::new("a@b", "c@d", "s").bcc("nobody"),
            "bcc[0]",
            "not an email address",
        ),
        (
            Email::new("a@b", "c@d", "s").reply_to("nobody"),
            "replyTo[0]",
            "not an email address",
        ),
        (
            Email::new("a@b", "c@d", "s").attachment(Attachment::from_bytes("", "")),
            "attachments[0].filename",
            "must not be empty",
        ),
    ] {
        let error = client.emails().send(&email).await.unwrap_err();
        let ErrorKind::InvalidInput(invalid) = error.kind() else {
            panic!("{error}")
        };
        assert_eq!(invalid.field, field);
        assert!(invalid.problem.starts_with(problem), "{invalid}");
        assert_eq!((error.outcome(), error.attempts()), (Outcome::NotSent, 0));

        // If there is no other email in the batch.
        let batch = [email.clone(), email.clone()];
        let error = client.emails().send_batch(&batch).await.unwrap_err();
        let ErrorKind::InvalidInput(invalid) = error.kind() else {
            panic!("{error}")
        };
        assert_eq!(invalid.field, format!("emails[0].{field}"));
        let fields: Vec<_> = error
            .fields()
            .iter()
            .map(|each| each.field.clone())
            .collect();
        assert_eq!(
            fields,
            [format!("emails[0].{field}"), format!("emails[1].{field}")]
        );
        assert_eq!(server.request_count(), 0);
        // If local checks are disabled, the service decides.
        let client = server.email().local_checks(false).build().unwrap();
        client.emails().send(&email).to_request().unwrap();
    }

    for count in [0, 101] {
        let error = client
            .emails()
            .send_batch(&vec![many(1); count])
            .await
            .unwrap_err();
        let ErrorKind::InvalidInput(invalid) = error.kind() else {
            panic!("{error}")
        };
        assert_eq!(invalid.field, "emails");
    }

    client.emails().send(many(50)).await.unwrap();
    client.emails().send(long(998)).await.unwrap();
    client
        .emails()
        .send_batch(&vec![many(1); 100])
        .await
        .unwrap_err();
    assert_eq!(server.request_count(), 3);

    let off = server.email().local_checks(false).build().unwrap();
    off.emails().send(many(51)).await.unwrap();
    assert_eq!(server.request_count(), 4);
}

#[test]
fn build_rejects_invalid_options() {
    for (base, key, problem) in [
        (
            "",
            "k",
            "the base URL is not a valid URL: relative URL without a base",
        ),
        (
            "mail.example",
            "k",
            "the base URL is not a valid URL: relative URL without a base",
        ),
        (
            "ftp://x.test",
            "k",
            "the base URL must start with http:// or https://",
        ),
        (
            "https://u:p@x.test",
            "k",
            "the base URL must not contain a user name or password",
        ),
        (
            "https://x.test?a=b",
            "k",
            "the base URL must not contain a query or a fragment",
        ),
        ("https://x.test", "", "the API key is empty"),
        ("https://x.test", " \n", "the API key is empty"),
        (
            "https://x.test",
            "s3cr\net",
            "the API key contains characters that are not allowed in a header",
        ),
    ] {
        let error = EmailClient::builder(base, key).build().unwrap_err();
        assert_eq!(error.to_string(), problem);
        assert_eq!(error.outcome(), Outcome::NotSent);
    }

    let builder = || EmailClient::builder("https://x.test", "k");
    assert!(builder().header("x", "\n").build().is_err());
    assert!(builder().header("content-length", "3").build().is_err());
    assert!(builder().proxy("::").build().is_err());
    #[cfg(any(feature = "rustls", feature = "rustls-ring"))]
    assert!(builder().ca_bundle("no certificate").build().is_err());
}

/// The client appends `/api/v1` itself.
#[test]
fn build_rejects_a_base_url_with_the_path_of_the_operations() {
    for base in [
        "https://x.test/api/v1",
        "https://x.test/api/v1/",
        "https://x.test/mail/api/v1",
    ] {
        let error = EmailClient::builder(base, "k").build().unwrap_err();
        let text = "the base URL must not end in /api/v1: the client appends it to the base URL; \
                    leave it out";
        assert_eq!(error.to_string(), text);
    }

    let error = ExtractionClient::builder("https://x.test/v1", "k")
        .build()
        .unwrap_err();
    assert!(error.to_string().contains("must not end in /v1"), "{error}");
    for base in ["https://x.test/api", "https://x.test/api/v1x", "https://v1"] {
        assert!(EmailClient::builder(base, "k").build().is_ok(), "{base}");
        assert!(
            ExtractionClient::builder(base, "k").build().is_ok(),
            "{base}"
        );
    }
}

#[tokio::test]
async fn the_user_agent_can_be_set_as_a_header_too() {
    let own = concat!("svc-sdk/", env!("CARGO_PKG_VERSION"));
    type Change = fn(svc_sdk::EmailClientBuilder) -> svc_sdk::EmailClientBuilder;

    let table: [(Change, &str); 5] = [
        (|builder| builder, own),
        (|builder| builder.header("User-Agent", "shop/1"), "shop/1"),
        (|builder| builder.user_agent("shop/2"), "shop/2"),
        (
            |builder| builder.user_agent("shop/2").header("user-agent", "shop/3"),
            "shop/3",
        ),
        (
            |builder| builder.header("user-agent", "shop/3").user_agent("shop/4"),
            "shop/4",
        ),
    ];
    for (change, expected) in table {
        let server = MockServer::json(200, "[]").await;
        change(server.email())
            .build()
            .unwrap()
            .domains()
            .list()
            .await
            .unwrap();
        assert_eq!(server.single_request().header("user-agent"), Some(expected));
    }
}

/// A header that would be replaced by the key is not dropped in silence.
#[test]
fn build_rejects_a_header_that_carries_the_key() {
    for (builder, name) in [
        (EmailClient::builder("https://x.test", "k"), "Authorization"),
        (
            EmailClient::builder("https://x.test", "k")
                .dialect(Dialect::with(["key-header=X-Key"]).unwrap()),
            "x-key",
        ),
    ] {
        let error = builder.header(name, "private").build().unwrap_err();
        let text = format!("the header {name} carries the API key and cannot be set");
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn debug_output_never_contains_the_key() {
    let builder = EmailClient::builder("https://x.test", Secret::new("mk_secret"));
    let shown = format!("{builder:?}");
    let client = builder.build().unwrap();
    let shown = format!(
        "{shown} {client:?} {:?} {:?}",
        client.emails(),
        client.emails().get("x")
    );
    assert!(!shown.contains("mk_secret"), "{shown}");
}

#[test]
fn builder_debug_output_omits_header_values() {
    let builder = EmailClient::builder("https://x.test", "k").header("x-token", "private");
    let shown = format!("{builder:?}");
    assert!(
        shown.contains("x-token") && !shown.contains("private"),
        "{shown}"
    );
    // These are not valid base URLs, but the builder can still be printed.
    for base in [
        "https://ada:private@x.test",
        "https://x.test/?token=private",
        "private",
    ] {
        let shown = format!(
            "{:?}",
            EmailClient::builder(base, "k").proxy("http://a:private@b")
        );
        assert!(!shown.contains("private"), "{shown}");
    }
}

/// Credentials of the application, for a gateway in front of the service.
#[tokio::test]
async fn previews_mask_credentials_and_responses_hide_cookies() {
    let server = MockServer::start([response_with_headers(
        200,
        "Set-Cookie: s=private\r\n",
        "[]",
    )])
    .await;
    let builder = server
        .email()
        .dialect(Dialect::with(["key-header=X-Api-Key"]).unwrap());
    let client = builder
        .header("Authorization", "Basic private")
        .build()
        .unwrap();
    let call = || client.domains().list().header("Cookie", "s=private");
    let preview = call()
        .header("Proxy-Authorization", "private")
        .to_request()
        .unwrap();
    for name in [
        "authorization",
        "cookie",
        "proxy-authorization",
        "x-api-key",
    ] {
        assert!(
            preview.headers.contains(&(name.into(), "***".into())),
            "{:?}",
            preview.headers
        );
    }

    let response = call().with_response().await.unwrap();
    assert_eq!(response.headers["set-cookie"], "s=private");
    assert!(!format!("{response:?}").contains("private"));

    let request = server.single_request();
    assert_eq!(
        (request.header("authorization"), request.header("cookie")),
        (Some("Basic private"), Some("s=private"))
    );
}

#[test]
fn debug_output_omits_additional_fields() {
    use svc_sdk::email::{NewContact, NewWebhook, WebhookUpdate};
    let shown = format!(
        "{:?} {:?} {:?}",
        NewContact::new("private@x.test")
            .topic("news")
            .extra("note", "private"),
        NewWebhook::new("https://x.test/private", ["email.sent"]).extra("note", "private"),
        WebhookUpdate::new()
            .url("https://x.test/private")
            .extra("note", "private"),
    );
    assert!(
        shown.contains("news") && !shown.contains("private"),
        "{shown}"
    );
}

/// `InvalidInput` works with `?` in an application.
#[test]
fn check_returns_a_standard_error() {
    let check = || -> Result<(), Box<dyn std::error::Error>> {
        Ok(Email::new("nobody", "c@d", "s").check()?)
    };
    let text = "from: not an email address; use `a@b` or `Name <a@b>`";
    assert_eq!(check().unwrap_err().to_string(), text);
}
