//! Requests and responses of the domain operations (`docs/email-service/contacts-and-domains.md#sending-domains`).

use crate::mock_server::MockServer;

#[tokio::test]
async fn create() {
    let server = MockServer::json(
        201,
        r#"{"id":"dom_1","name":"shop.test","verified":false,"mx_verified":false,"records":[
            {"kind":"mx","type":"MX","name":"shop.test","value":"in.mail.test","priority":10},
            {"kind":"spf","type":"TXT","name":"shop.test","value":"v=spf1 -all"}]}"#,
    )
    .await;
    let client = server.email().build().unwrap();
    let domain = client.domains().create("shop.test").await.unwrap();
    let request = server.single_request();
    assert_eq!(request.line, "POST /api/v1/domains HTTP/1.1");
    assert_eq!(request.body, r#"{"name":"shop.test"}"#);
    assert_eq!(
        (domain.id.as_str(), domain.name.as_deref()),
        ("dom_1", Some("shop.test"))
    );
    assert_eq!(
        (domain.verified, domain.mx_verified, domain.spf_verified),
        (Some(false), Some(false), None)
    );

    let records = domain.dns_records();
    assert_eq!(records.len(), 2);
    assert_eq!(records[0].kind.as_deref(), Some("mx"));
    assert_eq!(records[0].record_type.as_deref(), Some("MX"));
    assert_eq!(records[0].name.as_deref(), Some("shop.test"));
    assert_eq!(records[0].value.as_deref(), Some("in.mail.test"));
    assert_eq!(records[0].priority, Some(10));
}

#[tokio::test]
async fn decodes_dns_records_keyed_by_kind() {
    let server = MockServer::json(
        201,
        r#"{"id":"d","dns_records":{"dkim":{"type":"TXT","host":"s._domainkey","content":"k"}}}"#,
    )
    .await;
    let client = server.email().build().unwrap();
    let domain = client.domains().create("shop.test").await.unwrap();
    let records = domain.dns_records();
    assert_eq!(records[0].kind.as_deref(), Some("dkim"));
    assert_eq!(records[0].name.as_deref(), Some("s._domainkey"));
    assert_eq!(records[0].value.as_deref(), Some("k"));
}

#[tokio::test]
async fn no_dns_record_is_passed_over() {
    for (body, expected) in [
        (
            r#"{"domain":{"id":"d"},
                "receiving_dns_records":[{"record_type":"MX","value":"mx.x.test","priority":"10"}],
                "sending_dns_records":[{"record_type":"TXT","name":"x.test","value":"v=spf1 -all"}]}"#,
            vec![("MX", "mx.x.test"), ("TXT", "v=spf1 -all")],
        ),
        (
            r#"{"id":"d","dns":{"mx":{"host":"@","value":"mx.x.test"},
                "dkim":{"host":"s._domainkey","value":"k=rsa; p=x"},
                "dmarc":{"host":"_dmarc","value":"v=DMARC1"}}}"#,
            vec![
                ("MX", "mx.x.test"),
                ("TXT", "k=rsa; p=x"),
                ("TXT", "v=DMARC1"),
            ],
        ),
        (
            r#"{"id":"d","verificationDnsRecords":[
                {"recordType":"Mx","label":"x.test","mailExchange":"mx.x.test","preference":0},
                {"recordType":"CName","label":"s._domainkey.x.test","canonicalName":"s.y.test"},
                {"recordType":"Txt","label":"x.test","text":"v=spf1 -all"}]}"#,
            vec![
                ("Mx", "mx.x.test"),
                ("CName", "s.y.test"),
                ("Txt", "v=spf1 -all"),
            ],
        ),
    ] {
        let server = MockServer::json(201, body).await;
        let client = server.email().build().unwrap();
        let records = client
            .domains()
            .create("x.test")
            .await
            .unwrap()
            .dns_records();
        let mut found = Vec::new();
        for record in &records {
            let record_type = record.record_type.as_deref().unwrap_or_default();
            found.push((record_type, record.value.as_deref().unwrap_or_default()));
        }
        found.sort_unstable();
        let mut expected = expected;
        expected.sort_unstable();
        assert_eq!(found, expected, "{body}");
    }
}

#[tokio::test]
async fn list() {
    let server = MockServer::json(
        200,
        r#"[{"id":"dom_1","name":"shop.test","verified":true}]"#,
    )
    .await;
    let client = server.email().build().unwrap();
    let domains = client.domains().list().await.unwrap();
    assert_eq!(server.single_request().line, "GET /api/v1/domains HTTP/1.1");
    assert_eq!(domains[0].verified, Some(true));
}

#[tokio::test]
async fn verify() {
    let server = MockServer::json(
        200,
        r#"{"mx_verified":true,"spf_verified":true,"dkim_verified":true,"dmarc_verified":false,
            "verified":false,"checks":[{"kind":"dmarc"}]}"#,
    )
    .await;
    let client = server.email().build().unwrap();
    let result = client.domains().verify("dom_1").await.unwrap();
    let request = server.single_request();
    assert_eq!(request.line, "POST /api/v1/domains/dom_1/verify HTTP/1.1");
    assert_eq!(request.header("content-length"), Some("0"));
    assert_eq!(result.mx_verified, Some(true));
    assert_eq!(result.spf_verified, Some(true));
    assert_eq!(result.dkim_verified, Some(true));
    assert_eq!(result.dmarc_verified, Some(false));
    assert!(!result.is_verified());
    assert!(result.extra.get("checks").is_some());

    // Without `verified` in the response, the four flags decide.
    let flags = |dmarc: &str| {
        format!(
            r#"{{"mx_verified":true,"spf_verified":true,"dkim_verified":true,"dmarc_verified":{dmarc}}}"#
        )
    };

    for (body, verified) in [
        (flags("true"), true),
        (flags("false"), false),
        (flags("null"), false),
        (r#"{"verified":true,"mx_verified":false}"#.to_owned(), true),
        ("{}".to_owned(), false),
    ] {
        let client = MockServer::json(200, &body).await.email().build().unwrap();
        assert_eq!(
            client.domains().verify("d").await.unwrap().is_verified(),
            verified,
            "{body}"
        );
    }
}

#[tokio::test]
async fn delete() {
    let server = MockServer::json(200, r#"{"ok":true}"#).await;
    let client = server.email().build().unwrap();
    let deleted = client.domains().delete("dom_1").await.unwrap();
    assert_eq!(
        server.single_request().line,
        "DELETE /api/v1/domains/dom_1 HTTP/1.1"
    );
    assert_eq!(deleted.extra.get("ok"), Some(&true.into()));
}
