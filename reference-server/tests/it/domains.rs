//! Sending domains (`docs/email-service/contacts-and-domains.md#sending-domains`).

use crate::harness::Sandbox;

#[tokio::test]
async fn verifies_the_seeded_domain_through_dns() {
    let sandbox = Sandbox::start().await;
    let id = sandbox.call("GET /api/v1/domains", "").await.id();
    let verified = sandbox
        .call(&format!("POST /api/v1/domains/{id}/verify"), "")
        .await;
    assert_eq!(verified.status, 200);

    let flags = r#""mx_verified":true,"spf_verified":true,"dkim_verified":true,"dmarc_verified":true,"verified":true"#;
    assert!(verified.body.contains(flags), "{verified:?}");
    assert_eq!(
        verified.body.matches(r#""expected""#).count(),
        4,
        "{verified:?}"
    );
}

#[tokio::test]
async fn a_new_domain_has_records_and_is_unverified() {
    let sandbox = Sandbox::start().await;
    let created = sandbox
        .call("POST /api/v1/domains", r#"{"name":"Shop.Test."}"#)
        .await;
    assert_eq!(created.status, 201, "{created:?}");
    assert!(
        created.body.contains(r#""name":"shop.test""#),
        "{created:?}"
    );

    let flags = r#""mx_verified":false,"spf_verified":false,"dkim_verified":false,"dmarc_verified":false,"verified":false"#;
    assert!(created.body.contains(flags), "{created:?}");

    for kind in [
        r#""kind":"mx","type":"MX""#,
        r#""kind":"spf","type":"TXT""#,
        r#""kind":"dkim","type":"TXT""#,
        r#""kind":"dmarc","type":"TXT""#,
    ] {
        assert!(created.body.contains(kind), "{kind} in {created:?}");
    }

    let verified = sandbox
        .call(&format!("POST /api/v1/domains/{}/verify", created.id()), "")
        .await;
    assert_eq!(verified.status, 200);
    assert!(verified.body.contains(flags), "{verified:?}");

    let duplicate = sandbox
        .call("POST /api/v1/domains", r#"{"name":"SHOP.test"}"#)
        .await;
    assert_eq!(
        (duplicate.status, duplicate.between(r#""code":""#).as_str()),
        (409, "conflict")
    );

    let (other, _) = sandbox.organization().await;
    let shared = sandbox
        .with_key(&other, "POST /api/v1/domains", r#"{"name":"shop.test"}"#)
        .await;
    assert_eq!(shared.status, 201);

    let deleted = sandbox
        .call(&format!("DELETE /api/v1/domains/{}", created.id()), "")
        .await;
    assert_eq!(
        (deleted.status, deleted.body.as_str()),
        (200, r#"{"ok":true}"#)
    );

    let missing = sandbox
        .call(&format!("DELETE /api/v1/domains/{}", created.id()), "")
        .await;
    assert_eq!(missing.status, 404);
}

#[tokio::test]
async fn rejects_invalid_domain_names() {
    let sandbox = Sandbox::start().await;
    for name in [
        "", " ", "test", "a b.test", "-.test", "a..test", "1.2.3.4", "a@b.test",
    ] {
        let body = format!(r#"{{"name":"{name}"}}"#);
        let rejected = sandbox.call("POST /api/v1/domains", &body).await;
        assert_eq!(
            (rejected.status, rejected.between(r#""field":""#).as_str()),
            (422, "name"),
            "{name}"
        );
    }
}

/// After a domain is deleted, its scheduled emails are not sent either
/// (`docs/undocumented/services.md#addresses`).
#[tokio::test]
async fn a_scheduled_email_of_a_deleted_domain_fails() {
    let sandbox = Sandbox::start().await;
    sandbox.freeze().await;
    let now = sandbox
        .control("GET /_sandbox/clock", "")
        .await
        .between(r#""now":""#);
    let year: i32 = now[..4].parse().unwrap();
    let body = format!(
        r#"{{"from":"a@sandbox.test","to":"b@c.test","subject":"s","scheduledAt":"{}{}"}}"#,
        year + 1,
        &now[4..10].replace("02-29", "02-28"),
    );
    let email = sandbox.call("POST /api/v1/emails", &body).await.id();
    let domain = sandbox.call("GET /api/v1/domains", "").await.id();
    sandbox
        .call(&format!("DELETE /api/v1/domains/{domain}"), "")
        .await;
    sandbox.advance("366d").await;
    let email = sandbox
        .call(&format!("GET /api/v1/emails/{email}"), "")
        .await;
    assert_eq!(email.between(r#""status":""#), "failed");
    assert_eq!(email.between(r#""lastEvent":""#), "email.failed");
}
