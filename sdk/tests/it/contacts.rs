//! Requests and responses of the contact operations
//! (`docs/email-service/contacts-and-domains.md#contacts`).

use futures_util::TryStreamExt;
use serde_json::json;
use svc_sdk::email::{ContactUpdate, NewContact};
use svc_sdk::{Dialect, ErrorKind, Operation, Outcome};

use crate::mock_server::{MockServer, response};

#[tokio::test]
async fn create() {
    let server = MockServer::json(
        201,
        r#"{"id":"con_1","email":"ada@x.test","name":"Ada","metadata":{"age":36},
            "topics":["news"],"subscribed":true}"#,
    )
    .await;
    let client = server.email().build().unwrap();
    let contact = NewContact::new("ada@x.test")
        .name("Ada")
        .metadata("age", 36)
        .topic("news");
    let contact = client.contacts().create("aud_1", contact).await.unwrap();
    let request = server.single_request();
    assert_eq!(
        request.line,
        "POST /api/v1/audiences/aud_1/contacts HTTP/1.1"
    );
    assert_eq!(
        request.body,
        r#"{"email":"ada@x.test","name":"Ada","metadata":{"age":36},"topics":["news"]}"#
    );
    assert_eq!(contact.id, "con_1");
    assert_eq!(contact.email.as_deref(), Some("ada@x.test"));
    assert_eq!(contact.metadata.unwrap()["age"], json!(36));
    assert_eq!(contact.topics.unwrap(), ["news"]);
    assert_eq!(contact.subscribed, Some(true));
}

#[tokio::test]
async fn create_from_an_email_address() {
    let server = MockServer::json(201, r#"{"id":"con_1"}"#).await;
    let client = server.email().build().unwrap();
    client
        .contacts()
        .create("aud_1", "ada@x.test")
        .await
        .unwrap();
    assert_eq!(server.single_request().body, r#"{"email":"ada@x.test"}"#);

    // An impossible address is rejected before sending, unless local checks are disabled.
    let error = client.contacts().create("aud_1", "ada").await.unwrap_err();
    assert!(error.is_invalid_input(), "{error}");
    assert_eq!(server.request_count(), 1);

    let client = server.email().local_checks(false).build().unwrap();
    client.contacts().create("aud_1", "ada").await.unwrap();
}

#[tokio::test]
async fn list() {
    let server = MockServer::json(
        200,
        r#"{"data":[{"id":"con_1"}],"page":2,"pageSize":1,"total":3,"totalPages":3}"#,
    )
    .await;
    let client = server.email().build().unwrap();
    let call = client.contacts().list("aud_1").page(7).page_size(1).page(2);
    let page = call.await.unwrap();
    assert_eq!(
        server.single_request().line,
        "GET /api/v1/audiences/aud_1/contacts?pageSize=1&page=2 HTTP/1.1"
    );
    assert_eq!(
        (page.page, page.page_size, page.total, page.total_pages),
        (Some(2), Some(1), Some(3), Some(3))
    );
    assert_eq!(page.len(), 1);
}

#[tokio::test]
async fn list_sends_only_the_paging_parameters_that_are_set() {
    let server = MockServer::json(200, "[]").await;
    let client = server.email().build().unwrap();
    let page = client.contacts().list("aud_1").await.unwrap();
    assert!(page.is_empty());
    assert_eq!(
        server.single_request().line,
        "GET /api/v1/audiences/aud_1/contacts HTTP/1.1"
    );
}

#[tokio::test]
async fn update() {
    let server = MockServer::json(200, r#"{"id":"con_1","subscribed":false}"#).await;
    let client = server.email().build().unwrap();
    let update = ContactUpdate::new()
        .name("Ada L.")
        .metadata("age", serde_json::Value::Null)
        .topics(["a", "b"])
        .subscribed(false);
    let contact = client.contacts().update("con_1", &update).await.unwrap();
    let request = server.single_request();
    assert_eq!(request.line, "PATCH /api/v1/contacts/con_1 HTTP/1.1");
    assert_eq!(
        request.body,
        r#"{"name":"Ada L.","metadata":{"age":null},"topics":["a","b"],"subscribed":false}"#
    );
    assert_eq!(contact.subscribed, Some(false));
}

#[tokio::test]
async fn update_distinguishes_unset_from_empty_topics() {
    let server = MockServer::json(200, r#"{"id":"con_1"}"#).await;
    let client = server.email().build().unwrap();
    client
        .contacts()
        .update("con_1", ContactUpdate::new())
        .await
        .unwrap();
    let none: [&str; 0] = [];
    client
        .contacts()
        .update("con_1", ContactUpdate::new().topics(none))
        .await
        .unwrap();
    let bodies: Vec<_> = server
        .received_requests()
        .into_iter()
        .map(|request| request.body)
        .collect();
    assert_eq!(bodies, ["{}", r#"{"topics":[]}"#]);
}

#[tokio::test]
async fn delete() {
    let server = MockServer::json(204, "").await;
    let client = server.email().build().unwrap();
    client.contacts().delete("con_1").await.unwrap();
    assert_eq!(
        server.single_request().line,
        "DELETE /api/v1/contacts/con_1 HTTP/1.1"
    );
}

/// Streams all contacts from a server with these responses. Returns the ids, the queries
/// received, and the error at the end, if any.
async fn stream(
    first_page: u64,
    responses: &[&str],
) -> (Vec<String>, Vec<String>, Option<ErrorKind>) {
    let server = MockServer::start(responses.iter().map(|body| response(200, body))).await;
    let mut dialect = Dialect::new();
    dialect.set(&format!("first-page={first_page}")).unwrap();
    let client = server.email().dialect(dialect).build().unwrap();
    let mut stream = client.contacts().stream("a");
    let mut ids = Vec::new();
    let error = loop {
        match stream.try_next().await {
            Ok(Some(contact)) => ids.push(contact.id),
            Ok(None) => break None,
            Err(error) => break Some(error.kind().clone()),
        }
    };
    let queries = server
        .request_lines()
        .into_iter()
        .map(|line| {
            let query = line
                .split(' ')
                .nth(1)
                .unwrap()
                .strip_prefix("/api/v1/audiences/a/contacts");
            query.unwrap().to_owned()
        })
        .collect();
    (ids, queries, error)
}

#[tokio::test]
async fn stream_follows_the_page_numbers_of_the_responses() {
    let (ids, queries, error) = stream(
        1,
        &[
            r#"{"data":[{"id":"1"},{"id":"2"}],"page":1,"total":3,"totalPages":2}"#,
            r#"{"data":[{"id":"3"}],"page":2,"total":3,"totalPages":2}"#,
        ],
    )
    .await;
    assert_eq!(
        (ids.join(""), queries.join(" "), error),
        ("123".into(), " ?page=2".into(), None)
    );

    // Either the total or the number of pages is enough to detect the end.
    for end in [r#""total":3"#, r#""totalPages":2"#] {
        let first = format!(r#"{{"data":[{{"id":"1"}},{{"id":"2"}}],{end}}}"#);
        let second = format!(r#"{{"data":[{{"id":"3"}}],{end}}}"#);
        let (ids, queries, error) = stream(1, &[&first, &second, "[]"]).await;
        assert_eq!(
            (ids.join(""), queries.join(" "), error),
            ("123".into(), " ?page=2".into(), None)
        );
    }

    // Pages numbered from zero.
    let (ids, queries, error) = stream(
        1,
        &[
            r#"{"data":[{"id":"1"}],"page":0,"totalPages":2}"#,
            r#"{"data":[{"id":"2"}],"page":1,"totalPages":2}"#,
        ],
    )
    .await;
    assert_eq!(
        (ids.join(""), queries.join(" "), error),
        ("12".into(), " ?page=1".into(), None)
    );
}

#[tokio::test]
async fn stream_counts_pages_if_responses_have_no_page_number() {
    let bodies = [r#"[{"id":"1"}]"#, r#"[{"id":"2"}]"#, "[]"];
    let (ids, queries, error) = stream(1, &bodies).await;
    let queries = queries.join(" ");
    assert_eq!(
        (ids.join(""), queries, error),
        ("12".into(), " ?page=2 ?page=3".into(), None)
    );

    let (ids, queries, error) = stream(0, &bodies).await;
    let queries = queries.join(" ");
    assert_eq!(
        (ids.join(""), queries, error),
        ("12".into(), " ?page=1 ?page=2".into(), None)
    );
}

#[tokio::test]
async fn stream_reads_an_unpaged_list_once() {
    let (ids, queries, error) = stream(1, &[r#"[{"id":"1"},{"id":"2"}]"#]).await;
    assert_eq!((ids.join(""), queries.len(), error), ("12".into(), 2, None));
}

#[tokio::test]
async fn stream_detects_a_repeated_page() {
    let (ids, queries, error) = stream(1, &[r#"{"data":[{"id":"1"}],"page":1,"total":9}"#]).await;
    assert_eq!((ids.join(""), queries.len()), ("1".into(), 2));
    assert_eq!(error, Some(ErrorKind::PageRepeated));

    let server = MockServer::json(200, r#"{"data":[{"id":"1"}],"page":1,"total":9}"#).await;
    let client = server.email().build().unwrap();
    let error = client
        .contacts()
        .stream("a")
        .try_collect::<Vec<_>>()
        .await
        .unwrap_err();
    assert_eq!(
        (error.operation(), error.outcome()),
        (Some(Operation::ContactsList), Outcome::Refused)
    );

    // A longer cycle is detected as well.
    let (ids, _, error) = stream(
        1,
        &[r#"[{"id":"1"}]"#, r#"[{"id":"2"}]"#, r#"[{"id":"1"}]"#],
    )
    .await;
    assert_eq!(
        (ids.join(""), error),
        ("12".into(), Some(ErrorKind::PageRepeated))
    );
}

#[tokio::test]
async fn stream_yields_earlier_pages_before_an_error() {
    let server = MockServer::start([
        response(200, r#"{"data":[{"id":"1"}],"page":1,"total":9}"#),
        response(404, r#"{"error":{"code":"not_found","message":"gone"}}"#),
    ])
    .await;
    let client = server.email().build().unwrap();
    let mut contacts = client.contacts().stream("a").page_size(1);
    assert_eq!(contacts.try_next().await.unwrap().unwrap().id, "1");
    assert!(contacts.try_next().await.unwrap_err().is_not_found());
    assert!(contacts.try_next().await.unwrap().is_none());
    assert!(
        server.request_lines()[1].contains("?page=2&pageSize=1 "),
        "{:?}",
        server.request_lines()
    );
}
