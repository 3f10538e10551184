//! Domains over the wire (`docs/email-service/domains.md`, `docs/undocumented/email-service.md#duplicates`, `docs/undocumented/email-service.md#dns-records`, `docs/undocumented/email-service.md#repeated-verification`).

use crate::harness::Sandbox;

#[tokio::test]
async fn the_seeded_domain_is_verified_by_a_real_look_up() {
    let sandbox = Sandbox::start().await;
    let id = sandbox.call("GET /api/v1/domains", "").await.id();
    let verified = sandbox.call(&format!("POST /api/v1/domains/{id}/verify"), "").await;
    assert_eq!(verified.status, 200);
    let flags = r#""mx_verified":true,"spf_verified":true,"dkim_verified":true,"dmarc_verified":true,"verified":true"#;
    assert!(verified.body.contains(flags), "{verified:?}");
    assert_eq!(verified.body.matches(r#""expected""#).count(), 4, "{verified:?}");
}

#[tokio::test]
async fn a_new_domain_shows_its_records_and_is_not_verified() {
    let sandbox = Sandbox::start().await;
    let made = sandbox.call("POST /api/v1/domains", r#"{"name":"Shop.Test."}"#).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert!(made.body.contains(r#""name":"shop.test""#), "{made:?}");
    let flags = r#""mx_verified":false,"spf_verified":false,"dkim_verified":false,"dmarc_verified":false,"verified":false"#;
    assert!(made.body.contains(flags), "{made:?}");
    for kind in [
        r#""kind":"mx","type":"MX""#,
        r#""kind":"spf","type":"TXT""#,
        r#""kind":"dkim","type":"TXT""#,
        r#""kind":"dmarc","type":"TXT""#,
    ] {
        assert!(made.body.contains(kind), "{kind} in {made:?}");
    }
    let verified = sandbox.call(&format!("POST /api/v1/domains/{}/verify", made.id()), "").await;
    assert_eq!(verified.status, 200);
    assert!(verified.body.contains(flags), "{verified:?}");

    let taken = sandbox.call("POST /api/v1/domains", r#"{"name":"SHOP.test"}"#).await;
    assert_eq!((taken.status, taken.between(r#""code":""#).as_str()), (409, "conflict"));
    let (other, _) = sandbox.organization().await;
    let shared = sandbox.with_key(&other, "POST /api/v1/domains", r#"{"name":"shop.test"}"#).await;
    assert_eq!(shared.status, 201);

    let deleted = sandbox.call(&format!("DELETE /api/v1/domains/{}", made.id()), "").await;
    assert_eq!((deleted.status, deleted.body.as_str()), (200, r#"{"ok":true}"#));
    let gone = sandbox.call(&format!("DELETE /api/v1/domains/{}", made.id()), "").await;
    assert_eq!(gone.status, 404);
}

#[tokio::test]
async fn what_is_no_domain_is_refused() {
    let sandbox = Sandbox::start().await;
    for name in ["", " ", "test", "a b.test", "-.test", "a..test", "1.2.3.4", "a@b.test"] {
        let body = format!(r#"{{"name":"{name}"}}"#);
        let refused = sandbox.call("POST /api/v1/domains", &body).await;
        assert_eq!(
            (refused.status, refused.between(r#""field":""#).as_str()),
            (422, "name"),
            "{name}"
        );
    }
}

/// A deleted domain sends nothing any more, scheduled emails included (`docs/undocumented/email-service.md#addresses`).
#[tokio::test]
async fn a_scheduled_email_of_a_deleted_domain_fails() {
    let sandbox = Sandbox::start().await;
    sandbox.freeze().await;
    let now = sandbox.control("GET /_sandbox/clock", "").await.between(r#""now":""#);
    let year: i32 = now[..4].parse().unwrap();
    let body = format!(
        r#"{{"from":"a@sandbox.test","to":"b@c.test","subject":"s","scheduledAt":"{}{}"}}"#,
        year + 1,
        &now[4..10].replace("02-29", "02-28"),
    );
    let email = sandbox.call("POST /api/v1/emails", &body).await.id();
    let domain = sandbox.call("GET /api/v1/domains", "").await.id();
    sandbox.call(&format!("DELETE /api/v1/domains/{domain}"), "").await;
    sandbox.advance("366d").await;
    let email = sandbox.call(&format!("GET /api/v1/emails/{email}"), "").await;
    assert_eq!(email.between(r#""status":""#), "failed");
    assert_eq!(email.between(r#""lastEvent":""#), "email.failed");
}
