//! Checks the SDK's handling of arbitrary responses to every operation: no panic, no
//! body beyond the size limit, no call beyond its deadline, no retry of a send that may
//! have been processed, and an outcome that fits the status.
//!
//! An input is text: a line with the number of the operation and the status, header
//! lines, an empty line, and the body. A tower layer replaces the network and returns
//! this response; everything else is the code of the client.
#![no_main]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt::Debug;
use std::future::ready;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body::{Frame, SizeHint};
use libfuzzer_sys::fuzz_target;
use serde::Serialize;
use serde_json::Value;
use svc_sdk::email::{ContactUpdate, Email, NewWebhook, WebhookUpdate};
use svc_sdk::{
    AttemptService, Body, Call, EmailClient, Error, ErrorKind, ExtractionClient, Operation, Outcome,
};
use tokio::runtime::Runtime;
use tokio::time::Instant;

const DEADLINE: Duration = Duration::from_secs(30);
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);
/// Far below the default, so that short inputs exceed it.
const LIMIT: usize = 512;

fuzz_target!(|input: &[u8]| {
    let Some(response) = CannedResponse::parse(input) else { return };
    let (target, response) = (response.target, Arc::new(response));
    SHARED.with_borrow_mut(|shared| {
        let clients = Shared::clients(&response);
        shared.runtime.block_on(async {
            let start = Instant::now();
            let result = target.call(&clients).await;
            response.check(target, &result);
            let elapsed = start.elapsed();
            // Each page of a stream is a separate call.
            assert!(elapsed <= 2 * DEADLINE, "{elapsed:?}");
        });
    });
});

#[derive(Clone, Copy, PartialEq)]
enum Target {
    Operation(Operation),
    Organization,
    Stream,
    Raw,
}

struct CannedResponse {
    target: Target,
    status: StatusCode,
    headers: HeaderMap,
    /// The body is sent in chunks of this size, without a length.
    chunk_size: Option<usize>,
    /// The connection breaks before the end of the body.
    truncated: bool,
    body: Bytes,
    /// How often the response was sent.
    sent_count: AtomicUsize,
}

impl CannedResponse {
    fn parse(input: &[u8]) -> Option<Self> {
        let head = input.windows(2).position(|pair| pair == b"\n\n")?;
        let mut lines = std::str::from_utf8(&input[..head]).ok()?.split('\n');
        let (target, status) = lines.next()?.split_once(' ')?;
        let target = match target.parse::<usize>().ok()? {
            25 => Target::Organization,
            26 => Target::Stream,
            27 => Target::Raw,
            number => Target::Operation(*Operation::ALL.get(number)?),
        };
        let mut response = Self {
            target,
            status: StatusCode::from_u16(status.parse().ok()?).ok()?,
            headers: HeaderMap::new(),
            chunk_size: None,
            truncated: false,
            body: Bytes::copy_from_slice(&input[head + 2..]),
            sent_count: AtomicUsize::new(0),
        };
        for line in lines {
            let (name, value) = line.split_once(':')?;
            match name {
                "pieces" => response.chunk_size = Some(value.trim().parse::<usize>().ok()?.max(1)),
                "cut" => response.truncated = true,
                _ => {
                    let name = HeaderName::try_from(name).ok()?;
                    response.headers.append(name, HeaderValue::try_from(value.trim()).ok()?);
                }
            }
        }
        Some(response)
    }

    fn send(&self) -> Response<Body> {
        self.sent_count.fetch_add(1, Ordering::Relaxed);
        let body = match (self.chunk_size, self.truncated) {
            (None, false) => Body::new(self.body.clone()),
            (chunk_size, truncated) => {
                let chunks = self.body.chunks(chunk_size.unwrap_or(usize::MAX));
                let chunks = chunks.map(|chunk| Ok(self.body.slice_ref(chunk)));
                let broken = truncated.then(|| Err(io::Error::other("connection reset")));
                Body::wrap(ChunkedBody(chunks.chain(broken).collect()))
            }
        };
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers.clone();
        response
    }

    /// Asserts what must hold for any response.
    fn check(&self, target: Target, result: &Result<(), Error>) {
        let sent = self.sent_count.load(Ordering::Relaxed);
        let status = self.status.as_u16();
        let success = self.status.is_success();
        let sends_email =
            matches!(target, Target::Operation(Operation::EmailsSend | Operation::EmailsSendBatch));
        assert!(sent >= 1);
        // The client repeats a 429 with `Retry-After` as often as the deadline allows.
        let paced = status == 429 && self.headers.contains_key("retry-after");
        assert!(sent <= 3 || paced || target == Target::Stream, "at most two retries");
        assert!(!sends_email || status == 429 || sent == 1, "{status}: sent {sent} times");

        let Err(error) = result else {
            assert!(success, "{status} is not a success status");
            assert!(!self.truncated && self.body.len() <= LIMIT);
            return;
        };
        assert!(error.body().len() <= 64 * 1024);
        let text = format!("{error} {error:?} {error:#?}");
        assert!(text.len() < 16 * 1024, "{} bytes", text.len());
        let _ = (error.is_retryable(), error.code(), error.message(), error.fields());
        match error.kind() {
            ErrorKind::WrongOrganization { .. } => {
                assert!(target == Target::Organization && success)
            }
            ErrorKind::PageRepeated => assert!(target == Target::Stream && success),
            kind if success => {
                assert_eq!(error.outcome(), Outcome::Unknown, "the request was processed");
                assert_eq!(error.status(), Some(self.status));
                let large = matches!(kind, ErrorKind::ResponseTooLarge { .. });
                assert!(!large || self.body.len() > LIMIT);
                let complete = !self.truncated && self.body.len() <= LIMIT;
                let expected =
                    matches!(kind, ErrorKind::InvalidResponse { .. } | ErrorKind::MissingId);
                assert!(!complete || expected, "{kind:?}");
                assert!(!(complete && self.is_valid(target)), "{error:?}");
            }
            kind => {
                assert_eq!(error.status(), Some(self.status));
                assert!(!matches!(kind, ErrorKind::ResponseTooLarge { .. }));
                let rejected = matches!(status, 307 | 308 | 400..500);
                let outcome = if rejected { Outcome::Refused } else { Outcome::Unknown };
                assert_eq!(error.outcome(), outcome, "{status}");
            }
        }
        self.check_retry_after(error, sent);
    }

    /// Whether the SDK must accept the body.
    fn is_valid(&self, target: Target) -> bool {
        use Operation as Op;
        let Target::Operation(operation) = target else { return target == Target::Raw };
        match operation {
            Op::AudiencesDelete
            | Op::ContactsDelete
            | Op::DomainsDelete
            | Op::WebhooksDelete
            | Op::ExtractionWebhooksDelete => self.body.is_empty(),
            Op::EmailsSend
            | Op::EmailsGet
            | Op::AudiencesCreate
            | Op::AudiencesGet
            | Op::ContactsCreate
            | Op::DomainsCreate => {
                let body = serde_json::from_slice::<Value>(&self.body).unwrap_or_default();
                let has_id = body["id"].as_str().is_some_and(|id| !id.is_empty());
                has_id && body.as_object().is_some_and(|fields| fields.len() == 1)
            }
            _ => false,
        }
    }

    /// `Retry-After` in seconds is reported as sent. The client waits up to a limit.
    fn check_retry_after(&self, error: &Error, sent: usize) {
        if self.status.is_success() {
            return;
        }
        let value = self.headers.get("retry-after").and_then(|value| value.to_str().ok());
        let Some(value) = value else { return assert_eq!(error.retry_after(), None) };
        let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
        match value.parse::<u64>() {
            Ok(seconds) if digits => {
                assert_eq!(error.retry_after(), Some(Duration::from_secs(seconds)));
            }
            _ if digits => assert!(error.retry_after() > Some(MAX_RETRY_AFTER)),
            _ => {}
        }
        let too_long = error.retry_after().is_some_and(|wait| wait > MAX_RETRY_AFTER.min(DEADLINE));
        assert!(!too_long || sent == 1, "the client must not wait longer than the limit");
    }
}

struct Clients {
    email: EmailClient,
    extraction: ExtractionClient,
}

impl Target {
    async fn call(self, clients: &Clients) -> Result<(), Error> {
        use Operation as Op;
        let Clients { email, extraction } = clients;
        let id = "an_id";
        let operation = match self {
            Self::Operation(operation) => operation,
            Self::Organization => {
                return check_value(extraction.verify_organization("org_1")).await.map(drop);
            }
            Self::Raw => {
                let raw = email.raw("GET", "/anything").await?;
                assert!(raw.body.len() <= LIMIT);
                let _ = (format!("{raw:?}"), raw.text().len(), raw.json::<Value>().is_ok());
                return Ok(());
            }
            Self::Stream => {
                let mut stream = email.contacts().stream(id);
                // The stream ends if the same page is returned again.
                while let Some(contact) = stream.next().await {
                    let _ = format!("{:?}", contact?);
                }
                return Ok(());
            }
        };
        let mail = || Email::new("a@b.test", "c@d.test", "s").text("t");
        match operation {
            Op::Me => drop(check_value(extraction.me()).await?.auth),
            Op::ExtractionWebhooksCreate => {
                let webhook = svc_sdk::extraction::NewWebhook::new("https://h.test", ["e"]);
                check_value(extraction.webhooks().create(&webhook)).await?;
            }
            Op::ExtractionWebhooksList => drop(check_value(extraction.webhooks().list()).await?),
            Op::ExtractionWebhooksDelete => check_deleted(extraction.webhooks().delete(id)).await?,
            Op::AudiencesCreate => drop(check_value(email.audiences().create("A")).await?),
            Op::AudiencesList => drop(check_value(email.audiences().list()).await?),
            Op::AudiencesGet => drop(check_value(email.audiences().get(id)).await?),
            Op::AudiencesDelete => check_deleted(email.audiences().delete(id)).await?,
            Op::ContactsCreate => drop(check_value(email.contacts().create(id, "c@d.test")).await?),
            Op::ContactsList => {
                check_value(email.contacts().list(id).page(1).page_size(2)).await?;
            }
            Op::ContactsUpdate => {
                check_value(email.contacts().update(id, &ContactUpdate::new())).await?;
            }
            Op::ContactsDelete => check_deleted(email.contacts().delete(id)).await?,
            Op::DomainsList => drop(check_value(email.domains().list()).await?),
            Op::DomainsCreate => {
                let _ = check_value(email.domains().create("d.test")).await?.dns_records();
            }
            Op::DomainsVerify => {
                let _ = check_value(email.domains().verify(id)).await?.is_verified();
            }
            Op::DomainsDelete => check_deleted(email.domains().delete(id)).await?,
            Op::EmailsSend => {
                let sent = check_value(email.emails().send(&mail())).await?;
                let _ = sent.status.is_some_and(|status| status.is_final());
            }
            Op::EmailsSendBatch => {
                let batch = check_value(email.emails().send_batch(&[mail(), mail()])).await?;
                let reported = batch.accepted().count() + batch.refused().count();
                assert!(reported <= batch.items.len());
                assert!(!batch.all_accepted() || (batch.is_complete() && reported == 2));
            }
            Op::EmailsGet => drop(check_value(email.emails().get(id)).await?),
            Op::EmailsCancel => drop(check_value(email.emails().cancel(id)).await?),
            Op::WebhooksCreate => {
                let webhook = NewWebhook::new("https://h.test", ["email.sent"]);
                check_value(email.webhooks().create(&webhook)).await?;
            }
            Op::WebhooksList => drop(check_value(email.webhooks().list()).await?),
            Op::WebhooksUpdate => {
                check_value(email.webhooks().update(id, &WebhookUpdate::new().active(true)))
                    .await?;
            }
            Op::WebhooksDelete => check_deleted(email.webhooks().delete(id)).await?,
            Op::WebhooksTest => {
                let _ = check_value(email.webhooks().test(id)).await?.is_success();
            }
            // `Operation` is not exhaustive.
            other => unreachable!("no call for {other:?}"),
        }
        Ok(())
    }
}

/// Uses the returned value in every way that a caller can.
async fn check_value<T>(call: Call<T>) -> Result<T, Error>
where
    T: Debug + Serialize,
    Call<T>: IntoFuture<Output = Result<T, Error>>,
{
    let value = call.await?;
    let _ = format!("{value:?}");
    let _ = serde_json::to_string(&value).map(|text| text.len());
    Ok(value)
}

async fn check_deleted(call: Call<svc_sdk::Deleted>) -> Result<(), Error> {
    let deleted = call.await?;
    let _ = (format!("{deleted:?}"), deleted.extra.raw().len());
    Ok(())
}

/// State shared by all inputs: a runtime with a paused clock, which advances to the next timer when all tasks are idle.
struct Shared {
    runtime: Runtime,
}

thread_local! {
    static SHARED: RefCell<Shared> = RefCell::new(Shared {
        runtime: tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap(),
    });
}

impl Shared {
    /// Creates clients for each input, because a client keeps state between calls.
    fn clients(response: &Arc<CannedResponse>) -> Clients {
        let layer = || {
            let response = Arc::clone(response);
            tower::layer::layer_fn(move |_: AttemptService| {
                let response = Arc::clone(&response);
                tower::service_fn(move |_: Request<Body>| ready(Ok::<_, Error>(response.send())))
            })
        };
        let url = "http://127.0.0.1:9";
        let email = EmailClient::builder(url, "k").no_proxy();
        let extraction = ExtractionClient::builder(url, "k").no_proxy();
        let (timeout, limit) = (DEADLINE, LIMIT as u64);
        Clients {
            email: email.layer(layer()).timeout(timeout).max_response_size(limit).build().unwrap(),
            extraction: extraction
                .layer(layer())
                .timeout(timeout)
                .max_response_size(limit)
                .build()
                .unwrap(),
        }
    }
}

/// A body of unknown length.
struct ChunkedBody(VecDeque<Result<Bytes, io::Error>>);

impl http_body::Body for ChunkedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        Poll::Ready(self.0.pop_front().map(|chunk| chunk.map(Frame::data)))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::new()
    }
}
