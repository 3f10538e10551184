//! Every fault × every operation × with and without an idempotency key.

use std::fmt;

use futures_util::{StreamExt, stream};
use svc_sdk::email::{Attachment, ContactUpdate, Email};
use svc_sdk::{EmailClient, Error, ErrorKind, Outcome};

use super::faulty_server::{Fault, FaultyServer};

/// The expected behaviour of the client for a fault.
struct Row {
    fault: Fault,
    kind: ErrorKind,
    outcome: Outcome,
    retried_calls: RetriedCalls,
    /// Requests that reach the server per attempt: received heads, and complete requests.
    requests: (usize, usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RetriedCalls {
    /// The request was certainly not processed, so even a send is retried.
    All,
    /// Only idempotent requests, and those with an idempotency key that the service
    /// honors.
    Idempotent,
    Never,
}

fn row(
    fault: Fault,
    kind: ErrorKind,
    outcome: Outcome,
    retried_calls: RetriedCalls,
    requests: (usize, usize),
) -> Row {
    Row {
        fault,
        kind,
        outcome,
        retried_calls,
        requests,
    }
}

#[rustfmt::skip]
fn rows() -> Vec<Row> {
    use ErrorKind::{Connect, ConnectionLost, Invalid, NotFound, RateLimited, Redirected, Rejected, Server, Tls};
    use Outcome::{NotSent, Refused, Unknown};
    use RetriedCalls::{All, Idempotent, Never};

    let too_large = || ErrorKind::response_too_large(LIMIT);
    let endless = format!("HTTP/1.1 200 OK\r\n{}", format!("X-A: {}\r\n", "a".repeat(8_000)).repeat(100));
    let chunks = format!("{CHUNKED}{}", format!("8000\r\n{}\r\n", "x".repeat(0x8000)).repeat(4));
    let elsewhere = "Location: http://127.0.0.1:9/x\r\n";
    vec![
        row(Fault::ConnectionRefused,                   Connect,        NotSent, All,        (0, 0)),
        row(Fault::ClosesInHandshake,                   Connect,        NotSent, All,        (0, 0)),
        row(Fault::NotTls,                              Tls,            NotSent, All,        (0, 0)),
        row(Fault::UntrustedCertificate,                Tls,            NotSent, All,        (0, 0)),
        row(Fault::ClosesAfterHead,                     ConnectionLost, Unknown, Idempotent, (1, 0)),
        row(Fault::ClosesMidBody,                       ConnectionLost, Unknown, Idempotent, (1, 0)),
        row(Fault::responds(""),                        ConnectionLost, Unknown, Idempotent, (1, 1)),
        row(Fault::responds("HTTP/1.1 20"),             ConnectionLost, Unknown, Idempotent, (1, 1)),
        row(Fault::responds("HTTP/1.1 200 OK\r\nX-A: b"), ConnectionLost, Unknown, Idempotent, (1, 1)),
        row(Fault::responds(SIZED),                     ConnectionLost, Unknown, Idempotent, (1, 1)),
        row(Fault::responds(format!("{SIZED}{{\"id\":")), ConnectionLost, Unknown, Idempotent, (1, 1)),
        row(Fault::responds(CHUNKED),                   ConnectionLost, Unknown, Idempotent, (1, 1)),
        row(Fault::responds(format!("{CHUNKED}5\r\n{{\"id\"\r\n")), ConnectionLost, Unknown, Idempotent, (1, 1)),
        row(Fault::responds(format!("{CHUNKED}zz\r\n")), ConnectionLost, Unknown, Idempotent, (1, 1)),
        row(Fault::responds("220 smtp.example ESMTP\r\n"), ConnectionLost, Unknown, Idempotent, (1, 1)),
        row(Fault::responds("\0\0\0\0\0\0\0\0\r\n\r\n"), ConnectionLost, Unknown, Idempotent, (1, 1)),
        row(Fault::responds(endless),                   ConnectionLost, Unknown, Idempotent, (1, 1)),
        row(Fault::responds("HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
            ErrorKind::invalid_response("unexpected 1xx status"), Unknown, Never, (1, 1)),
        row(Fault::responds(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{{}}", LIMIT + 1)),
            too_large(), Unknown, Never, (1, 1)),
        row(Fault::responds(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{{}}", u64::MAX >> 1)),
            too_large(), Unknown, Never, (1, 1)),
        row(Fault::responds(format!("HTTP/1.1 200 OK\r\nContent-Length: {}0\r\n\r\n{{}}", u64::MAX)),
            ConnectionLost, Unknown, Idempotent, (1, 1)),
        row(Fault::responds(chunks),                    too_large(),    Unknown, Never,      (1, 1)),
        row(Fault::status(301, elsewhere),              Redirected,     Unknown, Never,      (1, 1)),
        row(Fault::status(302, elsewhere),              Redirected,     Unknown, Never,      (1, 1)),
        row(Fault::status(307, elsewhere),              Redirected,     Refused, Never,      (1, 1)),
        row(Fault::status(308, elsewhere),              Redirected,     Refused, Never,      (1, 1)),
        row(Fault::status(400, ""),                     Invalid,        Refused, Never,      (1, 1)),
        row(Fault::status(404, ""),                     NotFound,       Refused, Never,      (1, 1)),
        row(Fault::status(408, ""),                     Rejected,       Unknown, Idempotent, (1, 1)),
        row(Fault::status(429, ""),                     RateLimited,    Refused, All,        (1, 1)),
        row(Fault::status(500, ""),                     Server,         Unknown, Idempotent, (1, 1)),
        row(Fault::status(501, ""),                     Server,         Unknown, Never,      (1, 1)),
        row(Fault::status(502, ""),                     Server,         Unknown, Idempotent, (1, 1)),
        row(Fault::status(503, "Retry-After: 0\r\n"),   Server,         Unknown, Idempotent, (1, 1)),
        row(Fault::status(504, ""),                     Server,         Unknown, Idempotent, (1, 1)),
    ]
}

const LIMIT: u64 = 100_000;
const SIZED: &str = "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n";
const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Send,
    SendLarge,
    SendStreamed,
    Batch,
    CreateDomain,
    TestWebhook,
    Get,
    List,
    UpdateContact,
    Cancel,
    Verify,
    Delete,
}

impl Call {
    const ALL: [Self; 12] = [
        Self::Send,
        Self::SendLarge,
        Self::SendStreamed,
        Self::Batch,
        Self::CreateDomain,
        Self::TestWebhook,
        Self::Get,
        Self::List,
        Self::UpdateContact,
        Self::Cancel,
        Self::Verify,
        Self::Delete,
    ];

    fn is_idempotent(self) -> bool {
        !matches!(
            self,
            Self::Send
                | Self::SendLarge
                | Self::SendStreamed
                | Self::Batch
                | Self::CreateDomain
                | Self::TestWebhook
        )
    }

    /// Whether the fault occurs at the intended stage: within a large body, or after a
    /// streamed one.
    fn applies_to(self, fault: &Fault) -> bool {
        let mid_body = matches!(fault, Fault::ClosesAfterHead | Fault::ClosesMidBody);
        match self {
            Self::SendLarge => mid_body,
            Self::SendStreamed => !mid_body,
            _ => true,
        }
    }

    /// Makes the call and returns the number of attempts.
    async fn run(self, client: &EmailClient, key: Option<&str>) -> Result<u32, Error> {
        macro_rules! attempts {
            ($call:expr) => {{
                let call = $call.with_response();
                let call = if let Some(key) = key {
                    call.idempotency_key(key)
                } else {
                    call
                };
                call.await.map(|response| response.attempts)
            }};
        }
        let email = Email::new("a@b", "c@d", "s").text("Hello");
        match self {
            Self::Send => attempts!(client.emails().send(&email)),
            Self::SendLarge | Self::SendStreamed => {
                // More than the sockets can buffer, or just streamed.
                let length = if self == Self::SendLarge {
                    16 << 20
                } else {
                    50_000
                };
                let file = tempfile::NamedTempFile::new().unwrap();
                file.as_file().set_len(length).unwrap();
                let email = email.attachment(Attachment::from_path(file.path()).unwrap());
                attempts!(client.emails().send(&email))
            }
            Self::Batch => attempts!(client.raw("POST", "/api/v1/emails/batch").json(&[email])),
            Self::CreateDomain => attempts!(client.domains().create("x.test")),
            Self::TestWebhook => attempts!(client.webhooks().test("x")),
            Self::Get => attempts!(client.emails().get("x")),
            Self::List => attempts!(client.raw("GET", "/api/v1/domains")),
            Self::UpdateContact => {
                attempts!(
                    client
                        .contacts()
                        .update("x", ContactUpdate::default().name("n"))
                )
            }
            Self::Cancel => attempts!(client.emails().cancel("x")),
            Self::Verify => attempts!(client.domains().verify("x")),
            Self::Delete => attempts!(client.webhooks().delete("x")),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    None,
    /// Set, but the client does not assume that the service honors it.
    Given,
    Honored,
}

/// How often the fault occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FaultDuration {
    Once,
    Always,
}

struct Case<'a> {
    row: &'a Row,
    call: Call,
    key: Key,
    duration: FaultDuration,
}

impl fmt::Display for Case<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fault: String = format!("{:?}", self.row.fault).chars().take(90).collect();
        write!(
            f,
            "{fault} × {:?} × key {:?} × {:?}",
            self.call, self.key, self.duration
        )
    }
}

// In two tests, which run at the same time.
#[tokio::test]
async fn handles_a_fault_that_happens_once_in_every_operation() {
    check_all(FaultDuration::Once).await;
}

#[tokio::test]
async fn handles_a_fault_that_lasts_in_every_operation() {
    check_all(FaultDuration::Always).await;
}

async fn check_all(duration: FaultDuration) {
    let rows = rows();
    let mut cases = Vec::new();
    for row in &rows {
        for call in Call::ALL
            .into_iter()
            .filter(|call| call.applies_to(&row.fault))
        {
            for key in [Key::None, Key::Given, Key::Honored] {
                // A server cannot start to listen at the right moment.
                if !(matches!(row.fault, Fault::ConnectionRefused)
                    && duration == FaultDuration::Once)
                {
                    cases.push(Case {
                        row,
                        call,
                        key,
                        duration,
                    });
                }
            }
        }
    }

    let count = cases.len();
    assert!(count > 900, "{count}");

    stream::iter(cases)
        .for_each_concurrent(16, |case| async move { case.check().await })
        .await;
}

impl Case<'_> {
    async fn check(&self) {
        let Row {
            kind,
            outcome,
            retried_calls,
            requests,
            ..
        } = self.row;
        let times = if self.duration == FaultDuration::Once {
            1
        } else {
            usize::MAX
        };
        let server = FaultyServer::start(self.row.fault.clone(), times).await;
        let client = server
            .builder()
            .max_response_size(LIMIT)
            .service_honors_idempotency_key(self.key == Key::Honored)
            .build()
            .unwrap();
        let key = (self.key != Key::None).then_some("key");
        let response = self.call.run(&client, key).await;

        let retry_safe = self.call.is_idempotent() || self.key == Key::Honored;
        let retried = match retried_calls {
            RetriedCalls::All => true,
            RetriedCalls::Idempotent => retry_safe,
            RetriedCalls::Never => false,
        };
        let heads = server.heads();
        let complete = server.complete_requests();
        if retried && self.duration == FaultDuration::Once {
            assert_eq!(response.unwrap(), 2, "{self}");
            assert_eq!(
                (heads, complete),
                (requests.0 + 1, requests.1 + 1),
                "{self}"
            );
        } else {
            let error = response.unwrap_err();
            let attempts = if retried { 3 } else { 1 };
            assert_eq!(error.kind(), kind, "{self}");
            assert_eq!(error.outcome(), *outcome, "{self}");
            assert_eq!(error.attempts(), attempts, "{self}");
            let attempts = attempts as usize;
            assert_eq!(
                (heads, complete),
                (requests.0 * attempts, requests.1 * attempts),
                "{self}"
            );
        }

        // Independently of the table.
        let not_processed = *retried_calls == RetriedCalls::All;
        if !retry_safe && !not_processed {
            assert!(heads <= 1 && complete <= 1, "sent twice: {self}");
        }
    }
}

/// It depends on timing whether the client had written anything before the server closed
/// the connection. In both cases, the reported outcome must be right.
#[tokio::test]
async fn handles_a_connection_that_is_closed_after_connect() {
    for call in Call::ALL {
        let server = FaultyServer::start(Fault::ClosesAfterConnect, 1).await;
        match call.run(&server.client(), None).await {
            Ok(attempts) => {
                assert_eq!(
                    (attempts, server.connections(), server.complete_requests()),
                    (2, 2, 1),
                    "{call:?}"
                );
            }
            Err(error) => {
                assert!(!call.is_idempotent(), "{call:?}");
                assert_eq!(error.kind(), &ErrorKind::ConnectionLost, "{call:?}");
                assert_eq!(
                    (error.attempts(), server.complete_requests()),
                    (1, 0),
                    "{call:?}"
                );
                assert_ne!(error.outcome(), Outcome::Refused, "{call:?}");
            }
        }
    }
}
