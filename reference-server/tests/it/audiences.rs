//! Audiences (`docs/email-service/contacts-and-domains.md`).

use crate::harness::Sandbox;

#[tokio::test]
async fn creates_gets_lists_and_deletes_audiences() {
    let sandbox = Sandbox::start().await;
    let now = sandbox.freeze().await;

    let created = sandbox
        .call("POST /api/v1/audiences", r#"{"name":"Readers","extra":1}"#)
        .await;
    let id = created.id();
    let expected =
        format!(r#"{{"id":"{id}","name":"Readers","createdAt":"{now}","updatedAt":"{now}"}}"#);
    assert_eq!(
        (created.status, created.body.as_str()),
        (201, expected.as_str())
    );
    assert!(id.starts_with("aud_"), "{id}");

    let found = sandbox
        .call(&format!("GET /api/v1/audiences/{id}"), "")
        .await;
    assert_eq!(
        (found.status, found.body.as_str()),
        (200, expected.as_str())
    );

    let second = sandbox
        .call("POST /api/v1/audiences", r#"{"name":"Readers"}"#)
        .await;
    let listed = sandbox.call("GET /api/v1/audiences", "").await;
    let both = format!("[{expected},{}]", second.body);
    assert_eq!((listed.status, listed.body.as_str()), (200, both.as_str()));

    let deleted = sandbox
        .call(&format!("DELETE /api/v1/audiences/{id}"), "")
        .await;
    assert_eq!((deleted.status, deleted.body.as_str()), (204, ""));

    for line in ["GET", "DELETE"] {
        let missing = sandbox
            .call(&format!("{line} /api/v1/audiences/{id}"), "")
            .await;
        let expected = r#"{"error":{"code":"not_found","message":"no such audience"}}"#;
        assert_eq!((missing.status, missing.body.as_str()), (404, expected));
    }
}

#[tokio::test]
async fn rejects_a_missing_or_invalid_name() {
    let sandbox = Sandbox::start().await;
    for (body, message) in [
        ("{}", "is required"),
        (r#"{"name":null}"#, "is required"),
        (r#"{"name":" "}"#, "must not be empty"),
        (r#"{"name":7}"#, "must be a string"),
    ] {
        let rejected = sandbox.call("POST /api/v1/audiences", body).await;
        let expected = format!(
            r#"{{"error":{{"code":"validation_failed","message":"name: {message}","details":{{"fields":[{{"field":"name","message":"{message}"}}]}}}}}}"#
        );
        assert_eq!(
            (rejected.status, rejected.body.as_str()),
            (422, expected.as_str()),
            "{body}"
        );
    }
}

/// `docs/undocumented/services.md#audience-deletion`.
#[tokio::test]
async fn deleting_an_audience_deletes_its_contacts() {
    let sandbox = Sandbox::start().await;
    let audience = sandbox
        .call("POST /api/v1/audiences", r#"{"name":"a"}"#)
        .await
        .id();
    let line = format!("POST /api/v1/audiences/{audience}/contacts");
    let contact = sandbox.call(&line, r#"{"email":"a@b.test"}"#).await.id();
    sandbox
        .call(&format!("DELETE /api/v1/audiences/{audience}"), "")
        .await;
    let missing = sandbox
        .call(&format!("PATCH /api/v1/contacts/{contact}"), "{}")
        .await;
    assert_eq!(missing.status, 404);
}

/// `docs/control-interface.md#domains-and-audiences`.
#[tokio::test]
async fn the_control_interface_lists_them_page_by_page() {
    let sandbox = Sandbox::start().await;
    let mut audiences = Vec::new();
    for name in ["a", "b", "c"] {
        let body = format!(r#"{{"name":"{name}"}}"#);
        audiences.push(sandbox.call("POST /api/v1/audiences", &body).await.body);
    }

    let id = audiences[0].split('"').nth(3).expect("an ID").to_owned();
    let line = format!("POST /api/v1/audiences/{id}/contacts");
    let mut contacts = Vec::new();
    for name in ["ada", "bob"] {
        let contact = format!(r#"{{"email":"{name}@x.test","metadata":{{"seats":5}}}}"#);
        contacts.push(sandbox.call(&line, &contact).await.body);
    }

    let requests = sandbox
        .control("GET /_sandbox/requests?limit=100", "")
        .await
        .body;
    let domains = sandbox.call("GET /api/v1/domains", "").await.body;
    let domains = domains.trim_matches(['[', ']']).to_owned();

    for (path, all) in [
        ("/_sandbox/domains".to_owned(), &[domains][..]),
        ("/_sandbox/audiences".to_owned(), &audiences),
        (format!("/_sandbox/audiences/{id}/contacts"), &contacts),
    ] {
        let listed = sandbox.control(&format!("GET {path}"), "").await;
        let expected = format!(r#"{{"data":[{}],"next":null}}"#, all.join(","));
        assert_eq!(
            (listed.status, listed.body.as_str()),
            (200, expected.as_str()),
            "{path}"
        );
        let mut query = "limit=1".to_owned();
        for (number, one) in (1..).zip(all) {
            let page = sandbox.control(&format!("GET {path}?{query}"), "").await;
            assert!(
                page.body
                    .starts_with(&format!(r#"{{"data":[{one}],"next":"#)),
                "{page:?}"
            );
            assert_eq!(
                page.body.ends_with("null}"),
                number == all.len(),
                "{page:?}"
            );
            if number < all.len() {
                query = format!("limit=1&cursor={}", page.between(r#""next":""#));
            }
        }
        // A seed file may give an audience the ID `2`.
        let any_id = path == "/_sandbox/audiences";
        for bad in ["limit=0", "page=1", "cursor=2"]
            .iter()
            .take(if any_id { 2 } else { 3 })
        {
            let refused = sandbox.control(&format!("GET {path}?{bad}"), "").await;
            assert_eq!(refused.status, 422, "{path}?{bad}");
        }
    }

    // Looking is not in the log of requests, which has the one for the documented list.
    let after = sandbox
        .control("GET /_sandbox/requests?limit=100", "")
        .await
        .body;
    assert_eq!(
        after.matches(r#""id":"req_"#).count(),
        requests.matches(r#""id":"req_"#).count() + 1
    );

    sandbox
        .control("POST /_sandbox/organizations", r#"{"name":"Other"}"#)
        .await;
    let line = "GET /_sandbox/audiences?organization=Other";
    assert_eq!(
        sandbox.control(line, "").await.body,
        r#"{"data":[],"next":null}"#
    );

    let domains = sandbox
        .control("GET /_sandbox/domains?organization=Other", "")
        .await;
    assert!(
        !domains.body.contains(r#""name":"sandbox.test""#),
        "{domains:?}"
    );

    let line = format!("GET /_sandbox/audiences/{id}/contacts?organization=Other");
    assert_eq!(sandbox.control(&line, "").await.status, 404);
}
