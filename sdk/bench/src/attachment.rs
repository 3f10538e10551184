//! One attachment of 10 MiB from a path: peak live memory above idle, and CPU.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, SizeHint};
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::rt::TokioExecutor;
use svc_sdk::EmailClient;
use svc_sdk::email::Attachment;

use crate::calls::{ACCEPTED, body, email, resend};
use crate::counting::{peak, reset_peak};
use crate::latency::cpu;
use crate::peer::Peer;

const SIZE: usize = 10 << 20;
const TIMES: u32 = 200;

/// All of them, or the one of this name.
pub async fn print(only: Option<&str>) {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), vec![0xa5; SIZE]).expect("its content");
    let path = file.path();
    println!("{:<16} {:>12} {:>10}", "10 MiB", "peak KiB", "CPU ms");

    let peer = Peer::start(ACCEPTED);
    let client = EmailClient::builder(&peer.url, "mk_secret").build().expect("client");
    measure(only, "svc", async || {
        let email = email().attachment(Attachment::from_path(path).expect("the file"));
        client.emails().send(&email).await.expect("accepted");
    })
    .await;

    let hyper: HyperClient<_, Streamed> =
        HyperClient::builder(TokioExecutor::new()).build_http();
    let url: hyper::Uri = format!("{}/api/v1/emails", peer.url).parse().expect("a uri");
    measure(only, "hyper, streamed", async || {
        let request = hyper::Request::post(url.clone())
            .header("content-type", "application/json")
            .body(Streamed::new(path))
            .expect("a request");
        let answer = hyper.request(request).await.expect("an answer");
        answer.into_body().collect().await.expect("a body");
    })
    .await;

    let reqwest = reqwest::Client::new();
    measure(only, "reqwest .json()", async || {
        let content = base64_simd::STANDARD.encode_to_string(std::fs::read(path).expect("read"));
        let mut json = serde_json::to_value(body()).expect("json");
        json["attachments"] = serde_json::json!([{"filename": "a.bin", "content": content}]);
        let url = format!("{}/api/v1/emails", peer.url);
        let answer = reqwest.post(url).bearer_auth("k").json(&json).send().await;
        answer.expect("an answer").bytes().await.expect("a body");
    })
    .await;

    let resend = resend(&peer.url);
    measure(only, "resend-rs", async || {
        use resend_rs::types::{CreateAttachment, CreateEmailBaseOptions};
        let body = body();
        let content = std::fs::read(path).expect("read");
        let email = CreateEmailBaseOptions::new(body.from, body.to, body.subject)
            .with_text(&body.text)
            .with_attachment(CreateAttachment::from_content(content).with_filename("a.bin"));
        resend.emails.send(email).await.expect("accepted");
    })
    .await;
}

async fn measure<F: AsyncFnMut()>(only: Option<&str>, name: &str, mut call: F) {
    if only.is_some_and(|only| only != name) {
        return;
    }
    call().await;
    let live = reset_peak();
    let before = cpu();
    for _ in 0..TIMES {
        call().await;
    }
    let cpu = (cpu() - before).as_secs_f64() * 1e3 / f64::from(TIMES);
    println!("{name:<16} {:>12} {cpu:>10.1}", (peak() - live) / 1024);
}

/// The plain way with hyper: the file is read and encoded part by part while
/// the body is polled.
struct Streamed {
    file: std::fs::File,
    left: usize,
    begun: bool,
    ended: bool,
}

const BEGIN: &str = r#"{"from":"a@b","to":["c@d"],"subject":"s","attachments":[{"filename":"a.bin","content":""#;
const END: &str = r#""}]}"#;
const PART: usize = 96 * 1024;

impl Streamed {
    fn new(path: &std::path::Path) -> Self {
        let file = std::fs::File::open(path).expect("the file");
        Self { file, left: SIZE, begun: false, ended: false }
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
        let data = if !self.begun {
            self.begun = true;
            Bytes::from_static(BEGIN.as_bytes())
        } else if self.left > 0 {
            let mut part = vec![0; PART.min(self.left)];
            self.file.read_exact(&mut part).expect("the file's content");
            self.left -= part.len();
            base64_simd::STANDARD.encode_to_string(&part).into()
        } else if !self.ended {
            self.ended = true;
            Bytes::from_static(END.as_bytes())
        } else {
            return Poll::Ready(None);
        };
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact((BEGIN.len() + SIZE.div_ceil(3) * 4 + END.len()) as u64)
    }
}
