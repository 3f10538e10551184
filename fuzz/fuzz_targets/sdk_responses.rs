//! Checks the SDK's handling of arbitrary responses to every operation: no panic, no
//! body beyond the size limit, and an outcome that fits the status.
//!
//! An input is text: a line with the number of the operation and the status, header
//! lines, an empty line, and the body. A server on loopback sends this response.
#![no_main]

use std::cell::RefCell;
use std::fmt::Debug;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use libfuzzer_sys::fuzz_target;
use serde::Serialize;
use serde_json::Value;
use svc_sdk::email::{ContactUpdate, Email, NewWebhook, WebhookUpdate};
use svc_sdk::{Call, EmailClient, Error, ErrorKind, ExtractionClient, Operation, Outcome};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

const DEADLINE: Duration = Duration::from_secs(30);
/// Far below the default, so that short inputs exceed it.
const LIMIT: usize = 512;

fuzz_target!(|input: &[u8]| {
    let Some(response) = CannedResponse::parse(input) else { return };
    let (target, response) = (response.target, Arc::new(response));
    SHARED.with_borrow(|shared| {
        *shared.response.lock().unwrap() = Some(Arc::clone(&response));
        let clients = Clients::new(&shared.url);
        let result = shared.runtime.block_on(target.call(&clients));
        response.check(target, &result);
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
        let status = StatusCode::from_u16(status.parse().ok()?).ok()?;
        // The others announce a response, or have no body.
        if !(200..600).contains(&status.as_u16()) || matches!(status.as_u16(), 204 | 304) {
            return None;
        }
        let mut response = Self {
            target,
            status,
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
                "content-length" | "transfer-encoding" | "connection" | "trailer" => return None,
                _ => {
                    let name = HeaderName::try_from(name).ok()?;
                    response.headers.append(name, HeaderValue::try_from(value.trim()).ok()?);
                }
            }
        }
        Some(response)
    }

    async fn send(&self, stream: &mut TcpStream) -> std::io::Result<()> {
        self.sent_count.fetch_add(1, Ordering::Relaxed);
        let mut head = format!("HTTP/1.1 {} x\r\nconnection: close\r\n", self.status.as_u16());
        for (name, value) in &self.headers {
            let value = String::from_utf8_lossy(value.as_bytes());
            write!(head, "{name}: {value}\r\n").unwrap();
        }
        let length = self.body.len() + usize::from(self.truncated);
        match self.chunk_size {
            Some(_) => head.push_str("transfer-encoding: chunked\r\n\r\n"),
            None => write!(head, "content-length: {length}\r\n\r\n").unwrap(),
        }
        stream.write_all(head.as_bytes()).await?;
        let Some(size) = self.chunk_size else { return stream.write_all(&self.body).await };
        for chunk in self.body.chunks(size) {
            stream.write_all(format!("{:x}\r\n", chunk.len()).as_bytes()).await?;
            stream.write_all(chunk).await?;
            stream.write_all(b"\r\n").await?;
        }
        if self.truncated { Ok(()) } else { stream.write_all(b"0\r\n\r\n").await }
    }

    /// Asserts what must hold for any response.
    fn check(&self, target: Target, result: &Result<(), Error>) {
        let sent = self.sent_count.load(Ordering::Relaxed);
        let status = self.status.as_u16();
        let success = self.status.is_success();
        assert!(sent >= 1);
        assert!(sent == 1 || target == Target::Stream, "{status}: sent {sent} times");

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
                // A time-out may come after the work has begun.
                let rejected = matches!(status, 307 | 308 | 400..500) && status != 408;
                let outcome = if rejected { Outcome::Refused } else { Outcome::Unknown };
                assert_eq!(error.outcome(), outcome, "{status}");
            }
        }
        self.check_retry_after(error);
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

    /// `Retry-After` in seconds is reported as sent.
    fn check_retry_after(&self, error: &Error) {
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
            _ if digits => assert!(error.retry_after() > Some(DEADLINE)),
            _ => {}
        }
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

/// State shared by all inputs: a server that sends the current response.
struct Shared {
    runtime: Runtime,
    url: String,
    response: Arc<Mutex<Option<Arc<CannedResponse>>>>,
}

thread_local! {
    static SHARED: RefCell<Shared> = RefCell::new(Shared::start());
}

impl Shared {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let response = Arc::<Mutex<Option<Arc<CannedResponse>>>>::default();
        let current = Arc::clone(&response);
        runtime.spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let response = current.lock().unwrap().clone().unwrap();
                tokio::spawn(async move {
                    // The requests are small, so that one read gets all of one.
                    let read = stream.read(&mut [0; 16 * 1024]).await;
                    drop((read, response.send(&mut stream).await));
                });
            }
        });
        Self { runtime, url, response }
    }
}

impl Clients {
    /// New for each input, because a client keeps state between calls.
    fn new(url: &str) -> Self {
        let limit = LIMIT as u64;
        let email = EmailClient::builder(url, "k").no_proxy().retries(0).timeout(DEADLINE);
        let extraction =
            ExtractionClient::builder(url, "k").no_proxy().retries(0).timeout(DEADLINE);
        Self {
            email: email.max_response_size(limit).build().unwrap(),
            extraction: extraction.max_response_size(limit).build().unwrap(),
        }
    }
}
