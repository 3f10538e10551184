//! The benchmarked calls: the same email sent with each client.

#[cfg(feature = "peers")]
use bytes::Bytes;
#[cfg(feature = "peers")]
use http_body_util::{BodyExt, Full};
#[cfg(feature = "peers")]
use hyper_util::client::legacy::Client as HyperClient;
#[cfg(feature = "peers")]
use hyper_util::rt::TokioExecutor;
use resend_rs::types::CreateEmailBaseOptions;
use serde::{Deserialize, Serialize};
use svc_sdk::email::Email;
use svc_sdk::{EmailClient, Scope};

use crate::counting::{allocations as counted, peak, reset_peak};
use crate::mock_server::MockServer;

pub const ALL: &[&str] = &[
    "send/svc",
    "send/svc-spans",
    "send/reqwest",
    #[cfg(feature = "peers")]
    "send/hyper",
    "send/resend-rs",
    #[cfg(feature = "peers")]
    "send/svix",
    "batch/svc",
    "batch/reqwest",
    "batch/resend-rs",
];

#[derive(Serialize, Clone)]
pub struct Body {
    pub from: String,
    pub to: Vec<String>,
    pub subject: String,
    pub text: String,
    pub html: String,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "only deserialized")]
pub struct Accepted {
    id: String,
    status: String,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "only deserialized")]
struct BatchResponse {
    results: Vec<BatchItem>,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "only deserialized")]
struct BatchItem {
    index: usize,
    id: String,
    status: String,
}

pub const ACCEPTED: &str = r#"{"id":"eml_0190a5e0-7f3c-7000-8000-000000000001","status":"queued"}"#;
#[cfg(feature = "peers")]
pub const MESSAGE: &str = r#"{"id":"msg_0190a5e0-7f3c-7000-8000-000000000001","eventType":"email.sent","payload":{},"timestamp":"2026-01-02T03:04:05Z"}"#;

pub fn body() -> Body {
    Body {
        from: "Shop <hello@shop.example>".into(),
        to: vec!["ada@example.com".into()],
        subject: "Your invoice".into(),
        text: "Thank you for your order. ".repeat(8),
        html: "<p>Thank you for your order.</p>".repeat(8),
    }
}

pub fn email() -> Email {
    let Body {
        from,
        subject,
        text,
        html,
        mut to,
    } = body();
    Email::new(from, to.remove(0), subject)
        .text(text)
        .html(html)
}

fn batch_response() -> String {
    let item = |index| {
        format!(
            r#"{{"index":{index},"id":"eml_0190a5e0-7f3c-7000-8000-{index:012}","status":"queued"}}"#
        )
    };
    format!(
        r#"{{"results":[{}]}}"#,
        (0..100).map(item).collect::<Vec<_>>().join(",")
    )
}

pub async fn allocations(names: &[&str], count: u32) {
    println!(
        "{:<18} {:>12} {:>10}",
        "per call", "allocations", "peak KiB"
    );
    for name in names {
        measure(name, count).await;
    }
}

/// Warms up, then counts the allocations per call.
async fn count<F: AsyncFnMut()>(name: &str, count: u32, mut call: F) {
    for _ in 0..20 {
        call().await;
    }

    let live = reset_peak();
    let before = counted();
    for _ in 0..count {
        call().await;
    }

    let per_call = (counted() - before) as f64 / f64::from(count);
    println!("{name:<18} {per_call:>12.1} {:>10}", (peak() - live) / 1024);
}

/// An SDK client with all features in use: deadline, retries, local checks, scope checks, and a
/// callback.
pub fn svc(url: &str) -> svc_sdk::EmailClientBuilder {
    EmailClient::builder(url, "mk_secret")
        .scopes([Scope::EmailsSend])
        .check_scopes(true)
        .service_honors_idempotency_key(true)
        .on_attempt(|attempt| assert!(attempt.failure.is_none()))
}

pub fn resend(url: &str) -> resend_rs::Resend {
    let config =
        resend_rs::ConfigBuilder::new("re_secret").base_url(url.parse().expect("valid URL"));
    // Raise its built-in rate limit, which would dominate the measurement.
    // SAFETY: no other thread accesses the environment at this point.
    unsafe { std::env::set_var("RESEND_RATE_LIMIT", "1000000") };
    resend_rs::Resend::with_config(config.build())
}

pub fn resend_email(body: &Body) -> CreateEmailBaseOptions {
    CreateEmailBaseOptions::new(&body.from, &body.to, &body.subject)
        .with_text(&body.text)
        .with_html(&body.html)
}

#[cfg(feature = "peers")]
pub fn svix(url: &str) -> svix::api::Svix {
    let options = svix::api::SvixOptions {
        server_url: Some(url.into()),
        ..Default::default()
    };
    svix::api::Svix::new("testsk_secret".into(), Some(options))
}

async fn measure(name: &str, times: u32) {
    let body_ = body();
    match name {
        "send/svc" | "send/svc-spans" => {
            let server = MockServer::start(ACCEPTED);
            let client = svc(&server.url).build().expect("client");
            let _spans = (name == "send/svc-spans")
                .then(|| tracing::subscriber::set_default(crate::spans::DropsAll));
            let email = email();
            count(name, times, async || {
                client.emails().send(&email).await.expect("accepted");
            })
            .await;
        }
        "attachment/svc" => {
            let server = MockServer::start(ACCEPTED);
            let client = svc(&server.url).build().expect("client");
            let content = bytes::Bytes::from(vec![0xa5; crate::check::ATTACHMENT]);
            let attachment = svc_sdk::email::Attachment::from_bytes("a.bin", content);
            let email = email().attachment(attachment);
            count(name, times, async || {
                client.emails().send(&email).await.expect("accepted");
            })
            .await;
        }
        "send/reqwest" => {
            let server = MockServer::start(ACCEPTED);
            let url = format!("{}/api/v1/emails", server.url);
            let client = reqwest::Client::new();
            count(name, times, async || {
                let response = client
                    .post(&url)
                    .bearer_auth("mk_secret")
                    .json(&body_)
                    .send()
                    .await;
                response
                    .expect("response")
                    .json::<Accepted>()
                    .await
                    .expect("json");
            })
            .await;
        }
        #[cfg(feature = "peers")]
        "send/hyper" => {
            let server = MockServer::start(ACCEPTED);
            let url: hyper::Uri = format!("{}/api/v1/emails", server.url)
                .parse()
                .expect("uri");
            let client: HyperClient<_, Full<Bytes>> =
                HyperClient::builder(TokioExecutor::new()).build_http();
            count(name, times, async || {
                let body = Full::from(serde_json::to_vec(&body_).expect("json"));
                let request = hyper::Request::post(url.clone())
                    .header("authorization", "Bearer mk_secret")
                    .header("content-type", "application/json")
                    .body(body)
                    .expect("request");
                let response = client.request(request).await.expect("response");
                let body = response
                    .into_body()
                    .collect()
                    .await
                    .expect("body")
                    .to_bytes();
                serde_json::from_slice::<Accepted>(&body).expect("json");
            })
            .await;
        }
        "send/resend-rs" => {
            let server = MockServer::start(ACCEPTED);
            let client = resend(&server.url);
            count(name, times, async || {
                let email = resend_email(&body_);
                client.emails.send(email).await.expect("accepted");
            })
            .await;
        }
        #[cfg(feature = "peers")]
        "send/svix" => {
            let server = MockServer::start(MESSAGE);
            let client = svix(&server.url);
            let payload = serde_json::to_value(&body_).expect("json");
            count(name, times, async || {
                let message = svix::models::MessageIn::new("email.sent".into(), payload.clone());
                client
                    .message()
                    .create("app_1".into(), message, None)
                    .await
                    .expect("accepted");
            })
            .await;
        }
        "batch/svc" => {
            let server = MockServer::start(&batch_response());
            let client = svc(&server.url).build().expect("client");
            let emails = vec![email(); 100];
            count(name, times / 10, async || {
                let _ = client.emails().send_batch(&emails).await.expect("accepted");
            })
            .await;
        }
        "batch/reqwest" => {
            let server = MockServer::start(&batch_response());
            let url = format!("{}/api/v1/emails/batch", server.url);
            let client = reqwest::Client::new();
            let bodies = vec![body_; 100];
            count(name, times / 10, async || {
                let response = client
                    .post(&url)
                    .bearer_auth("mk_secret")
                    .json(&bodies)
                    .send()
                    .await;
                response
                    .expect("response")
                    .json::<BatchResponse>()
                    .await
                    .expect("json");
            })
            .await;
        }
        "batch/resend-rs" => {
            let ids = vec![r#"{"id":"0190a5e0-7f3c-7000-8000-000000000001"}"#; 100].join(",");
            let server = MockServer::start(&format!("{{\"data\":[{ids}]}}"));
            let client = resend(&server.url);
            let email = resend_email(&body_);
            count(name, times / 10, async || {
                client
                    .batch
                    .send(vec![email.clone(); 100])
                    .await
                    .expect("accepted");
            })
            .await;
        }
        _ => panic!("unknown benchmark {name}; available: {ALL:?}"),
    }
}
