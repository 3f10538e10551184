//! API keys, scopes and the order of checks (`docs/email-service/README.md#authentication-and-scopes`,
//! `docs/extraction-service/README.md#authentication-and-scopes`).

use crate::harness::{EXTRACTION_KEY, KEY, Sandbox};

/// Every documented operation of the email service, with an unknown ID, and the scope that
/// it requires.
const EMAIL: [(&str, &str); 21] = [
    ("POST /api/v1/audiences", "contacts:manage"),
    ("GET /api/v1/audiences", "contacts:manage"),
    ("GET /api/v1/audiences/x", "contacts:manage"),
    ("DELETE /api/v1/audiences/x", "contacts:manage"),
    ("POST /api/v1/audiences/x/contacts", "contacts:manage"),
    ("GET /api/v1/audiences/x/contacts", "contacts:manage"),
    ("PATCH /api/v1/contacts/x", "contacts:manage"),
    ("DELETE /api/v1/contacts/x", "contacts:manage"),
    ("GET /api/v1/domains", "domains:manage"),
    ("POST /api/v1/domains", "domains:manage"),
    ("POST /api/v1/domains/x/verify", "domains:manage"),
    ("DELETE /api/v1/domains/x", "domains:manage"),
    ("POST /api/v1/emails", "emails:send"),
    ("POST /api/v1/emails/batch", "emails:send"),
    ("GET /api/v1/emails/x", "emails:read"),
    ("PATCH /api/v1/emails/x/cancel", "emails:send"),
    ("POST /api/v1/webhooks", "webhooks:manage"),
    ("GET /api/v1/webhooks", "webhooks:manage"),
    ("PATCH /api/v1/webhooks/x", "webhooks:manage"),
    ("DELETE /api/v1/webhooks/x", "webhooks:manage"),
    ("POST /api/v1/webhooks/x/test", "webhooks:manage"),
];

/// Every documented operation of the extraction service. `me` requires no scope.
const EXTRACTION: [(&str, &str); 4] = [
    ("GET /v1/me", ""),
    ("POST /v1/webhooks", "full"),
    ("GET /v1/webhooks", "full"),
    ("DELETE /v1/webhooks/x", "full"),
];

const SCOPES: [&str; 5] = [
    "emails:send",
    "emails:read",
    "contacts:manage",
    "domains:manage",
    "webhooks:manage",
];

#[tokio::test]
async fn every_operation_requires_a_key() {
    let sandbox = Sandbox::start().await;
    for (line, _) in EMAIL.into_iter().chain(EXTRACTION) {
        let response = sandbox.raw(line, "", "").await;
        assert_eq!(response.status, 401, "{line}");
        let expected = r#"{"error":{"code":"unauthorized","message":"no API key was given"}}"#;
        assert_eq!(response.body, expected, "{line}");
        assert_eq!(
            response.header("www-authenticate"),
            Some("Bearer"),
            "{line}"
        );
    }
}

#[tokio::test]
async fn rejects_unknown_malformed_and_foreign_keys() {
    let sandbox = Sandbox::start().await;
    for (line, _) in EMAIL.into_iter().chain(EXTRACTION) {
        let foreign = if line.contains("/api/") {
            EXTRACTION_KEY
        } else {
            KEY
        };
        for header in [
            "authorization: Bearer unknown\r\n".to_owned(),
            format!("authorization: Bearer {foreign}\r\n"),
            format!("authorization: Basic {KEY}\r\n"),
            format!("authorization: {KEY}\r\n"),
            "authorization: Bearer\r\n".to_owned(),
            format!("authorization: Bearer {KEY}\r\nauthorization: Bearer {KEY}\r\n"),
        ] {
            let response = sandbox.raw(line, &header, "").await;
            assert_eq!(response.status, 401, "{line} {header}");
            assert_eq!(response.between(r#""code":""#), "unauthorized");
            assert!(!response.body.contains(KEY), "{response:?}");
        }
    }
}

#[tokio::test]
async fn revoking_a_key_takes_effect_immediately() {
    let sandbox = Sandbox::start().await;
    let scopes = SCOPES.map(|scope| format!(r#""{scope}""#)).join(",");
    let (id, key) = sandbox.email_key(&scopes).await;
    assert_eq!(
        sandbox
            .with_key(&key, "GET /api/v1/audiences", "")
            .await
            .status,
        200
    );

    let created = sandbox
        .control(
            "POST /_sandbox/keys",
            r#"{"service":"extraction","scope":"full","mode":"live"}"#,
        )
        .await;
    let extraction = created.between(r#""key":""#);
    assert!(extraction.starts_with("sk_live_"), "{created:?}");
    assert_eq!(
        sandbox.with_key(&extraction, "GET /v1/me", "").await.status,
        200
    );

    for id in [id, created.id()] {
        let revoked = sandbox
            .control(&format!("DELETE /_sandbox/keys/{id}"), "")
            .await;
        assert_eq!((revoked.status, revoked.body.as_str()), (204, ""));
    }

    for (line, _) in EMAIL {
        assert_eq!(sandbox.with_key(&key, line, "").await.status, 401, "{line}");
    }

    for (line, _) in EXTRACTION {
        assert_eq!(
            sandbox.with_key(&extraction, line, "").await.status,
            401,
            "{line}"
        );
    }
}

#[tokio::test]
async fn each_operation_requires_exactly_its_scope() {
    let sandbox = Sandbox::start().await;
    for needed in SCOPES {
        let (_, alone) = sandbox.email_key(&format!(r#""{needed}""#)).await;
        let others: Vec<String> = SCOPES
            .iter()
            .filter(|scope| **scope != needed)
            .map(|scope| format!(r#""{scope}""#))
            .collect();
        let (_, lacking) = sandbox.email_key(&others.join(",")).await;
        for (line, scope) in EMAIL {
            if scope != needed {
                continue;
            }
            assert_ne!(
                sandbox.with_key(&alone, line, "").await.status,
                403,
                "{line}"
            );
            let rejected = sandbox.with_key(&lacking, line, "").await;
            assert_eq!(rejected.status, 403, "{line}");
            assert_eq!(
                rejected.between(r#""code":""#),
                "insufficient_scope",
                "{line}"
            );
            let details = format!(r#""details":{{"required_scope":"{needed}"}}"#);
            assert!(rejected.body.contains(&details), "{line}: {rejected:?}");
        }
    }
}

#[tokio::test]
async fn an_extract_only_key_may_only_call_me() {
    let sandbox = Sandbox::start().await;
    let created = sandbox
        .control(
            "POST /_sandbox/keys",
            r#"{"service":"extraction","scope":"extract_only"}"#,
        )
        .await;
    let key = created.between(r#""key":""#);
    for (line, scope) in EXTRACTION {
        let response = sandbox.with_key(&key, line, "").await;
        if scope.is_empty() {
            assert_eq!(response.status, 200, "{line}");
            assert!(
                response.body.contains(r#""scope":"extract_only""#),
                "{response:?}"
            );
        } else {
            assert_eq!(response.status, 403, "{line}");
            assert!(
                response.body.contains(r#""required_scope":"full""#),
                "{response:?}"
            );
        }
    }
}

/// 401, then 403, then 404, then errors of the body
/// (`docs/undocumented/README.md#order-of-checks`).
#[tokio::test]
async fn checks_run_in_the_specified_order() {
    let sandbox = Sandbox::start().await;
    let (_, reader) = sandbox.email_key(r#""emails:read""#).await;
    let broken = "{broken";
    let line = "PATCH /api/v1/contacts/x";
    assert_eq!(sandbox.raw(line, "", broken).await.status, 401);
    assert_eq!(sandbox.with_key(&reader, line, broken).await.status, 403);
    assert_eq!(sandbox.call(line, broken).await.status, 404);

    let line = "POST /api/v1/audiences/x/contacts";
    assert_eq!(sandbox.call(line, broken).await.status, 404);
    assert_eq!(
        sandbox
            .call("PATCH /api/v1/webhooks/x", broken)
            .await
            .status,
        404
    );

    // An invalid address is reported before an unverified domain.
    let line = "POST /api/v1/emails";
    let invalid = r#"{"from":"a@unverified.test","to":"nobody","subject":"s"}"#;
    assert_eq!(sandbox.call(line, invalid).await.status, 422);

    let unverified = r#"{"from":"a@unverified.test","to":"a@b.test","subject":"s"}"#;
    let rejected = sandbox.call(line, unverified).await;
    assert_eq!(
        (rejected.status, rejected.between(r#""code":""#).as_str()),
        (403, "domain_not_verified")
    );
    assert!(rejected.body.contains("unverified.test"), "{rejected:?}");
}

#[tokio::test]
async fn resources_of_other_organizations_are_invisible() {
    let sandbox = Sandbox::start().await;
    let (other, other_extraction) = sandbox.organization().await;
    let audience = sandbox
        .call("POST /api/v1/audiences", r#"{"name":"a"}"#)
        .await
        .id();
    let line = format!("POST /api/v1/audiences/{audience}/contacts");
    let contact = sandbox.call(&line, r#"{"email":"a@b.test"}"#).await.id();
    let domain = sandbox.call("GET /api/v1/domains", "").await.id();
    let webhook = sandbox
        .call(
            "POST /api/v1/webhooks",
            r#"{"url":"https://a.test/","events":["email.sent"]}"#,
        )
        .await
        .id();
    let email =
        r#"{"from":"a@sandbox.test","to":"b@c.test","subject":"s","scheduledAt":"2999-01-01"}"#;
    let email = sandbox.call("POST /api/v1/emails", email).await.id();
    for line in [
        format!("GET /api/v1/audiences/{audience}"),
        format!("DELETE /api/v1/audiences/{audience}"),
        format!("POST /api/v1/audiences/{audience}/contacts"),
        format!("GET /api/v1/audiences/{audience}/contacts"),
        format!("PATCH /api/v1/contacts/{contact}"),
        format!("DELETE /api/v1/contacts/{contact}"),
        format!("POST /api/v1/domains/{domain}/verify"),
        format!("DELETE /api/v1/domains/{domain}"),
        format!("GET /api/v1/emails/{email}"),
        format!("PATCH /api/v1/emails/{email}/cancel"),
        format!("PATCH /api/v1/webhooks/{webhook}"),
        format!("DELETE /api/v1/webhooks/{webhook}"),
        format!("POST /api/v1/webhooks/{webhook}/test"),
    ] {
        let response = sandbox
            .with_key(&other, &line, r#"{"email":"x@y.test"}"#)
            .await;
        assert_eq!(
            (response.status, response.between(r#""code":""#).as_str()),
            (404, "not_found"),
            "{line}"
        );
    }

    for line in ["GET /api/v1/audiences", "GET /api/v1/webhooks"] {
        assert_eq!(
            sandbox.with_key(&other, line, "").await.body,
            "[]",
            "{line}"
        );
    }

    let domains = sandbox.with_key(&other, "GET /api/v1/domains", "").await;
    assert!(!domains.body.contains(&domain), "{domains:?}");

    let endpoint = sandbox
        .with_key(
            EXTRACTION_KEY,
            "POST /v1/webhooks",
            r#"{"url":"https://a.test/","events":["extraction.failed"]}"#,
        )
        .await
        .id();
    let line = format!("DELETE /v1/webhooks/{endpoint}");
    assert_eq!(
        sandbox.with_key(&other_extraction, &line, "").await.status,
        404
    );
    // The webhooks of the two services are separate.
    assert_eq!(
        sandbox
            .call(&format!("DELETE /api/v1/webhooks/{endpoint}"), "")
            .await
            .status,
        404
    );
    assert_eq!(
        sandbox.with_key(EXTRACTION_KEY, &line, "").await.status,
        204
    );
}

#[tokio::test]
async fn limits_the_requests_per_second_of_a_key() {
    let sandbox = Sandbox::with(|builder| builder.rate_limit(1)).await;
    let (other, _) = sandbox.organization().await;
    // Even on a slow machine, a hundred requests do not take a hundred seconds.
    let mut tries = 0;
    let rejected = loop {
        let response = sandbox.call("GET /api/v1/audiences", "").await;
        if response.status != 200 {
            break response;
        }
        tries += 1;
        assert!(tries < 100, "the rate limit had no effect");
    };
    assert_eq!(rejected.status, 429, "{rejected:?}");
    assert_eq!(rejected.between(r#""code":""#), "rate_limited");
    assert_eq!(rejected.header("retry-after"), Some("1"));
    assert_eq!(
        sandbox
            .with_key(&other, "GET /api/v1/audiences", "")
            .await
            .status,
        200
    );
}
