//! Lenient handling of details that the services' reference leaves open, one test per point
//! of `docs/undocumented/README.md`. Points about a single resource are tested with that
//! resource.

use svc_sdk::Dialect;

use crate::mock_server::{MockServer, response, response_with_headers};

#[tokio::test]
async fn accepts_any_2xx_status() {
    for status in [200, 201, 202, 203, 299] {
        let server = MockServer::json(status, r#"{"id":"x"}"#).await;
        let client = server.email().build().unwrap();
        assert_eq!(client.audiences().create("A").await.unwrap().id, "x");
    }

    // Also an empty one, except for a creation, whose response contains the id.
    let server = MockServer::json(204, "").await;
    let client = server.email().build().unwrap();
    assert_eq!(client.emails().cancel("e").await.unwrap().id, "");
}

#[tokio::test]
async fn decodes_bare_and_wrapped_lists() {
    for body in [
        r#"[{"id":"1"},{"id":"2"}]"#,
        r#"{"data":[{"id":"1"},{"id":"2"}]}"#,
        r#"{"whatever":[{"id":"1"},{"id":"2"}],"total":2,"next":null}"#,
        r#"{"data":[{"id":"1"},{"id":"2"}],"errors":[]}"#,
        r#"{"links":["x"],"audiences":[{"id":"1"},{"id":"2"}]}"#,
        r#"{"ok":true,"data":{"items":[{"id":"1"},{"id":"2"}],"total":2}}"#,
        " \n[{\"id\":\"1\"},{\"id\":\"2\"}] ",
    ] {
        let server = MockServer::json(200, body).await;
        let client = server.email().build().unwrap();
        let list = client.audiences().list().await.unwrap();
        assert_eq!(
            list.iter().map(|item| &*item.id).collect::<Vec<_>>(),
            ["1", "2"],
            "{body}"
        );
    }
}

#[tokio::test]
async fn keeps_fields_next_to_the_items() {
    let body = r#"{"items":[{"id":"1"}],"cursor":"c","meta":{"total":"7","lastPage":4}}"#;
    let server = MockServer::json(200, body).await;
    let list = server
        .email()
        .build()
        .unwrap()
        .domains()
        .list()
        .await
        .unwrap();
    assert_eq!(list.extra["cursor"], "c");
    assert_eq!((list.total, list.total_pages), (Some(7), Some(4)));
}

/// A byte order mark is ignored.
#[tokio::test]
async fn accepts_a_byte_order_mark() {
    for body in ["\u{feff}{\"id\":\"x\"}", "\u{feff}[{\"id\":\"x\"}]"] {
        let server = MockServer::json(200, body).await;
        let client = server.email().build().unwrap();
        if !body.ends_with(']') {
            assert_eq!(client.emails().get("x").await.unwrap().id, "x");
        } else {
            assert_eq!(client.domains().list().await.unwrap()[0].id, "x");
        }
    }
}

#[tokio::test]
async fn accepts_any_body_of_a_delete() {
    for (status, body) in [
        (200, r#"{"ok":true}"#),
        (204, ""),
        (200, "deleted"),
        (202, "[]"),
    ] {
        let server = MockServer::json(status, body).await;
        server
            .email()
            .build()
            .unwrap()
            .domains()
            .delete("d")
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn reads_request_ids_from_common_headers() {
    for name in ["X-Request-Id", "Request-Id", "x-amzn-requestid", "CF-Ray"] {
        let header = format!("{name}: req_1\r\n");
        let server = MockServer::start([
            response_with_headers(200, &header, r#"{"id":"x"}"#),
            response_with_headers(404, &header, ""),
        ])
        .await;
        let client = server.email().build().unwrap();
        let response = client.audiences().get("x").with_response().await.unwrap();
        assert_eq!(response.request_id.as_deref(), Some("req_1"));
        let error = client.audiences().get("x").await.unwrap_err();
        assert_eq!(error.request_id(), Some("req_1"));
    }
}

#[tokio::test]
async fn keeps_timestamps_that_it_cannot_read() {
    for at in [r#""yesterday""#, "[1767225600]"] {
        let body = format!(r#"{{"id":"x","createdAt":{at}}}"#);
        let server = MockServer::json(200, &body).await;
        let email = server
            .email()
            .build()
            .unwrap()
            .emails()
            .get("x")
            .await
            .unwrap();
        assert_eq!(
            (email.created_at, email.extra["createdAt"].to_string()),
            (None, at.into())
        );
        assert_eq!(serde_json::to_string(&email).unwrap(), body);
    }
}

#[tokio::test]
async fn decodes_wrapped_resources() {
    for body in [
        r#"{"id":"x","name":"n"}"#,
        r#"{"data":{"id":"x","name":"n"}}"#,
        r#"{"domain":{"id":"x","name":"n"}}"#,
        r#"{"ok":true,"name":"not this","domain":{"id":"x","name":"n"}}"#,
    ] {
        let server = MockServer::json(200, body).await;
        let domain = server
            .email()
            .build()
            .unwrap()
            .domains()
            .create("n")
            .await
            .unwrap();
        assert_eq!(
            (domain.id.as_str(), domain.name.as_deref()),
            ("x", Some("n")),
            "{body}"
        );
    }

    // Resources without an id.
    for body in [
        r#"{"verified":true,"details":{"mx":"ok"}}"#,
        r#"{"data":{"verified":true,"mx_verified":true}}"#,
    ] {
        let server = MockServer::json(200, body).await;
        let result = server
            .email()
            .build()
            .unwrap()
            .domains()
            .verify("d")
            .await
            .unwrap();
        assert!(result.is_verified(), "{body}");
    }

    for body in [
        r#"{"organization":{"id":"o"},"auth":{"scope":"full"}}"#,
        r#"{"data":{"organization":{"id":"o"},"auth":{"scope":"full"}}}"#,
    ] {
        let server = MockServer::json(200, body).await;
        let me = server.extraction().build().unwrap().me().await.unwrap();
        assert_eq!(me.organization.id, "o", "{body}");
    }

    // A nested object of the resource itself is not a wrapper.
    let body = r#"{"id":"x","metadata":{"id":"not this"}}"#;
    let server = MockServer::json(200, body).await;
    let contact = server
        .email()
        .build()
        .unwrap()
        .contacts()
        .create("a", "a@b")
        .await
        .unwrap();
    assert_eq!(contact.id, "x");
}

#[tokio::test]
async fn accepts_missing_additional_and_mistyped_fields() {
    for (body, id) in [
        ("{}", ""),
        (r#"{"id":null,"status":null}"#, ""),
        (r#"{"id":42,"status":7}"#, "42"),
        (r#"{"id":["x"],"status":{"a":1}}"#, ""),
        (r#"{"id":"x","new":{"deep":[1,{"er":null}]}}"#, "x"),
        ("[]", ""),
        ("\"ok\"", ""),
        ("null", ""),
    ] {
        let server = MockServer::json(200, body).await;
        let email = server
            .email()
            .build()
            .unwrap()
            .emails()
            .cancel("e")
            .await
            .unwrap();
        assert_eq!(email.id, id, "{body}");
    }

    // A string instead of a list, and the other way round.
    let server = MockServer::json(
        200,
        r#"{"id":"w","events":"email.sent","url":["x"],"active":1}"#,
    )
    .await;
    let update = svc_sdk::email::WebhookUpdate::new();
    let webhook = server
        .email()
        .build()
        .unwrap()
        .webhooks()
        .update("w", &update)
        .await
        .unwrap();
    assert_eq!(
        (webhook.events, webhook.url, webhook.active),
        (Some(vec!["email.sent".to_owned()]), None, Some(true))
    );
}

#[tokio::test]
async fn invalid_json_errors_contain_the_position_but_no_content() {
    for (body, problem) in [
        (
            "<html>hello secret</html>",
            "the body is HTML, not JSON; check the base URL",
        ),
        (r#"{"id":"secret"#, "truncated JSON at line 1 column 13"),
        (r#"{"id":"secret"} secret"#, "not JSON at line 1 column 17"),
        ("{\"id\":\"\0secret\"}", "not JSON at line 1 column 8"),
    ] {
        let server = MockServer::start([response(202, body)]).await;
        let client = server.email().build().unwrap();
        let email = svc_sdk::email::Email::new("a@b", "c@d", "s");
        let error = client.emails().send(&email).await.unwrap_err();
        assert_eq!(error.kind(), &svc_sdk::ErrorKind::invalid_response(problem));
        assert_eq!(error.outcome(), svc_sdk::Outcome::Unknown);
        assert_eq!(error.body(), body.as_bytes());
        assert_eq!(error.status().unwrap(), 202);
        assert!(!error.is_retryable());
        assert!(!format!("{error} {error:?}").contains("secret"));
        assert_eq!(server.request_count(), 1);
    }

    // An empty body is not an empty list of results.
    let server = MockServer::json(200, "").await;
    let batch = [svc_sdk::email::Email::new("a@b", "c@d", "s")];
    let error = server
        .email()
        .build()
        .unwrap()
        .emails()
        .send_batch(&batch)
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "email emails.send_batch: invalid response: the body is empty (HTTP 200); \
         the request may have been processed"
    );

    for body in ["{}", r#"{"a":[],"b":[]}"#, "7"] {
        let server = MockServer::json(200, body).await;
        let error = server
            .email()
            .build()
            .unwrap()
            .domains()
            .list()
            .await
            .unwrap_err();
        assert!(
            matches!(error.kind(), svc_sdk::ErrorKind::InvalidResponse { .. }),
            "{body}"
        );
    }
}

/// JavaScript services cut strings between the halves of a surrogate pair.
#[tokio::test]
async fn a_string_that_was_cut_hides_nothing() {
    for body in [
        r#"{"id":"x","metadata":{"a":"cut\ud83d"},"status":"sent"}"#,
        r#"{"email":{"id":"x","subject":"cut\ud83d"}}"#,
    ] {
        let server = MockServer::json(202, body).await;
        let client = server.email().build().unwrap();
        let email = svc_sdk::email::Email::new("a@b", "c@d", "s");
        assert_eq!(client.emails().send(&email).await.unwrap().id, "x");
    }

    let server = MockServer::json(200, r#"[{"id":"x","note":"cut\ud83d"}]"#).await;
    let client = server.email().build().unwrap();
    assert_eq!(client.domains().list().await.unwrap()[0].id, "x");

    let batch = [svc_sdk::email::Email::new("a@b", "c@d", "s")];
    assert!(
        client
            .emails()
            .send_batch(&batch)
            .await
            .unwrap()
            .all_accepted()
    );
}

/// A few bytes of JSON can take a hundred times as much memory.
#[tokio::test]
async fn limits_the_number_of_list_items() {
    let max = 1 << 18;
    for (count, fits) in [(max, true), (max + 1, false)] {
        // Long enough that the bound on memory lets them pass.
        let item = format!(r#"{{"note":"{}"}}"#, "a text of some length, ".repeat(5));
        let items = vec![&*item; count].join(",");
        for body in [format!("[{items}]"), format!(r#"{{"data":[{items}]}}"#)] {
            let server = MockServer::json(200, &body).await;
            let client = server.email().max_response_size(64 << 20).build().unwrap();
            let list = client.domains().list().await;
            match list {
                Ok(list) => assert!(fits && list.len() == count),
                Err(error) => {
                    assert!(!fits);
                    let problem = format!("the list has more than {max} items");
                    assert_eq!(error.kind(), &svc_sdk::ErrorKind::invalid_response(problem));
                }
            }
        }
    }
}

#[tokio::test]
async fn debug_output_of_a_response_shows_names_and_no_values() {
    let body = r#"{"id":"x","subject":"private","k":"private","createdAt":"private","tags":{"t":"private"}}"#;
    let server = MockServer::json(200, body).await;
    let email = server
        .email()
        .build()
        .unwrap()
        .emails()
        .get("x")
        .await
        .unwrap();
    let shown = format!("{email:?}");
    assert!(
        shown.contains(r#""createdAt""#) && shown.contains(r#""k""#),
        "{shown}"
    );
    assert!(!shown.contains("private"), "{shown}");
}

#[tokio::test]
async fn whatever_says_that_a_list_goes_on_is_heard() {
    for (beside, is_complete) in [
        (r#""has_more": true"#, false),
        (r#""meta": {"pagination": {"total": 2}}"#, false),
        (r#""TotalRecords": "2""#, false),
        (r#""links": {"next": "/api/v1/audiences?page=2"}"#, false),
        (r#""links": [{"rel": "next", "href": "/a?page=2"}]"#, false),
        (r#""hydra:view": {"hydra:next": "/a?page=2"}"#, false),
        (r#""hydra:totalItems": 2"#, false),
        (r#""@odata.nextLink": "https://a.test/b""#, false),
        (r#""NextToken": "x""#, false),
        (r#""page": {"last": false}"#, false),
        (r#""MoreDataIndicator": "Y""#, false),
        (r#""more_pages": true"#, false),
        (r#""paginator": {"has_more_pages": true}"#, false),
        (r#""pagination": {"current": 1, "last": 2}"#, false),
        (r#""remaining": 7"#, false),
        (r#""remaining": 0"#, true),
        (r#""meta": {"rate_limit": {"remaining": 59}}"#, true),
        (r#""ok": true"#, true),
        (r#""has_more": false, "total": 1"#, true),
        (r#""links": {"next": null, "last": "/a?page=1"}"#, true),
        (r#""hydra:view": {"hydra:last": "/a?page=1"}"#, true),
        (r#""last": true, "totalElements": 1"#, true),
        (r#""NextToken": """#, true),
    ] {
        let body = format!(r#"{{"data": [{{"id": "a", "name": "News"}}], {beside}}}"#);
        let server = MockServer::json(200, &body).await;
        let list = server.email().build().unwrap().audiences().list().await;
        assert_eq!(list.unwrap().is_complete(), is_complete, "{beside}");
    }

    let range = "Content-Range: items 0-9/17\r\n";
    let server = MockServer::start([response_with_headers(206, range, r#"[{"id":"a"}]"#)]).await;
    let list = server.email().build().unwrap().audiences().list().await;
    assert!(!list.unwrap().is_complete());
}

/// A list that counts its items by an offset goes on there, whichever parameter the service takes.
#[tokio::test]
async fn a_list_with_offsets_is_read_to_its_end() {
    let parts = [
        [
            r#"{"items":[{"id":"1"},{"id":"2"}],"offset":0,"limit":2,"count":3}"#,
            r#"{"items":[{"id":"3"}],"offset":2,"limit":2,"count":3}"#,
        ],
        [
            r#"{"values":[{"id":"1"},{"id":"2"}],"startAt":0,"isLast":false}"#,
            r#"{"values":[{"id":"3"}],"startAt":2,"isLast":true}"#,
        ],
        [
            r#"{"audiences":[{"id":"1"},{"id":"2"}],"offset":0,"more":true,"total":null}"#,
            r#"{"audiences":[{"id":"3"}],"offset":2,"more":false,"total":null}"#,
        ],
    ];
    for pages in parts {
        let server = MockServer::start(pages.map(|body| response(200, body))).await;
        let client = server.email().build().unwrap();
        let list = client.audiences().stream().into_list().await.unwrap();
        assert_eq!((list.len(), list.is_complete()), (3, true), "{pages:?}");
        let second = &server.request_lines()[1];
        assert!(
            second.contains("offset=2 ") || second.contains("startAt=2 "),
            "{second}"
        );
    }

    // A service that takes neither says the same again.
    let server = MockServer::json(200, parts[0][0]).await;
    let client = server.email().build().unwrap();
    let list = client.audiences().stream().into_list().await.unwrap();
    assert_eq!((list.len(), list.is_complete()), (2, false));
}

/// Wherever a dialect names a field, it may be inside another one.
#[tokio::test]
async fn the_way_to_a_field_is_a_name_of_it() {
    let answers = |choice: &'static str, body: &'static str| async move {
        let server = MockServer::json(200, body).await;
        let dialect = Dialect::with([choice]).unwrap();
        server.email().dialect(dialect).build().unwrap()
    };

    let client = answers("id-field=receipt.no", r#"{"receipt":{"no":"m1"}}"#).await;
    let email = svc_sdk::email::Email::new("a@b.test", "c@d.test", "s").text("t");
    assert_eq!(client.emails().send(email).await.unwrap().id, "m1");

    let client = answers(
        "status-field=way.Last",
        r#"{"id":"m","way":{"last":"SENT"}}"#,
    )
    .await;
    let email = client.emails().get("m").await.unwrap();
    assert_eq!(email.status, Some(svc_sdk::email::EmailStatus::Sent));
    assert!(email.extra.contains_key("way"), "{email:?}");

    let list = r#"{"out":{"rows":[{"id":"c","x":{"data":{"plan":"pro"},"no_mail":1}}],"n":1}}"#;
    let client = answers("list-items=out.rows", list).await;
    let contacts = client.contacts().list("a").await.unwrap();
    assert_eq!(
        (contacts.len(), &contacts.extra["out"]["n"]),
        (1, &1.into())
    );

    let client = answers("metadata-field=x.data", list).await;
    let contacts = client.contacts().list("a").await.unwrap();
    let metadata = contacts[0].metadata.clone().unwrap();
    assert_eq!(metadata["plan"], "pro");

    let client = answers("opt-out=!x.no_mail", list).await;
    let contacts = client.contacts().list("a").await.unwrap();
    assert_eq!(contacts[0].subscribed, Some(false));

    let client = answers(
        "test-status-field=hook.code",
        r#"{"took":212,"hook":{"code":500}}"#,
    )
    .await;
    let test = client.webhooks().test("w").await.unwrap();
    assert_eq!(test.status.unwrap(), 500);

    let records = r#"{"id":"d","x":{"y":[{"type":"MX","host":"@","data":"mx.test"}]}}"#;
    let client = answers("domain-records=x.y", records).await;
    let domain = client.domains().create("a.test").await.unwrap();
    assert_eq!(domain.dns_records().len(), 1, "{domain:?}");
}

/// Some services lead from each page to another, for ever; others have pages without items in between.
#[tokio::test]
async fn a_list_that_leads_from_one_empty_page_to_another_has_ended() {
    let page = |number: u32, items: &str| {
        let next = format!("/api/v1/audiences?page={}", number + 1);
        response(
            200,
            &format!(r#"{{"items":[{items}],"paging":{{"next":"{next}"}}}}"#),
        )
    };

    let pages = [
        page(1, r#"{"id":"1"}"#),
        page(2, ""),
        page(3, r#"{"id":"2"}"#),
        page(4, ""),
        page(5, ""),
        page(6, ""),
        page(7, ""),
        page(8, ""),
    ];
    let server = MockServer::start(pages).await;
    let client = server.email().build().unwrap();
    let list = client.audiences().stream().into_list().await.unwrap();
    assert_eq!((list.len(), list.is_complete()), (2, true));
    assert_eq!(server.request_count(), 7);

    let dialect = Dialect::with(["list-pages=whole"]).unwrap();
    let server = MockServer::start([page(1, r#"{"id":"1"}"#)]).await;
    let client = server.email().dialect(dialect).build().unwrap();
    let list = client.audiences().stream().into_list().await.unwrap();
    assert_eq!(
        (list.len(), list.is_complete(), server.request_count()),
        (1, true, 1)
    );
}

#[tokio::test]
async fn an_object_may_be_a_list_of_names_and_values() {
    for (names, is_read) in [
        (["key", "value"], true),
        (["Name", "Value"], true),
        (["key", "text"], false),
    ] {
        let [name, value] = names;
        let metadata =
            format!(r#"[{{"{name}":"plan","{value}":"pro"}},{{"{name}":"age","{value}":null}}]"#);
        let body = format!(r#"{{"id":"c","email":"a@x.test","metadata":{metadata}}}"#);
        let server = MockServer::json(200, &body).await;
        let client = server.email().build().unwrap();
        let contact = client.contacts().create("a", "a@x.test").await.unwrap();
        let read = contact.metadata.map(serde_json::Value::from);
        let expected = serde_json::json!({"plan": "pro", "age": null});
        assert_eq!(read, is_read.then_some(expected), "{body}");
    }
}

#[tokio::test]
async fn lists_and_objects_may_be_texts() {
    let body =
        r#"{"id":"c","email":"a@x.test","topics":"news, ops","metadata":"{\"plan\":\"pro\"}"}"#;
    let server = MockServer::json(201, body).await;
    let client = server.email().build().unwrap();
    let contact = client.contacts().create("a", "a@x.test").await.unwrap();
    assert_eq!(contact.topics.unwrap(), ["news", "ops"]);
    assert_eq!(contact.metadata.unwrap()["plan"], "pro");
}

#[tokio::test]
async fn whatever_names_the_wish_for_emails_has_one_meaning() {
    for (field, wants) in [
        (r#""subscribed": "no""#, Some(false)),
        (r#""optedOut": true"#, Some(false)),
        (r#""consent": "opted_in""#, Some(true)),
        (r#""consent": "opted_out""#, Some(false)),
        (r#""emailConsent": "withdrawn""#, Some(false)),
        (r#""IsExcludedFromCampaigns": "true""#, Some(false)),
        (r#""IsExcludedFromCampaigns": "false""#, Some(true)),
        (r#""consent": "perhaps""#, None),
        (
            r#""consent": {"status": "withdrawn", "at": 1}"#,
            Some(false),
        ),
        (
            r#""email_marketing_consent": {"state": "not_subscribed", "opt_in_level": "single"}"#,
            Some(false),
        ),
        (r#""consent": true, "suppressed": true"#, Some(false)),
    ] {
        let server = MockServer::json(200, &format!(r#"[{{"id": "c", {field}}}]"#)).await;
        let client = server.email().build().unwrap();
        let list = client.contacts().list("a").await.unwrap();
        assert_eq!(list[0].subscribed, wants, "{field}");
    }
}

#[tokio::test]
async fn a_resource_may_be_the_only_item_of_a_list_or_have_a_path_for_an_id() {
    for (body, id) in [
        (
            r#"{"Count": 1, "Data": [{"ID": 7, "Name": "News"}], "Total": 1}"#,
            "7",
        ),
        (
            r#"{"@id": "/api/v1/audiences/7", "@type": "Audience", "name": "News"}"#,
            "7",
        ),
        (
            r#"{"@id": "/api/v1/audiences/7", "id": "seven", "name": "News"}"#,
            "seven",
        ),
    ] {
        let server = MockServer::json(200, body).await;
        let client = server.email().build().unwrap();
        let audience = client.audiences().get("7").await.unwrap();
        let read = (audience.id.as_str(), audience.name.as_deref());
        assert_eq!(read, (id, Some("News")), "{body}");
    }
}
