//! The table: fault × operation × idempotency key.

use std::fmt;
use std::io;

use futures_util::{StreamExt, stream};
use svc_sdk::email::{Attachment, ContactUpdate, Email};
use svc_sdk::{EmailClient, Error, ErrorKind, Outcome};

use super::peer::{Fault, FaultyPeer};

/// What a fault means for the client.
struct Row {
    fault: Fault,
    kind: ErrorKind,
    outcome: Outcome,
    repeats: Repeats,
    /// How many requests reach the peer per attempt: their heads, whole ones.
    reaches: (usize, usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repeats {
    /// Certainly not processed: even a send is tried again.
    Everything,
    /// What is harmless to repeat, or has a key that the service honours.
    Harmless,
    Nothing,
}

fn row(
    fault: Fault,
    kind: ErrorKind,
    outcome: Outcome,
    repeats: Repeats,
    reaches: (usize, usize),
) -> Row {
    Row { fault, kind, outcome, repeats, reaches }
}

#[rustfmt::skip]
fn rows() -> Vec<Row> {
    use ErrorKind::{Connect, ConnectionLost, Invalid, NotFound, RateLimited, Redirected, Rejected, Server, Tls};
    use Outcome::{NotSent, Refused, Unknown};
    use Repeats::{Everything, Harmless, Nothing};

    let too_large = || ErrorKind::ResponseTooLarge { limit: LIMIT };
    let no_http = || ErrorKind::InvalidResponse {
        problem: "its head is not http, or too large; check the base address".into(),
    };
    let endless = format!("HTTP/1.1 200 OK\r\n{}", format!("X-A: {}\r\n", "a".repeat(8_000)).repeat(100));
    let chunks = format!("{CHUNKED}{}", format!("8000\r\n{}\r\n", "x".repeat(0x8000)).repeat(4));
    let elsewhere = "Location: http://127.0.0.1:9/x\r\n";
    vec![
        row(Fault::Refuses,                       Connect,        NotSent, Everything, (0, 0)),
        row(Fault::InHandshake,                   Tls,            NotSent, Everything, (0, 0)),
        row(Fault::NoTls,                         Tls,            NotSent, Everything, (0, 0)),
        row(Fault::NotTrusted,                    Tls,            NotSent, Everything, (0, 0)),
        row(Fault::AfterHead,                     ConnectionLost, Unknown, Harmless,   (1, 0)),
        row(Fault::MidBody,                       ConnectionLost, Unknown, Harmless,   (1, 0)),
        row(Fault::answers(""),                   ConnectionLost, Unknown, Harmless,   (1, 1)),
        row(Fault::answers("HTTP/1.1 20"),        ConnectionLost, Unknown, Harmless,   (1, 1)),
        row(Fault::answers("HTTP/1.1 200 OK\r\nX-A: b"), ConnectionLost, Unknown, Harmless, (1, 1)),
        row(Fault::answers(SIZED),   ConnectionLost, Unknown, Harmless,   (1, 1)),
        row(Fault::answers(format!("{SIZED}{{\"id\":")), ConnectionLost, Unknown, Harmless, (1, 1)),
        row(Fault::answers(CHUNKED),              ConnectionLost, Unknown, Harmless,   (1, 1)),
        row(Fault::answers(format!("{CHUNKED}5\r\n{{\"id\"\r\n")), ConnectionLost, Unknown, Harmless, (1, 1)),
        row(Fault::answers(format!("{CHUNKED}zz\r\n")), ConnectionLost, Unknown, Harmless, (1, 1)),
        row(Fault::answers("220 smtp.example ESMTP\r\n"), no_http(), Unknown, Nothing, (1, 1)),
        row(Fault::answers("\0\0\0\0\0\0\0\0\r\n\r\n"), no_http(), Unknown, Nothing,   (1, 1)),
        row(Fault::answers(endless),              no_http(),      Unknown, Nothing,    (1, 1)),
        row(Fault::answers("HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
            ErrorKind::InvalidResponse { problem: "its status is no final one".into() }, Unknown, Nothing, (1, 1)),
        row(Fault::answers(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{{}}", LIMIT + 1)),
            too_large(), Unknown, Nothing, (1, 1)),
        row(Fault::answers(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{{}}", u64::MAX >> 1)),
            too_large(), Unknown, Nothing, (1, 1)),
        row(Fault::answers(format!("HTTP/1.1 200 OK\r\nContent-Length: {}0\r\n\r\n{{}}", u64::MAX)),
            no_http(), Unknown, Nothing, (1, 1)),
        row(Fault::answers(chunks),               too_large(),    Unknown, Nothing,    (1, 1)),
        row(Fault::status(301, elsewhere),        Redirected,     Unknown, Nothing,    (1, 1)),
        row(Fault::status(302, elsewhere),        Redirected,     Unknown, Nothing,    (1, 1)),
        row(Fault::status(307, elsewhere),        Redirected,     Refused, Nothing,    (1, 1)),
        row(Fault::status(308, elsewhere),        Redirected,     Refused, Nothing,    (1, 1)),
        row(Fault::status(400, ""),               Invalid,        Refused, Nothing,    (1, 1)),
        row(Fault::status(404, ""),               NotFound,       Refused, Nothing,    (1, 1)),
        row(Fault::status(408, ""),               Rejected,       Refused, Harmless,   (1, 1)),
        row(Fault::status(429, ""),               RateLimited,    Refused, Everything, (1, 1)),
        row(Fault::status(500, ""),               Server,         Unknown, Harmless,   (1, 1)),
        row(Fault::status(501, ""),               Server,         Unknown, Nothing,    (1, 1)),
        row(Fault::status(502, ""),               Server,         Unknown, Harmless,   (1, 1)),
        row(Fault::status(503, "Retry-After: 0\r\n"), Server,     Unknown, Harmless,   (1, 1)),
        row(Fault::status(504, ""),               Server,         Unknown, Harmless,   (1, 1)),
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

    fn is_harmless(self) -> bool {
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

    /// Whether the fault finds it where the table says: in the midst of a
    /// large body, and after a streamed one.
    fn meets(self, fault: &Fault) -> bool {
        let mid_body = matches!(fault, Fault::AfterHead | Fault::MidBody);
        match self {
            Self::SendLarge => mid_body,
            Self::SendStreamed => !mid_body,
            _ => true,
        }
    }

    /// How many attempts it took.
    async fn run(self, client: &EmailClient, key: Option<&str>) -> Result<u32, Error> {
        macro_rules! attempts {
            ($call:expr) => {{
                let call = $call.with_response();
                let call = if let Some(key) = key { call.idempotency_key(key) } else { call };
                call.await.map(|answer| answer.attempts)
            }};
        }
        let email = Email::new("a@b", "c@d", "s").text("Hello");
        match self {
            Self::Send => attempts!(client.emails().send(&email)),
            Self::SendLarge | Self::SendStreamed => {
                // More than fits into the sockets' buffers, or just streamed.
                let length = if self == Self::SendLarge { 16 << 20 } else { 50_000 };
                let zeros = move || Ok(io::Read::take(io::repeat(0), length));
                let email = email.attachment(Attachment::from_opener("z", length, zeros));
                attempts!(client.emails().send(&email))
            }
            Self::Batch => attempts!(client.raw("POST", "/api/v1/emails/batch").json(&[email])),
            Self::CreateDomain => attempts!(client.domains().create("x.test")),
            Self::TestWebhook => attempts!(client.webhooks().test("x")),
            Self::Get => attempts!(client.emails().get("x")),
            Self::List => attempts!(client.raw("GET", "/api/v1/domains")),
            Self::UpdateContact => {
                attempts!(client.contacts().update("x", &ContactUpdate::default().name("n")))
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
    /// Set, but nobody said that the service honours it.
    Given,
    Honoured,
}

/// How long the peer fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lasts {
    Once,
    Always,
}

struct Cell<'a> {
    row: &'a Row,
    call: Call,
    key: Key,
    lasts: Lasts,
}

impl fmt::Display for Cell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fault: String = format!("{:?}", self.row.fault).chars().take(90).collect();
        write!(f, "{fault} × {:?} × key {:?} × {:?}", self.call, self.key, self.lasts)
    }
}

#[tokio::test]
async fn every_fault_for_every_operation() {
    let rows = rows();
    let mut cells = Vec::new();
    for row in &rows {
        for call in Call::ALL.into_iter().filter(|call| call.meets(&row.fault)) {
            for key in [Key::None, Key::Given, Key::Honoured] {
                for lasts in [Lasts::Once, Lasts::Always] {
                    // Nobody who does not listen can begin to at the right time.
                    if !(matches!(row.fault, Fault::Refuses) && lasts == Lasts::Once) {
                        cells.push(Cell { row, call, key, lasts });
                    }
                }
            }
        }
    }
    let count = cells.len();
    assert!(count > 1_900, "{count}");
    stream::iter(cells).for_each_concurrent(16, |cell| async move { cell.check().await }).await;
}

impl Cell<'_> {
    async fn check(&self) {
        let Row { kind, outcome, repeats, reaches, .. } = self.row;
        let times = if self.lasts == Lasts::Once { 1 } else { usize::MAX };
        let peer = FaultyPeer::start(self.row.fault.clone(), times).await;
        let client = peer
            .builder()
            .max_response_size(LIMIT)
            .service_honours_idempotency_key(self.key == Key::Honoured)
            .build()
            .unwrap();
        let key = (self.key != Key::None).then_some("key");
        let answer = self.call.run(&client, key).await;

        let harmless = self.call.is_harmless() || self.key == Key::Honoured;
        let repeated = match repeats {
            Repeats::Everything => true,
            Repeats::Harmless => harmless,
            Repeats::Nothing => false,
        };
        let (heads, whole) = (peer.heads(), peer.whole());
        if repeated && self.lasts == Lasts::Once {
            assert_eq!(answer.unwrap(), 2, "{self}");
            assert_eq!((heads, whole), (reaches.0 + 1, reaches.1 + 1), "{self}");
        } else {
            let error = answer.unwrap_err();
            let attempts = if repeated { 3 } else { 1 };
            assert_eq!(error.kind(), kind, "{self}");
            // What was broken off before its end was certainly not sent whole.
            let not_whole = self.call == Call::SendLarge && *outcome == Outcome::Unknown;
            let outcome = if not_whole { &Outcome::NotSent } else { outcome };
            assert_eq!(error.outcome(), *outcome, "{self}");
            assert_eq!(error.attempts(), attempts, "{self}");
            let attempts = attempts as usize;
            assert_eq!((heads, whole), (reaches.0 * attempts, reaches.1 * attempts), "{self}");
        }
        // Whatever the table says.
        let certainly_not_processed = *repeats == Repeats::Everything;
        if !harmless && !certainly_not_processed {
            assert!(heads <= 1 && whole <= 1, "sent twice: {self}");
        }
    }
}

/// Whether the client had written anything before the peer closed is a matter
/// of luck. Either way what it says is true.
#[tokio::test]
async fn a_connection_that_is_closed_at_once() {
    for call in Call::ALL {
        let peer = FaultyPeer::start(Fault::AtConnect, 1).await;
        match call.run(&peer.client(), None).await {
            Ok(attempts) => {
                assert_eq!((attempts, peer.connections(), peer.whole()), (2, 2, 1), "{call:?}");
            }
            Err(error) => {
                assert!(!call.is_harmless(), "{call:?}");
                assert_eq!(error.kind(), &ErrorKind::ConnectionLost, "{call:?}");
                assert_eq!((error.attempts(), peer.whole()), (1, 0), "{call:?}");
                assert_ne!(error.outcome(), Outcome::Refused, "{call:?}");
            }
        }
    }
}
