//! The page at `/`: its files, and the frame that shows the HTML of others. `tests/page` uses it
//! in a browser.

use std::fs;
use std::path::Path;

use crate::harness::{Sandbox, public};
use crate::raw;

/// Sends a request with these headers, without any key.
async fn send(sandbox: &Sandbox, line: &str, headers: &str, body: &str) -> raw::RawResponse {
    let length = body.len();
    let text = format!("{line} HTTP/1.1\r\n{headers}content-length: {length}\r\n\r\n{body}");
    raw::send(sandbox.addr(), text.as_bytes()).await
}

#[tokio::test]
async fn serves_every_file_with_a_policy_that_forbids_inline_scripts() {
    let sandbox = Sandbox::start().await;
    let host = format!("host: {}\r\n", sandbox.addr());
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
    let mut files = vec![("/".to_owned(), page.join("index.html"))];
    for folder in ["", "lib", "vendor", "views"] {
        for file in fs::read_dir(page.join(folder)).unwrap() {
            let path = file.unwrap().path();
            let name = path
                .strip_prefix(&page)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            if ["js", "css", "svg", "json"]
                .iter()
                .any(|kind| name.ends_with(&format!(".{kind}")))
            {
                files.push((format!("/page/{name}"), path));
            }
        }
    }

    assert!(files.len() > 20, "{files:?}");

    for (url, path) in files {
        let response = send(&sandbox, &format!("GET {url}"), &host, "").await;
        assert_eq!(response.status, 200, "{url}");
        // Not `assert_eq`, which would print both files.
        assert!(
            response.body == fs::read_to_string(&path).unwrap(),
            "{url} differs"
        );
        let policy = response.header("content-security-policy").unwrap();
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self' 'sha256-"),
            "{policy}"
        );
        assert!(
            !policy.contains("unsafe") && !policy.contains("http"),
            "{policy}"
        );
        assert_eq!(
            response.header("x-content-type-options"),
            Some("nosniff"),
            "{url}"
        );
    }
}

/// With a proxy that leaves the path in the request, and with one that takes it out.
#[tokio::test]
async fn the_page_works_below_a_path() {
    let url = "http://127.0.0.1/mail/";
    let sandbox = Sandbox::with(|builder| builder.public_url(url).expect("a URL")).await;
    let host = format!("host: {}\r\n", sandbox.addr());
    for path in [
        "",
        "page/app.js",
        "_sandbox/messages",
        "openapi/control.json",
    ] {
        let stripped = send(&sandbox, &format!("GET /{path}"), &host, "").await;
        let below = send(&sandbox, &format!("GET /mail/{path}"), &host, "").await;
        assert_eq!((stripped.status, below.status), (200, 200), "{path}");
        assert!(stripped.body == below.body, "{path}");
    }

    let bare = send(&sandbox, "GET /mail", &host, "").await;
    assert_eq!(
        (bare.status, bare.header("location")),
        (308, Some("/mail/"))
    );
    assert_eq!(send(&sandbox, "GET /mailbox", &host, "").await.status, 404);

    let index = send(&sandbox, "GET /mail/", &host, "").await.body;
    assert!(!index.contains("\"/page"), "{index}");
}

/// The page may be open in the same browser as a web page that attacks it.
#[tokio::test]
async fn other_sites_reach_neither_the_page_nor_its_frame_nor_the_events() {
    let sandbox = Sandbox::start().await;
    let addr = sandbox.addr();
    for (line, body) in [
        ("GET /", ""),
        ("GET /page/app.js", ""),
        ("GET /_sandbox/events", ""),
        ("POST /page/preview", "html=<p>Hello</p>\r\n"),
    ] {
        let other_host = send(&sandbox, line, "host: evil.test\r\n", body).await;
        assert_eq!(other_host.status, 421, "{line}");
        let headers = format!("host: {addr}\r\norigin: http://evil.test\r\n");
        assert_eq!(
            send(&sandbox, line, &headers, body).await.status,
            403,
            "{line}"
        );
    }
}

#[tokio::test]
async fn a_frame_has_neither_scripts_nor_an_origin_nor_content_from_elsewhere() {
    let sandbox = Sandbox::start().await;
    let addr = sandbox.addr();
    let headers = format!("host: {addr}\r\norigin: http://{addr}\r\ncontent-type: text/plain\r\n");
    let html = "<p>1 = 1</p>\r\n<script>alert(1)</script>";
    let body = format!("html={html}\r\n");
    for (query, sources) in [("", "data:"), ("?remote=1", "data: http: https:")] {
        let line = format!("POST /page/preview{query}");
        let response = send(&sandbox, &line, &headers, &body).await;
        assert_eq!((response.status, response.body.as_str()), (200, html));
        let policy = response.header("content-security-policy").unwrap();
        let start = "sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none'; ";
        assert!(policy.starts_with(start), "{policy}");
        assert!(
            policy.contains(&format!("; img-src {sources};")),
            "{policy}"
        );
        assert!(!policy.contains("script"), "{policy}");
    }

    let other = send(&sandbox, "POST /page/preview", &headers, "text=x\r\n").await;
    assert_eq!(other.status, 422, "{}", other.body);
}

#[tokio::test]
async fn a_public_server_serves_the_page_without_its_token_and_behind_a_proxy() {
    let sandbox = Sandbox::with(|builder| {
        public(builder)
            .public_url("https://mail.example")
            .expect("a URL")
    })
    .await;
    let host = format!("host: {}\r\n", sandbox.addr());
    assert_eq!(send(&sandbox, "GET /", &host, "").await.status, 200);

    let keys = send(&sandbox, "GET /_sandbox/keys", &host, "").await;
    assert_eq!(keys.status, 401, "{}", keys.body);

    // The proxy adds TLS.
    for (origin, status) in [("https://mail.example", 200), ("https://evil.example", 403)] {
        let headers = format!("host: 10.0.0.1:4080\r\norigin: {origin}\r\n");
        let preview = send(&sandbox, "POST /page/preview", &headers, "html=x").await;
        assert_eq!(preview.status, status, "{origin}");
    }
}
