//! Contacts of an audience (`docs/email-service/contacts-and-domains.md#contacts`).

use crate::harness::Sandbox;

async fn audience(sandbox: &Sandbox) -> String {
    sandbox
        .call("POST /api/v1/audiences", r#"{"name":"a"}"#)
        .await
        .id()
}

#[tokio::test]
async fn creates_updates_and_deletes_contacts() {
    let sandbox = Sandbox::start().await;
    let now = sandbox.freeze().await;
    let audience = audience(&sandbox).await;
    let line = format!("POST /api/v1/audiences/{audience}/contacts");
    let body = r#"{"email":"Ada@Example.test","name":"Ada","metadata":{"age":36,"gone":null,"plan":"pro"},"topics":["news"],"subscribed":false}"#;
    let created = sandbox.call(&line, body).await;
    let id = created.id();
    let expected = format!(
        r#"{{"id":"{id}","audienceId":"{audience}","email":"Ada@Example.test","name":"Ada","metadata":{{"age":36,"plan":"pro"}},"topics":["news"],"subscribed":true,"createdAt":"{now}","updatedAt":"{now}"}}"#
    );
    assert_eq!(
        (created.status, created.body.as_str()),
        (201, expected.as_str())
    );

    // An update without changes keeps `updatedAt`
    // (`docs/undocumented/README.md#empty-updates`).
    sandbox.advance("1s").await;
    let line = format!("PATCH /api/v1/contacts/{id}");
    for body in [
        "{}",
        r#"{"name":"Ada","email":"Ada@Example.test","metadata":{"plan":"pro"}}"#,
    ] {
        let same = sandbox.call(&line, body).await;
        assert_eq!(
            (same.status, same.body.as_str()),
            (200, expected.as_str()),
            "{body}"
        );
    }

    let body = r#"{"name":null,"metadata":{"age":null,"new":[1],"plan":{"tier":2}},"topics":[],"subscribed":false}"#;
    let updated = sandbox.call(&line, body).await;
    assert_eq!(updated.status, 200);

    let shown: serde_json::Value = serde_json::from_str(&updated.body).unwrap();
    let metadata = serde_json::json!({"new": [1], "plan": {"tier": 2}});
    assert!(
        shown["name"].is_null() && shown["metadata"] == metadata,
        "{updated:?}"
    );

    let rest = r#""topics":[],"subscribed":false"#;
    assert!(updated.body.contains(rest), "{updated:?}");
    assert_ne!(updated.between(r#""updatedAt":""#), now);

    let rejected = sandbox
        .call(&line, r#"{"email":"other@example.test"}"#)
        .await;
    assert_eq!(
        (rejected.status, rejected.between(r#""field":""#).as_str()),
        (422, "email")
    );

    let deleted = sandbox
        .call(&format!("DELETE /api/v1/contacts/{id}"), "")
        .await;
    assert_eq!((deleted.status, deleted.body.as_str()), (204, ""));
    assert_eq!(sandbox.call(&line, "{}").await.status, 404);
    assert_eq!(
        sandbox
            .call(&format!("DELETE /api/v1/contacts/{id}"), "")
            .await
            .status,
        404
    );
}

#[tokio::test]
async fn an_address_is_required_and_unique_in_an_audience() {
    let sandbox = Sandbox::start().await;
    let audience = audience(&sandbox).await;
    let line = format!("POST /api/v1/audiences/{audience}/contacts");
    for body in [
        "{}",
        r#"{"email":""}"#,
        r#"{"email":"nobody"}"#,
        r#"{"email":"Ada <a@b.test>"}"#,
    ] {
        let rejected = sandbox.call(&line, body).await;
        assert_eq!(
            (rejected.status, rejected.between(r#""field":""#).as_str()),
            (422, "email"),
            "{body}"
        );
    }

    assert_eq!(
        sandbox
            .call(&line, r#"{"email":"ada@example.test"}"#)
            .await
            .status,
        201
    );

    let duplicate = sandbox.call(&line, r#"{"email":"ADA@example.test"}"#).await;
    assert_eq!(
        (duplicate.status, duplicate.between(r#""code":""#).as_str()),
        (409, "conflict")
    );

    let other = self::audience(&sandbox).await;
    let line = format!("POST /api/v1/audiences/{other}/contacts");
    assert_eq!(
        sandbox
            .call(&line, r#"{"email":"ada@example.test"}"#)
            .await
            .status,
        201
    );
}

#[tokio::test]
async fn lists_pages_oldest_first() {
    let sandbox = Sandbox::start().await;
    let audience = audience(&sandbox).await;
    let line = format!("POST /api/v1/audiences/{audience}/contacts");
    for number in 0..5 {
        let body = format!(r#"{{"email":"c{number}@example.test"}}"#);
        assert_eq!(sandbox.call(&line, &body).await.status, 201);
    }

    let page = async |query: &str| {
        sandbox
            .call(
                &format!("GET /api/v1/audiences/{audience}/contacts{query}"),
                "",
            )
            .await
    };

    let first = page("").await;
    assert!(
        first
            .body
            .ends_with(r#""page":1,"pageSize":20,"total":5,"totalPages":1}"#),
        "{first:?}"
    );

    let second = page("?page=2&pageSize=2").await;
    assert_eq!(second.between(r#""email":""#), "c2@example.test");
    assert!(
        second
            .body
            .ends_with(r#""page":2,"pageSize":2,"total":5,"totalPages":3}"#),
        "{second:?}"
    );

    let last = page("?page=3&pageSize=2").await;
    assert_eq!(last.body.matches("example.test").count(), 1);

    let past = page("?page=2147483647&pageSize=100").await;
    assert_eq!(past.status, 200);
    assert_eq!(
        past.body,
        r#"{"data":[],"page":2147483647,"pageSize":100,"total":5,"totalPages":1}"#
    );

    for (query, field) in [
        ("?page=0", "page"),
        ("?page=2147483648", "page"),
        ("?page=-1", "page"),
        ("?page=+1", "page"),
        ("?page=x", "page"),
        ("?page=", "page"),
        ("?pageSize=0", "pageSize"),
        ("?pageSize=101", "pageSize"),
        ("?pageSize=1.5", "pageSize"),
    ] {
        let rejected = page(query).await;
        assert_eq!(
            (rejected.status, rejected.between(r#""field":""#).as_str()),
            (422, field),
            "{query}"
        );
    }
}

/// The final dot of a domain is not a part of the address.
#[tokio::test]
async fn addresses_with_a_final_dot_have_one_form() {
    let sandbox = Sandbox::start().await;
    let audience = audience(&sandbox).await;
    let line = format!("POST /api/v1/audiences/{audience}/contacts");
    let created = sandbox
        .call(&line, r#"{"email":"ada@example.test."}"#)
        .await;
    assert_eq!(created.between(r#""email":""#), "ada@example.test");
    assert_eq!(
        sandbox
            .call(&line, r#"{"email":"ada@example.test"}"#)
            .await
            .status,
        409
    );

    let same = format!("PATCH /api/v1/contacts/{}", created.id());
    assert_eq!(
        sandbox
            .call(&same, r#"{"email":"ada@example.test."}"#)
            .await
            .status,
        200
    );

    for from in ["a@sandbox.test.", "Shop <a@sandbox.test.>"] {
        let body = format!(r#"{{"from":"{from}","to":"b@x.test.","subject":"s"}}"#);
        let sent = sandbox.call("POST /api/v1/emails", &body).await;
        assert_eq!(sent.status, 202, "{sent:?}");
        let shown = sandbox
            .call(&format!("GET /api/v1/emails/{}", sent.id()), "")
            .await;
        assert_eq!(shown.between(r#""from":""#), from.replace("test.", "test"));
        assert!(shown.body.contains(r#""address":"b@x.test""#), "{shown:?}");
    }
}
