//! Whatever a service answers to whichever operation: no panic, nothing kept
//! beyond the limit, no call beyond its deadline, no send repeated that may
//! have been processed, and an outcome that fits the status.
//!
//! An input is a text: a line with a number that picks the operation and the
//! status, header lines, an empty line, the body. A layer in the place of the
//! network answers so; from there on it is the client's own code.
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
use svc_sdk::email::{ContactUpdate, Email, NewWebhook, PageQuery, WebhookUpdate};
use svc_sdk::{
    AttemptService, Body, Call, EmailClient, Error, ErrorKind, ExtractionClient, Operation, Outcome,
};
use tokio::runtime::Runtime;
use tokio::time::Instant;

const DEADLINE: Duration = Duration::from_secs(30);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Far below the default, so that short inputs reach it.
const LIMIT: usize = 512;

fuzz_target!(|input: &[u8]| {
    let Some(answer) = Answer::read(input) else { return };
    let (what, answer) = (answer.what, Arc::new(answer));
    RUN.with_borrow_mut(|run| {
        let clients = run.clients(&answer);
        run.runtime.block_on(async {
            let start = Instant::now();
            let result = what.call(&clients).await;
            answer.check(what, &result);
            let took = start.elapsed();
            // Each page of a stream is a call of its own.
            assert!(took <= 2 * DEADLINE, "{took:?}");
        });
    });
});

#[derive(Clone, Copy, PartialEq)]
enum What {
    Operation(Operation),
    Organization,
    Stream,
    Raw,
}

struct Answer {
    what: What,
    status: StatusCode,
    headers: HeaderMap,
    /// Whether its length is not told, and it comes in pieces of this size.
    piece: Option<usize>,
    /// Whether the connection breaks before the end.
    cut: bool,
    body: Bytes,
    /// How often it was given.
    given: AtomicUsize,
}

impl Answer {
    fn read(input: &[u8]) -> Option<Self> {
        let head = input.windows(2).position(|pair| pair == b"\n\n")?;
        let mut lines = std::str::from_utf8(&input[..head]).ok()?.split('\n');
        let (what, status) = lines.next()?.split_once(' ')?;
        let what = match what.parse::<usize>().ok()? {
            25 => What::Organization,
            26 => What::Stream,
            27 => What::Raw,
            number => What::Operation(*Operation::ALL.get(number)?),
        };
        let mut answer = Self {
            what,
            status: StatusCode::from_u16(status.parse().ok()?).ok()?,
            headers: HeaderMap::new(),
            piece: None,
            cut: false,
            body: Bytes::copy_from_slice(&input[head + 2..]),
            given: AtomicUsize::new(0),
        };
        for line in lines {
            let (name, value) = line.split_once(':')?;
            match name {
                "pieces" => answer.piece = Some(value.trim().parse::<usize>().ok()?.max(1)),
                "cut" => answer.cut = true,
                _ => {
                    let name = HeaderName::try_from(name).ok()?;
                    answer.headers.append(name, HeaderValue::try_from(value.trim()).ok()?);
                }
            }
        }
        Some(answer)
    }

    fn give(&self) -> Response<Body> {
        self.given.fetch_add(1, Ordering::Relaxed);
        let body = match (self.piece, self.cut) {
            (None, false) => Body::new(self.body.clone()),
            (piece, cut) => {
                let pieces = self.body.chunks(piece.unwrap_or(usize::MAX));
                let pieces = pieces.map(|piece| Ok(self.body.slice_ref(piece)));
                let broken = cut.then(|| Err(io::Error::other("cut off")));
                Body::wrap(Pieces(pieces.chain(broken).collect()))
            }
        };
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers.clone();
        response
    }

    /// What must be so, whatever was answered.
    fn check(&self, what: What, result: &Result<(), Error>) {
        let given = self.given.load(Ordering::Relaxed);
        let status = self.status.as_u16();
        let success = self.status.is_success();
        let sends =
            matches!(what, What::Operation(Operation::EmailsSend | Operation::EmailsSendBatch));
        assert!(given >= 1);
        assert!(given <= 3 || what == What::Stream, "two retries are the most");
        assert!(!sends || status == 429 || given == 1, "{status}: sent {given} times");

        let Err(error) = result else {
            assert!(success, "{status} is no success");
            assert!(!self.cut && self.body.len() <= LIMIT);
            return;
        };
        assert!(error.body().len() <= 64 * 1024);
        let shown = format!("{error} {error:?} {error:#?}");
        assert!(shown.len() < 16 * 1024, "{} characters", shown.len());
        let _ = (error.is_retryable(), error.code(), error.message(), error.fields());
        match error.kind() {
            ErrorKind::WrongOrganization { .. } => assert!(what == What::Organization && success),
            ErrorKind::PageRepeated => assert!(what == What::Stream && success),
            kind if success => {
                assert_eq!(error.outcome(), Outcome::Unknown, "it was processed");
                assert_eq!(error.status(), Some(status));
                let large = matches!(kind, ErrorKind::ResponseTooLarge { .. });
                assert!(!large || self.body.len() > LIMIT);
                let whole = !self.cut && self.body.len() <= LIMIT;
                assert!(!whole || matches!(kind, ErrorKind::InvalidResponse { .. }), "{kind:?}");
                assert!(!(whole && self.is_readable(what)), "{error:?}");
            }
            kind => {
                assert_eq!(error.status(), Some(status));
                assert!(!matches!(kind, ErrorKind::ResponseTooLarge { .. }));
                let refused = matches!(status, 307 | 308 | 400..500);
                let outcome = if refused { Outcome::Refused } else { Outcome::Unknown };
                assert_eq!(error.outcome(), outcome, "{status}");
            }
        }
        self.check_wait(error, given);
    }

    /// Any JSON is a resource, with more fields or fewer.
    fn is_readable(&self, what: What) -> bool {
        use Operation as Op;
        let What::Operation(operation) = what else { return what == What::Raw };
        match operation {
            Op::AudiencesDelete
            | Op::ContactsDelete
            | Op::DomainsDelete
            | Op::WebhooksDelete
            | Op::ExtractionWebhooksDelete => true,
            Op::EmailsSendBatch
            | Op::ExtractionWebhooksList
            | Op::AudiencesList
            | Op::ContactsList
            | Op::DomainsList
            | Op::WebhooksList => false,
            _ => serde_json::from_slice::<Value>(&self.body).is_ok(),
        }
    }

    /// `Retry-After` in seconds is read as it is, and waited for up to a limit.
    fn check_wait(&self, error: &Error, given: usize) {
        if self.status.is_success() {
            return;
        }
        let line = self.headers.get("retry-after").and_then(|value| value.to_str().ok());
        let Some(line) = line else { return assert_eq!(error.retry_after(), None) };
        let digits = !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit());
        match line.parse::<u64>() {
            Ok(seconds) if digits => {
                assert_eq!(error.retry_after(), Some(Duration::from_secs(seconds)));
            }
            _ if digits => assert!(error.retry_after() > Some(LONGEST_WAIT)),
            _ => {}
        }
        let too_long = error.retry_after().is_some_and(|wait| wait > LONGEST_WAIT.min(DEADLINE));
        assert!(!too_long || given == 1, "not waited for");
    }
}

struct Clients {
    email: EmailClient,
    extraction: ExtractionClient,
}

impl What {
    async fn call(self, clients: &Clients) -> Result<(), Error> {
        use Operation as Op;
        let Clients { email, extraction } = clients;
        let id = "an_id";
        let operation = match self {
            Self::Operation(operation) => operation,
            Self::Organization => {
                return shown(extraction.verify_organization("org_1")).await.map(drop);
            }
            Self::Raw => {
                let raw = email.raw("GET", "/anything").await?;
                assert!(raw.body.len() <= LIMIT);
                let _ = (format!("{raw:?}"), raw.text().len(), raw.json::<Value>().is_ok());
                return Ok(());
            }
            Self::Stream => {
                let mut stream = email.contacts().stream(id);
                // The same page again is no page: it ends.
                while let Some(contact) = stream.next().await {
                    let _ = format!("{:?}", contact?);
                }
                return Ok(());
            }
        };
        let mail = || Email::new("a@b.test", "c@d.test", "s").text("t");
        match operation {
            Op::Me => drop(shown(extraction.me()).await?.auth),
            Op::ExtractionWebhooksCreate => {
                let webhook = svc_sdk::extraction::NewWebhook::new("https://h.test", ["e"]);
                shown(extraction.webhooks().create(&webhook)).await?;
            }
            Op::ExtractionWebhooksList => drop(shown(extraction.webhooks().list()).await?),
            Op::ExtractionWebhooksDelete => deleted(extraction.webhooks().delete(id)).await?,
            Op::AudiencesCreate => drop(shown(email.audiences().create("A")).await?),
            Op::AudiencesList => drop(shown(email.audiences().list()).await?),
            Op::AudiencesGet => drop(shown(email.audiences().get(id)).await?),
            Op::AudiencesDelete => deleted(email.audiences().delete(id)).await?,
            Op::ContactsCreate => drop(shown(email.contacts().create(id, "c@d.test")).await?),
            Op::ContactsList => {
                let query = PageQuery::new().page(1).page_size(2);
                shown(email.contacts().list(id, query)).await?;
            }
            Op::ContactsUpdate => {
                shown(email.contacts().update(id, &ContactUpdate::new())).await?;
            }
            Op::ContactsDelete => deleted(email.contacts().delete(id)).await?,
            Op::DomainsList => drop(shown(email.domains().list()).await?),
            Op::DomainsCreate => {
                let _ = shown(email.domains().create("d.test")).await?.dns_records();
            }
            Op::DomainsVerify => {
                let _ = shown(email.domains().verify(id)).await?.is_verified();
            }
            Op::DomainsDelete => deleted(email.domains().delete(id)).await?,
            Op::EmailsSend => {
                let sent = shown(email.emails().send(&mail())).await?;
                let _ = sent.status.is_some_and(|status| status.is_final());
            }
            Op::EmailsSendBatch => {
                let batch = shown(email.emails().send_batch(&[mail(), mail()])).await?;
                let told = batch.accepted().count() + batch.refused().count();
                assert!(told <= batch.items.len());
                assert!(!batch.all_accepted() || (batch.is_complete() && told == 2));
            }
            Op::EmailsGet => drop(shown(email.emails().get(id)).await?),
            Op::EmailsCancel => drop(shown(email.emails().cancel(id)).await?),
            Op::WebhooksCreate => {
                let webhook = NewWebhook::new("https://h.test", ["email.sent"]);
                shown(email.webhooks().create(&webhook)).await?;
            }
            Op::WebhooksList => drop(shown(email.webhooks().list()).await?),
            Op::WebhooksUpdate => {
                shown(email.webhooks().update(id, &WebhookUpdate::new().active(true))).await?;
            }
            Op::WebhooksDelete => deleted(email.webhooks().delete(id)).await?,
            Op::WebhooksTest => {
                let _ = shown(email.webhooks().test(id)).await?.is_success();
            }
        }
        Ok(())
    }
}

/// Looks at a value in every way that a caller may.
async fn shown<T>(call: Call<T>) -> Result<T, Error>
where
    T: Debug + Serialize,
    Call<T>: IntoFuture<Output = Result<T, Error>>,
{
    let value = call.await?;
    let _ = format!("{value:?}");
    let _ = serde_json::to_string(&value).map(|text| text.len());
    Ok(value)
}

async fn deleted(call: Call<svc_sdk::Deleted>) -> Result<(), Error> {
    let deleted = call.await?;
    let _ = (format!("{deleted:?}"), deleted.extra.raw().len());
    Ok(())
}

/// What is made once: the runtime, whose clock stands still until all are
/// asleep and then goes to where the first one wakes, and the HTTP client.
struct Run {
    runtime: Runtime,
    http: reqwest::Client,
}

thread_local! {
    static RUN: RefCell<Run> = RefCell::new(Run {
        runtime: tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap(),
        http: reqwest::Client::new(),
    });
}

impl Run {
    /// New ones for each input: a client learns.
    fn clients(&self, answer: &Arc<Answer>) -> Clients {
        let layer = || {
            let answer = Arc::clone(answer);
            tower::layer::layer_fn(move |_: AttemptService| {
                let answer = Arc::clone(&answer);
                tower::service_fn(move |_: Request<Body>| ready(Ok::<_, Error>(answer.give())))
            })
        };
        let url = "http://127.0.0.1:9";
        let email = EmailClient::builder(url, "k").http_client(self.http.clone());
        let extraction = ExtractionClient::builder(url, "k").http_client(self.http.clone());
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

/// A body whose length nobody knows before its end.
struct Pieces(VecDeque<Result<Bytes, io::Error>>);

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        Poll::Ready(self.0.pop_front().map(|piece| piece.map(Frame::data)))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::new()
    }
}
