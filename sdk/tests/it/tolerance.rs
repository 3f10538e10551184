//! What the documents do not show, one test per tolerance of
//! `docs/undocumented/README.md` (those of one resource stand with it).

use crate::peer::{Peer, answer, with_headers};

#[tokio::test]
async fn b1_any_2xx_is_success() {
    for status in [200, 201, 202, 203, 299] {
        let peer = Peer::json(status, r#"{"id":"x"}"#).await;
        let client = peer.email().build().unwrap();
        assert_eq!(client.audiences().create("A").await.unwrap().id, "x");
    }
    // Even one that says nothing.
    let peer = Peer::json(204, "").await;
    let client = peer.email().build().unwrap();
    assert_eq!(client.audiences().create("A").await.unwrap().id, "");
}

#[tokio::test]
async fn b2_a_list_is_an_array_or_the_array_of_an_object() {
    for body in [
        r#"[{"id":"1"},{"id":"2"}]"#,
        r#"{"data":[{"id":"1"},{"id":"2"}]}"#,
        r#"{"whatever":[{"id":"1"},{"id":"2"}],"total":2,"next":null}"#,
        r#"{"data":[{"id":"1"},{"id":"2"}],"errors":[]}"#,
        r#"{"links":["x"],"audiences":[{"id":"1"},{"id":"2"}]}"#,
        r#"{"ok":true,"data":{"items":[{"id":"1"},{"id":"2"}],"total":2}}"#,
        " \n[{\"id\":\"1\"},{\"id\":\"2\"}] ",
    ] {
        let peer = Peer::json(200, body).await;
        let client = peer.email().build().unwrap();
        let list = client.audiences().list().await.unwrap();
        assert_eq!(list.iter().map(|item| &*item.id).collect::<Vec<_>>(), ["1", "2"], "{body}");
    }
}

#[tokio::test]
async fn b2_what_stands_beside_the_items_is_kept() {
    let body = r#"{"items":[{"id":"1"}],"cursor":"c","meta":{"total":"7","lastPage":4}}"#;
    let peer = Peer::json(200, body).await;
    let list = peer.email().build().unwrap().domains().list().await.unwrap();
    assert_eq!(list.extra.get("cursor").unwrap(), "c");
    assert_eq!((list.total, list.total_pages), (Some(7), Some(4)));
}

/// Bytes that are not UTF-8 are replaced, a byte order mark is left out.
#[tokio::test]
async fn text_that_is_not_quite_utf_8_is_read() {
    for body in ["\u{feff}{\"id\":\"x\"}", "\u{feff}[{\"id\":\"x\"}]"] {
        let peer = Peer::json(200, body).await;
        let client = peer.email().build().unwrap();
        match body.ends_with(']') {
            false => assert_eq!(client.emails().get("x").await.unwrap().id, "x"),
            true => assert_eq!(client.domains().list().await.unwrap()[0].id, "x"),
        }
    }
}

#[tokio::test]
async fn b3_a_delete_may_answer_anything() {
    for (status, body) in [(200, r#"{"ok":true}"#), (204, ""), (200, "deleted"), (202, "[]")] {
        let peer = Peer::json(status, body).await;
        peer.email().build().unwrap().domains().delete("d").await.unwrap();
    }
}

#[tokio::test]
async fn b8_any_of_the_usual_request_ids_is_kept() {
    for name in ["X-Request-Id", "Request-Id", "x-amzn-requestid", "CF-Ray"] {
        let header = format!("{name}: req_1\r\n");
        let peer = Peer::start([
            with_headers(200, &header, r#"{"id":"x"}"#),
            with_headers(404, &header, ""),
        ])
        .await;
        let client = peer.email().build().unwrap();
        let answer = client.audiences().get("x").with_response().await.unwrap();
        assert_eq!(answer.request_id.as_deref(), Some("req_1"));
        let error = client.audiences().get("x").await.unwrap_err();
        assert_eq!(error.request_id(), Some("req_1"));
    }
    let peer = Peer::start([with_headers(200, "Trace: t\r\n", r#"{"id":"x"}"#)]).await;
    let client = peer.email().request_id_headers(["trace"]).build().unwrap();
    let answer = client.audiences().get("x").with_response().await.unwrap();
    assert_eq!(answer.request_id.as_deref(), Some("t"));
}

#[tokio::test]
async fn b13_times_in_answers_are_kept_as_they_came() {
    for at in [r#""yesterday""#, "1767225600", "null", r#""2026-01-02T03:04:05Z""#] {
        let body = format!(r#"{{"id":"x","createdAt":{at}}}"#);
        let peer = Peer::json(200, &body).await;
        let email = peer.email().build().unwrap().emails().get("x").await.unwrap();
        assert_eq!(email.extra.get("createdAt").unwrap().to_string(), at);
    }
}

#[tokio::test]
async fn b14_a_resource_may_be_wrapped() {
    for body in [
        r#"{"id":"x","name":"n"}"#,
        r#"{"data":{"id":"x","name":"n"}}"#,
        r#"{"domain":{"id":"x","name":"n"}}"#,
        r#"{"ok":true,"name":"not this","domain":{"id":"x","name":"n"}}"#,
    ] {
        let peer = Peer::json(200, body).await;
        let domain = peer.email().build().unwrap().domains().create("n").await.unwrap();
        assert_eq!((domain.id.as_str(), domain.name.as_deref()), ("x", Some("n")), "{body}");
    }
    // What has no id of its own.
    for body in [
        r#"{"verified":true,"details":{"mx":"ok"}}"#,
        r#"{"data":{"verified":true,"mx_verified":true}}"#,
    ] {
        let peer = Peer::json(200, body).await;
        let result = peer.email().build().unwrap().domains().verify("d").await.unwrap();
        assert!(result.is_verified(), "{body}");
    }
    for body in [
        r#"{"organization":{"id":"o"},"auth":{"scope":"full"}}"#,
        r#"{"data":{"organization":{"id":"o"},"auth":{"scope":"full"}}}"#,
    ] {
        let peer = Peer::json(200, body).await;
        let me = peer.extraction().build().unwrap().me().await.unwrap();
        assert_eq!(me.organization.id, "o", "{body}");
    }
    // An object of the resource's own is no wrapper.
    let body = r#"{"id":"x","metadata":{"id":"not this"}}"#;
    let peer = Peer::json(200, body).await;
    let contact = peer.email().build().unwrap().contacts().create("a", "a@b").await.unwrap();
    assert_eq!(contact.id, "x");
}

#[tokio::test]
async fn more_fewer_and_odd_fields_are_no_error() {
    for (body, id) in [
        ("{}", ""),
        (r#"{"id":null,"status":null}"#, ""),
        (r#"{"id":42,"status":7}"#, "42"),
        (r#"{"id":["x"],"status":{"a":1}}"#, ""),
        (r#"{"id":"x","new":{"deep":[1,{"er":null}]}}"#, "x"),
        (r#"{"id":"x","id":"y"}"#, "y"),
        ("[]", ""),
        ("\"ok\"", ""),
        ("null", ""),
    ] {
        let peer = Peer::json(200, body).await;
        let email = peer.email().build().unwrap().emails().get("e").await.unwrap();
        assert_eq!(email.id, id, "{body}");
        assert_eq!(email.extra.raw(), body);
    }
    // A single text where a list is documented, and the other way round.
    let peer = Peer::json(200, r#"{"id":"w","events":"email.sent","url":["x"],"active":1}"#).await;
    let update = svc_sdk::email::WebhookUpdate::new();
    let webhook = peer.email().build().unwrap().webhooks().update("w", &update).await.unwrap();
    assert_eq!(
        (webhook.events.as_slice(), webhook.url, webhook.active),
        (["email.sent".to_owned()].as_slice(), None, None)
    );
    assert_eq!(webhook.extra.get("active"), Some(&1.into()));
}

#[tokio::test]
async fn what_is_not_json_is_an_error_that_says_where_and_not_what() {
    for (body, problem) in [
        ("<html>hello secret</html>", "html, not json; check the base address"),
        (r#"{"id":"secret"#, "json that ends too early, at line 1 column 13"),
        (r#"{"id":"secret"} secret"#, "not json, at line 1 column 17"),
        ("{\"id\":\"\0secret\"}", "not json, at line 1 column 7"),
    ] {
        let peer = Peer::start([answer(202, body)]).await;
        let client = peer.email().build().unwrap();
        let email = svc_sdk::email::Email::new("a@b", "c@d", "s");
        let error = client.emails().send(&email).await.unwrap_err();
        assert_eq!(error.kind(), &svc_sdk::ErrorKind::InvalidResponse { problem: problem.into() });
        assert_eq!(error.outcome(), svc_sdk::Outcome::Unknown);
        assert_eq!(error.body(), body.as_bytes());
        assert_eq!(error.status(), Some(202));
        assert!(!error.is_retryable());
        assert!(!format!("{error} {error:?}").contains("secret"));
        assert_eq!(peer.lines().len(), 1);
    }
    // No list is not an empty one.
    let peer = Peer::json(200, "").await;
    let batch = [svc_sdk::email::Email::new("a@b", "c@d", "s")];
    let error = peer.email().build().unwrap().emails().send_batch(&batch).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "email emails.send_batch: the answer cannot be read: it is empty (http 200); \
         it may have been processed"
    );
    for body in ["{}", r#"{"a":[],"b":[]}"#, "7"] {
        let peer = Peer::json(200, body).await;
        let error = peer.email().build().unwrap().domains().list().await.unwrap_err();
        assert!(matches!(error.kind(), svc_sdk::ErrorKind::InvalidResponse { .. }), "{body}");
    }
}

/// JSON to the letter, and yet no text, number or structure that can be held.
#[tokio::test]
async fn one_value_that_cannot_be_held_does_not_cost_the_answer() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for odd in [r#""cut\ud83d""#, "1e999", &deep] {
        for body in [
            format!(r#"{{"id":"x","status":"sent","note":{odd},"at":"now"}}"#),
            format!(r#"{{"id":"x","metadata":{{"a":{odd}}},"status":"sent","at":"now"}}"#),
            format!(r#"{{"status":"sent","email":{{"id":"x","at":"now","note":{odd}}}}}"#),
        ] {
            let peer = Peer::json(202, &body).await;
            let client = peer.email().build().unwrap();
            let email = svc_sdk::email::Email::new("a@b", "c@d", "s");
            let sent = client.emails().send(&email).await.unwrap();
            assert_eq!((sent.id.as_str(), sent.extra.get("at")), ("x", Some(&"now".into())));
            assert!(serde_json::to_string(&sent).unwrap().contains("now"));
            let contact = client.contacts().create("a", "b@c").await.unwrap();
            assert_eq!(contact.id, "x");
        }
        let item = format!(r#"{{"id":"x","name":"n","verified":true,"note":{odd}}}"#);
        let peer = Peer::json(200, &format!(r#"{{"data":[{item}],"total":1,"note":{odd}}}"#)).await;
        let client = peer.email().build().unwrap();
        let list = client.domains().list().await.unwrap();
        assert_eq!((list[0].id.as_str(), list.total), ("x", Some(1)));
        let batch = [svc_sdk::email::Email::new("a@b", "c@d", "s")];
        assert!(client.emails().send_batch(&batch).await.unwrap().all_accepted());

        let body = format!(r#"{{"error":{{"code":"c","details":{odd}}},"status":418}}"#);
        let peer = Peer::start([answer(422, &body), answer(200, &body)]).await;
        let client = peer.email().build().unwrap();
        assert_eq!(client.webhooks().test("x").await.unwrap_err().code(), Some("c"));
        assert_eq!(client.webhooks().test("x").await.unwrap().status, Some(418));
    }
    // The typed field itself.
    for (odd, id) in [(r#""cut\ud83d""#, "cut\u{fffd}"), ("1e999", "1e999"), (&deep, "")] {
        let peer = Peer::json(200, &format!(r#"{{"id":{odd},"status":"sent"}}"#)).await;
        let email = peer.email().build().unwrap().emails().get("x").await.unwrap();
        assert_eq!((email.id.as_str(), email.status.is_some()), (id, true));
    }
}

/// A few bytes on the wire may become a hundred times as many in memory.
#[tokio::test]
async fn a_list_has_an_end() {
    let most = 1 << 18;
    for (count, fits) in [(most, true), (most + 1, false)] {
        let items = vec!["{}"; count].join(",");
        for body in [format!("[{items}]"), format!(r#"{{"data":[{items}]}}"#)] {
            let peer = Peer::json(200, &body).await;
            let list = peer.email().build().unwrap().domains().list().await;
            match list {
                Ok(list) => assert!(fits && list.len() == count),
                Err(error) => {
                    assert!(!fits);
                    let problem = format!("a list of more than {most} items");
                    assert_eq!(error.kind(), &svc_sdk::ErrorKind::InvalidResponse { problem });
                }
            }
        }
    }
}

/// What shows an answer shows names, and not a million of them.
#[tokio::test]
async fn what_is_shown_of_an_answer_is_short() {
    let names: Vec<String> = (0..1_000).map(|n| format!(r#""k{n}":"private""#)).collect();
    let peer = Peer::json(200, &format!(r#"{{"id":"x",{}}}"#, names.join(","))).await;
    let email = peer.email().build().unwrap().emails().get("x").await.unwrap();
    let shown = format!("{email:?}");
    assert!(shown.contains(r#""k0", "k1""#) && shown.contains("k31"), "{shown}");
    assert!(!shown.contains("k32") && !shown.contains("private"), "{shown}");
    assert!(shown.contains(".."), "{shown}");
    assert_eq!(email.extra.iter().count(), 1_000);
}
