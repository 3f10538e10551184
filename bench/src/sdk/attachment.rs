//! An attachment of 10 MiB, from a path and from memory: peak live memory above idle, and CPU time.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, SizeHint};
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::rt::TokioExecutor;
use resend_rs::types::CreateAttachment;
use svc_sdk::email::Attachment;

use crate::calls::{ACCEPTED, body, email, resend, resend_email, svc};
use crate::counting::{peak, reset_peak};
use crate::hyper_fs::{PREFIX, SUFFIX};
use crate::latency::cpu;
use crate::mock_server::MockServer;

const SIZE: usize = 10 << 20;
const TIMES: u32 = 30;
const ROUNDS: usize = 7;

/// Runs all benchmarks, or only the named one. Alternates between clients and keeps the
/// lowest CPU time and the highest peak, because the machine is noisy.
pub async fn print(only: Option<&str>) {
    let file = tempfile::NamedTempFile::new().expect("create a temporary file");
    std::fs::write(file.path(), vec![0xa5; SIZE]).expect("write the file");
    let path = file.path();
    let content = Bytes::from(vec![0xa5; SIZE]);
    let server = MockServer::start(ACCEPTED);
    let url = format!("{}/api/v1/emails", server.url);
    let uri: hyper::Uri = url.parse().expect("valid URI");

    let client = svc(&server.url).build().expect("client");
    let hyper: HyperClient<_, crate::hyper_fs::Streamed> =
        HyperClient::builder(TokioExecutor::new()).build_http();
    let blocking: HyperClient<_, Streamed> =
        HyperClient::builder(TokioExecutor::new()).build_http();
    let reqwest = reqwest::Client::new();
    let resend = resend(&server.url);

    let mut table = Table {
        only,
        rows: Vec::new(),
    };
    for _ in 0..ROUNDS {
        table
            .measure("svc", async || {
                let email = email().attachment(Attachment::from_path(path).expect("open the file"));
                client.emails().send(&email).await.expect("accepted");
            })
            .await;
        table
            .measure("svc, from memory", async || {
                let content = content.clone();
                let email = email().attachment(Attachment::from_bytes("a.bin", content));
                client.emails().send(&email).await.expect("accepted");
            })
            .await;
        table
            .measure("hyper, tokio::fs", async || {
                let body = crate::hyper_fs::Streamed::new(path).await;
                let request = hyper::Request::post(uri.clone())
                    .header("content-type", "application/json")
                    .body(body)
                    .expect("build the request");
                let response = hyper.request(request).await.expect("response");
                response.into_body().collect().await.expect("read the body");
            })
            .await;
        table
            .measure("hyper, blocking", async || {
                let request = hyper::Request::post(uri.clone())
                    .header("content-type", "application/json")
                    .body(Streamed::new(path))
                    .expect("build the request");
                let response = blocking.request(request).await.expect("response");
                response.into_body().collect().await.expect("read the body");
            })
            .await;
        table
            .measure("reqwest .json()", async || {
                let content = std::fs::read(path).expect("read");
                let content = base64_simd::STANDARD.encode_to_string(content);
                let mut json = serde_json::to_value(body()).expect("json");
                json["attachments"] =
                    serde_json::json!([{"filename": "a.bin", "content": content}]);
                let response = reqwest.post(&url).bearer_auth("k").json(&json).send().await;
                response
                    .expect("response")
                    .bytes()
                    .await
                    .expect("read the body");
            })
            .await;
        table
            .measure("resend-rs", async || {
                let content = std::fs::read(path).expect("read");
                let attachment = CreateAttachment::from_content(content).with_filename("a.bin");
                let email = resend_email(&body()).with_attachment(attachment);
                resend.emails.send(email).await.expect("accepted");
            })
            .await;
    }

    table.print();
}

struct Table<'a> {
    only: Option<&'a str>,
    rows: Vec<(&'static str, f64, i64)>,
}

impl Table<'_> {
    async fn measure<F: AsyncFnMut()>(&mut self, name: &'static str, mut call: F) {
        if self.only.is_some_and(|only| only != name) {
            return;
        }

        call().await;
        let live = reset_peak();
        let before = cpu();
        for _ in 0..TIMES {
            call().await;
        }

        let cpu = (cpu() - before).as_secs_f64() * 1e3 / f64::from(TIMES);
        let peak = peak() - live;
        match self.rows.iter_mut().find(|row| row.0 == name) {
            Some(row) => {
                row.1 = row.1.min(cpu);
                row.2 = row.2.max(peak);
            }
            None => self.rows.push((name, cpu, peak)),
        }
    }

    fn print(self) {
        println!("{:<18} {:>12} {:>10}", "10 MiB", "peak KiB", "CPU ms");
        for (name, cpu, peak) in self.rows {
            println!("{name:<18} {:>12} {cpu:>10.2}", peak / 1024);
        }
    }
}

/// The cheapest solution with hyper: reads and encodes the file in chunks while the body is
/// polled, which blocks the runtime.
struct Streamed {
    file: std::fs::File,
    left: usize,
    started: bool,
    ended: bool,
}

const CHUNK_SIZE: usize = 96 * 1024;

impl Streamed {
    fn new(path: &std::path::Path) -> Self {
        let file = std::fs::File::open(path).expect("open the file");
        Self {
            file,
            left: SIZE,
            started: false,
            ended: false,
        }
    }
}

impl Body for Streamed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        use std::io::Read;
        let data = if !self.started {
            self.started = true;
            Bytes::from_static(PREFIX.as_bytes())
        } else if self.left > 0 {
            let mut part = vec![0; CHUNK_SIZE.min(self.left)];
            self.file.read_exact(&mut part).expect("read the file");
            self.left -= part.len();
            base64_simd::STANDARD.encode_to_string(&part).into()
        } else if !self.ended {
            self.ended = true;
            Bytes::from_static(SUFFIX.as_bytes())
        } else {
            return Poll::Ready(None);
        };
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact((PREFIX.len() + SIZE.div_ceil(3) * 4 + SUFFIX.len()) as u64)
    }
}
