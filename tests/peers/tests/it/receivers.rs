//! Receivers made with libraries for other services, adapted to the headers of ours and
//! examined by `svc certify`. What they do not pass is part of the test, so that a change
//! of a library or of a check is noticed.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::middleware::map_request;
use axum::routing::post;
use axum_github_webhook_extract::{GithubEvent, GithubToken};
use hmac_sha256::HMAC;
use serde_json::Value;
use standardwebhooks::Webhook;
use standardwebhooks::{HEADER_WEBHOOK_ID, HEADER_WEBHOOK_SIGNATURE, HEADER_WEBHOOK_TIMESTAMP};
use tokio::net::TcpListener;
use tokio::process::Command;

const SECRET: &str = "whsec_c0ffee";

/// `axum-github-webhook-extract`, which expects the header of GitHub in the format of the
/// extraction service.
#[tokio::test]
async fn axum_github_webhook_extract() {
    async fn rename(mut request: Request) -> Request {
        let ours = HeaderName::from_static("x-service-signature");
        let values = request
            .headers()
            .get_all(&ours)
            .iter()
            .cloned()
            .collect::<Vec<_>>();
        for value in values {
            request.headers_mut().append("x-hub-signature-256", value);
        }
        request
    }

    async fn handle(GithubEvent(_): GithubEvent<Value>) -> StatusCode {
        StatusCode::NO_CONTENT
    }

    let app = Router::new()
        .route("/hooks", post(handle))
        .layer(map_request(rename))
        .with_state(GithubToken(Arc::new(SECRET.to_owned())));
    let report = certify("github", app).await;
    assert_eq!(
        with_result(&report, "failed"),
        ["doubled-header"],
        "{report:#}"
    );
    assert_eq!(
        with_result(&report, "advice"),
        ["old-delivery", "future-delivery"],
        "{report:#}"
    );
}

/// `standardwebhooks`. It signs the id and the time together with the body, so it cannot
/// verify deliveries of our services as it is: [`verify`] is its function with our header and
/// our signed content.
#[tokio::test]
async fn standardwebhooks() {
    async fn receive(headers: HeaderMap, body: Bytes) -> StatusCode {
        if verify(&body, &headers) {
            StatusCode::NO_CONTENT
        } else {
            StatusCode::UNAUTHORIZED
        }
    }

    let report = certify("standard", Router::new().route("/hooks", post(receive))).await;
    assert_eq!(
        with_result(&report, "failed"),
        ["body-not-utf8", "extended-signature", "doubled-header"],
        "{report:#}"
    );
    assert_eq!(
        with_result(&report, "advice"),
        ["upper-case-hex", "old-delivery", "future-delivery"],
        "{report:#}"
    );
}

/// `Webhook::verify` and `Webhook::sign` of `standardwebhooks` 1.0.1 (MIT license), for
/// `X-Service-Signature: sha256=<hex>` in place of `webhook-signature: v1,<base64>`, without
/// the id and the time.
fn verify(payload: &[u8], headers: &HeaderMap) -> bool {
    let header = headers
        .get("x-service-signature")
        .and_then(|value| value.to_str().ok());
    let Some(signature) = header else {
        return false;
    };
    let Ok(payload) = std::str::from_utf8(payload) else {
        return false;
    };

    let tag = HMAC::mac(payload.as_bytes(), SECRET.as_bytes());
    let expected = tag
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<String>();
    signature
        .split(' ')
        .filter_map(|part| part.split_once('='))
        .any(|(version, digits)| {
            version == "sha256"
                && digits.len() == expected.len()
                && digits
                    .bytes()
                    .zip(expected.bytes())
                    .fold(0, |acc, (a, b)| acc | (a ^ b))
                    == 0
        })
}

/// The library itself does what [`verify`] shows: it takes the first of two headers and any of
/// the signatures in it, and refuses a body that is not UTF-8, and another notation of the
/// signature.
#[test]
fn the_adapted_function_behaves_as_the_library() {
    let webhook = Webhook::from_bytes(SECRET.into()).expect("a secret");
    let now = std::time::UNIX_EPOCH.elapsed().expect("a time").as_secs();
    let signature = webhook
        .sign("id", now.try_into().expect("a time"), b"{}")
        .expect("signed");
    let headers = |signatures: &[&str]| {
        let mut headers = HeaderMap::new();
        headers.insert(HEADER_WEBHOOK_ID, "id".parse().expect("a value"));
        headers.insert(HEADER_WEBHOOK_TIMESTAMP, now.into());
        for signature in signatures {
            headers.append(
                HEADER_WEBHOOK_SIGNATURE,
                signature.parse().expect("a value"),
            );
        }
        headers
    };

    assert!(webhook.verify(b"{}", &headers(&[&signature])).is_ok());
    assert!(
        webhook
            .verify(b"{}", &headers(&[&signature, "v1,wrong"]))
            .is_ok()
    );
    assert!(
        webhook
            .verify(b"{}", &headers(&["v1,wrong", &signature]))
            .is_err()
    );
    assert!(
        webhook
            .verify(b"{}", &headers(&[&format!("v1,wrong {signature}")]))
            .is_ok()
    );
    assert!(
        webhook
            .verify(b"{}", &headers(&[&signature.to_uppercase()]))
            .is_err()
    );
    assert!(webhook.sign("id", 0, b"\xff").is_err());
}

/// Serves the application and examines it as a receiver of the extraction service.
async fn certify(name: &str, app: Router) -> Value {
    let svc = std::env::var("SVC_PEERS_SVC").expect("SVC_PEERS_SVC: the path of svc (see `run`)");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!(
        "http://{}/hooks",
        listener.local_addr().expect("an address")
    );
    tokio::spawn(async move { axum::serve(listener, app).await });
    let file = |file: &str, secret: &str| {
        let path = std::env::temp_dir().join(format!("svc-peers-{name}-{file}"));
        std::fs::write(&path, secret).expect("written");
        path
    };

    let output = Command::new(svc)
        .args([
            "certify",
            &url,
            "--service",
            "extraction",
            "--json",
            "--secret-file",
        ])
        .arg(file("secret", SECRET))
        .output()
        .await
        .expect("svc runs");
    assert_eq!(output.status.code(), Some(10), "{output:?}");

    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The names of the checks with this result.
fn with_result<'a>(report: &'a Value, result: &str) -> Vec<&'a str> {
    let checks = report["checks"].as_array().expect("a list").iter();
    let checks = checks.filter(|check| check["result"] == result);
    checks
        .map(|check| check["check"].as_str().expect("a name"))
        .collect()
}
