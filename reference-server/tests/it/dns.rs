//! Records published in the built-in zone, and what verification then finds.

use crate::harness::Sandbox;

async fn new_domain(sandbox: &Sandbox, name: &str) -> String {
    let body = format!(r#"{{"name":"{name}"}}"#);
    let created = sandbox.call("POST /api/v1/domains", &body).await;
    assert_eq!(created.status, 201, "{created:?}");
    created.id()
}

/// The five flags: mx, spf, dkim, dmarc, verified.
async fn verify(sandbox: &Sandbox, id: &str) -> [bool; 5] {
    let answer = sandbox.call(&format!("POST /api/v1/domains/{id}/verify"), "").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    // Each of the checks that follow has a flag of its own.
    let (flags, _) = answer.body.split_once(r#""records""#).expect("records after the flags");
    ["mx_verified", "spf_verified", "dkim_verified", "dmarc_verified", "verified"]
        .map(|flag| flags.contains(&format!(r#""{flag}":true"#)))
}

#[tokio::test]
async fn verification_sees_what_is_published() {
    let sandbox = Sandbox::start().await;
    let id = new_domain(&sandbox, "mail.shop.test").await;
    assert_eq!(verify(&sandbox, &id).await, [false; 5]);
    let some = r#"{"records":["mx","dkim"]}"#;
    let answer = sandbox.control("POST /_sandbox/dns/Mail.Shop.TEST/publish", some).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(
        answer
            .body
            .starts_with(r#"{"published":[{"kind":"mx","type":"MX","name":"mail.shop.test""#),
        "{answer:?}"
    );
    assert_eq!(verify(&sandbox, &id).await, [true, false, true, false, false]);
    // By its id as well, and all of them by default.
    let path = format!("POST /_sandbox/dns/{id}/publish");
    assert_eq!(sandbox.control(&path, "").await.status, 200);
    assert_eq!(verify(&sandbox, &id).await, [true; 5]);
    let one = sandbox.control("DELETE /_sandbox/dns/mail.shop.test/spf", "").await;
    assert_eq!((one.status, one.body.as_str()), (204, ""));
    assert_eq!(verify(&sandbox, &id).await, [true, false, true, true, false]);
    assert_eq!(sandbox.control("DELETE /_sandbox/dns/mail.shop.test", "").await.status, 204);
    assert_eq!(verify(&sandbox, &id).await, [false; 5]);
}

#[tokio::test]
async fn what_cannot_be_published_is_refused() {
    let sandbox = Sandbox::start().await;
    new_domain(&sandbox, "shop.example.com").await;
    new_domain(&sandbox, "shop.test").await;
    for (line, body, status, code) in [
        ("POST /_sandbox/dns/shop.example.com/publish", "", 422, "validation_failed"),
        ("POST /_sandbox/dns/nobody.test/publish", "", 404, "not_found"),
        ("POST /_sandbox/dns/shop.test/publish", r#"{"records":["a"]}"#, 422, "validation_failed"),
        ("DELETE /_sandbox/dns/nobody.test", "", 404, "not_found"),
        ("DELETE /_sandbox/dns/shop.test/txt", "", 422, "validation_failed"),
    ] {
        let answer = sandbox.control(line, body).await;
        assert_eq!(answer.status, status, "{line}: {answer:?}");
        assert_eq!(answer.between(r#""code":""#), code, "{line}");
    }
}
