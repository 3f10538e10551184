//! Records published in the built-in zone, and the verification of domains by them.

use crate::harness::Sandbox;

async fn new_domain(sandbox: &Sandbox, name: &str) -> String {
    let body = format!(r#"{{"name":"{name}"}}"#);
    let created = sandbox.call("POST /api/v1/domains", &body).await;
    assert_eq!(created.status, 201, "{created:?}");
    created.id()
}

/// Verifies a domain. Returns the flags for MX, SPF, DKIM, DMARC, and the overall
/// result.
async fn verify(sandbox: &Sandbox, id: &str) -> [bool; 5] {
    let response = sandbox
        .call(&format!("POST /api/v1/domains/{id}/verify"), "")
        .await;
    assert_eq!(response.status, 200, "{response:?}");
    // Cut off the checks, each of which has a `verified` flag as well.
    let (flags, _) = response
        .body
        .split_once(r#""records""#)
        .expect("records after the flags");
    [
        "mx_verified",
        "spf_verified",
        "dkim_verified",
        "dmarc_verified",
        "verified",
    ]
    .map(|flag| flags.contains(&format!(r#""{flag}":true"#)))
}

#[tokio::test]
async fn verification_finds_the_published_records() {
    let sandbox = Sandbox::start().await;
    let id = new_domain(&sandbox, "mail.shop.test").await;
    assert_eq!(verify(&sandbox, &id).await, [false; 5]);

    let some = r#"{"records":["mx","dkim"]}"#;
    let response = sandbox
        .control("POST /_sandbox/dns/Mail.Shop.TEST/publish", some)
        .await;
    assert_eq!(response.status, 200, "{response:?}");
    assert!(
        response
            .body
            .starts_with(r#"{"published":[{"kind":"mx","type":"MX","name":"mail.shop.test""#),
        "{response:?}"
    );
    assert_eq!(
        verify(&sandbox, &id).await,
        [true, false, true, false, false]
    );

    // Also accepts the domain's id, and publishes all records by default.
    let path = format!("POST /_sandbox/dns/{id}/publish");
    assert_eq!(sandbox.control(&path, "").await.status, 200);
    assert_eq!(verify(&sandbox, &id).await, [true; 5]);

    let withdrawn = sandbox
        .control("DELETE /_sandbox/dns/mail.shop.test/spf", "")
        .await;
    assert_eq!((withdrawn.status, withdrawn.body.as_str()), (204, ""));
    assert_eq!(
        verify(&sandbox, &id).await,
        [true, false, true, true, false]
    );
    assert_eq!(
        sandbox
            .control("DELETE /_sandbox/dns/mail.shop.test", "")
            .await
            .status,
        204
    );
    assert_eq!(verify(&sandbox, &id).await, [false; 5]);
}

#[tokio::test]
async fn rejects_unpublishable_names_and_kinds() {
    let sandbox = Sandbox::start().await;
    new_domain(&sandbox, "shop.example.com").await;
    new_domain(&sandbox, "shop.test").await;
    for (line, body, status, code) in [
        (
            "POST /_sandbox/dns/shop.example.com/publish",
            "",
            422,
            "validation_failed",
        ),
        (
            "POST /_sandbox/dns/nobody.test/publish",
            "",
            404,
            "not_found",
        ),
        (
            "POST /_sandbox/dns/shop.test/publish",
            r#"{"records":["a"]}"#,
            422,
            "validation_failed",
        ),
        ("DELETE /_sandbox/dns/nobody.test", "", 404, "not_found"),
        (
            "DELETE /_sandbox/dns/shop.test/txt",
            "",
            422,
            "validation_failed",
        ),
    ] {
        let response = sandbox.control(line, body).await;
        assert_eq!(response.status, status, "{line}: {response:?}");
        assert_eq!(response.between(r#""code":""#), code, "{line}");
    }
}

/// The domain of another organization is named with it.
#[tokio::test]
async fn a_domain_of_another_organization_is_said_to_be_there() {
    let sandbox = Sandbox::start().await;
    let new = r#"{"name":"Shop","domain":"shop.test"}"#;
    let shop = sandbox
        .control("POST /_sandbox/organizations", new)
        .await
        .id();
    let expected = format!(
        r#"no such domain; the organization \"Shop\" ({shop}) has it: name that as `organization`"#
    );
    for line in [
        "POST /_sandbox/dns/shop.test/publish",
        "DELETE /_sandbox/dns/shop.test",
    ] {
        let body = if line.starts_with("POST") { "{}" } else { "" };
        let unknown = sandbox.control(line, body).await;
        assert!(
            unknown.status == 404 && unknown.body.contains(&expected),
            "{unknown:?}"
        );
    }

    let unknown = sandbox
        .control("DELETE /_sandbox/dns/elsewhere.test", "")
        .await;
    assert!(
        unknown.body.contains(r#""message":"no such domain""#),
        "{unknown:?}"
    );

    let mail = r#"{"from":"a@b.test","to":"x@shop.test","subject":"s"}"#;
    let refused = sandbox.control("POST /_sandbox/inbound", mail).await;
    assert!(
        refused
            .body
            .contains(r#"has it: name that as `organization`"#),
        "{refused:?}"
    );
}
