//! Attachments that are streamed from files.

use std::io::{self, Write};

use svc_sdk::email::{Attachment, Email};
use svc_sdk::{ErrorKind, Outcome};

use crate::mock_server::{MockServer, response, response_with_headers};

/// Bytes that depend on their position.
fn content(length: usize) -> Vec<u8> {
    (0..length)
        .map(|index| (index * 31 + index / 251) as u8)
        .collect()
}

fn file(content: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::Builder::new().suffix(".pdf").tempfile().unwrap();
    file.write_all(content).unwrap();
    file
}

fn email(attachments: impl IntoIterator<Item = Attachment>) -> Email {
    attachments
        .into_iter()
        .fold(Email::new("a@b", "c@d", "s"), Email::attachment)
}

fn base64(content: &[u8]) -> String {
    base64_simd::STANDARD.encode_to_string(content)
}

/// The content of all attachments in a request body, in order.
fn contents(body: &str) -> Vec<String> {
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    let emails = body.as_array().cloned().unwrap_or_else(|| vec![body]);
    let attachments = emails
        .iter()
        .flat_map(|email| email["attachments"].as_array().unwrap());
    attachments
        .map(|attachment| attachment["content"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn streams_attachments_of_every_length_from_every_source() {
    // Around the block size, the chunk size and the padding.
    let small = 16 << 10;
    let block = 96 << 10;
    let part = 192 << 10;
    let around = |length| [length - 1, length, length + 1];
    let lengths = [vec![0, 1, 2, 3, 4, 5, 1_000, 2 * part, 3 * part + 2]];
    let lengths = lengths
        .into_iter()
        .chain([small, block, part].map(|at| around(at).to_vec()));
    let lengths = lengths.flatten();
    let server = MockServer::json(202, r#"{"id":"x"}"#).await;
    let client = server.email().build().unwrap();
    for (index, length) in lengths.enumerate() {
        let content = content(length);
        let file = file(&content);
        let email = email([
            Attachment::from_path(file.path()).unwrap(),
            Attachment::from_bytes("b", content.clone()),
            Attachment::from_path(file.path()).unwrap(),
            Attachment::from_base64("e", base64(&content)),
        ]);
        client.emails().send(&email).await.unwrap();
        let request = &server.received_requests()[index];
        assert_eq!(
            request.header("content-length"),
            Some(request.body.len().to_string().as_str())
        );
        assert_eq!(request.header("transfer-encoding"), None);
        let expected = base64(&content);
        assert!(
            contents(&request.body)
                .iter()
                .all(|content| *content == expected),
            "{length}"
        );
    }
}

#[tokio::test]
async fn from_path_sets_the_file_name_only() {
    let file = file(b"x");
    let name = file.path().file_name().unwrap().to_str().unwrap();
    let attachment = || Attachment::from_path(file.path()).unwrap();
    let server = MockServer::json(202, r#"{"id":"x"}"#).await;
    let client = server.email().build().unwrap();
    let email = email([
        attachment(),
        attachment().filename("ü\".x").content_type("text/plain"),
    ]);
    client.emails().send(&email).await.unwrap();
    let body: serde_json::Value = serde_json::from_str(&server.single_request().body).unwrap();
    let expected = serde_json::json!([
        {"filename": name, "content": "eA=="},
        {"filename": "ü\".x", "content": "eA==", "contentType": "text/plain"},
    ]);
    assert_eq!(body["attachments"], expected);
}

#[tokio::test]
async fn streams_attachments_in_a_batch() {
    let first = content(200_000);
    let second = content(20_000);
    let file = file(&first);
    let emails = [
        email([Attachment::from_path(file.path()).unwrap()]),
        Email::new("a@b", "c@d", "none"),
        email([
            Attachment::from_bytes("b", second.clone()),
            Attachment::from_bytes("c", "d"),
        ]),
    ];
    let server = MockServer::json(200, "[]").await;
    let client = server.email().build().unwrap();
    let _ = client.emails().send_batch(&emails).await.unwrap();
    let request = server.single_request();
    let body: serde_json::Value = serde_json::from_str(&request.body).unwrap();
    assert_eq!(body[0]["attachments"][0]["content"], base64(&first));
    assert_eq!(body[1].get("attachments"), None);
    assert_eq!(body[2]["attachments"][0]["content"], base64(&second));
    assert_eq!(body[2]["attachments"][1]["content"], "ZA==");
}

#[tokio::test]
async fn reopens_the_source_for_a_retry() {
    let data = content(300_000);
    let expected = base64(&data);
    let file = file(&data);
    let attachment = Attachment::from_path(file.path()).unwrap();
    let server = MockServer::start([
        response_with_headers(429, "Retry-After: 0\r\n", ""),
        response(202, r#"{"id":"x"}"#),
    ])
    .await;
    let client = server.email().build().unwrap();
    client.emails().send(email([attachment])).await.unwrap();
    let requests = server.received_requests();
    assert_eq!(contents(&requests[0].body), [expected]);
    assert_eq!(requests[0].body, requests[1].body);
}

const CHANGED: &str = "has changed its length since the request was built";

#[tokio::test]
async fn aborts_if_a_file_changes_its_length() {
    for (before, after) in [
        (300_000, 299_999),
        (300_000, 0),
        (300_000, 300_001),
        (0, 1),
        // Detected in a later chunk.
        (1_000_000, 999_999),
        (1_000_000, 400_000),
        (1_000_000, 1_000_001),
    ] {
        let file = file(&content(before));
        let attachment = Attachment::from_path(file.path()).unwrap();
        std::fs::write(file.path(), content(after)).unwrap();

        let server = MockServer::json(202, r#"{"id":"x"}"#).await;
        let client = server.email().build().unwrap();
        let small = Attachment::from_bytes("a", "b");
        let error = client
            .emails()
            .send(email([small, attachment]))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::attachment(0, 1, CHANGED));
        assert_eq!((error.outcome(), error.attempts()), (Outcome::NotSent, 1));
        assert_eq!(
            error.to_string(),
            format!("email emails.send: attachment 2 of email 1: {CHANGED}")
        );
        assert_eq!(server.request_count(), 0);
    }
}

#[tokio::test]
async fn reports_why_an_attachment_cannot_be_read() {
    let missing = std::env::temp_dir().join("svc-sdk-no-such-file");
    assert_eq!(
        Attachment::from_path(&missing).unwrap_err().kind(),
        io::ErrorKind::NotFound
    );
    assert!(Attachment::from_path(std::env::temp_dir()).is_err());

    let file = file(b"hello");
    let gone = Attachment::from_path(file.path()).unwrap();
    drop(file);
    let server = MockServer::json(202, r#"{"id":"x"}"#).await;
    let client = server.email().build().unwrap();
    let error = client.emails().send(email([gone])).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::attachment(0, 0, "cannot be read"));
    assert_eq!(error.outcome(), Outcome::NotSent);
    assert!(std::error::Error::source(&error).is_some());
    assert_eq!(server.request_count(), 0);

    // The client still works.
    client.emails().send(email([])).await.unwrap();
}

#[tokio::test]
async fn invalid_base64_is_escaped() {
    let server = MockServer::json(422, "").await;
    let client = server.email().build().unwrap();
    let attachment = Attachment::from_base64("x", "\"}],\"bcc\":[\"e@f\"]");
    client.emails().send(email([attachment])).await.unwrap_err();
    assert_eq!(
        contents(&server.single_request().body),
        ["\"}],\"bcc\":[\"e@f\"]"]
    );
}

#[test]
fn debug_output_omits_content() {
    let email = email([Attachment::from_bytes("private.txt", "private")])
        .text("private")
        .tag("private", "private");
    let shown = format!("{email:?} {:?}", email.attachments);
    assert!(!shown.contains("private"), "{shown}");
}
