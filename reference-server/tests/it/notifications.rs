//! What changes, as it changes: `/_sandbox/events`.

use std::time::Duration;

use svc_reference_server::Server;
use svc_reference_server::client::{
    Client, NewFault, Notification, NotificationPage, Request, ResetReason,
};
use svc_sdk::email::Email;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::harness::Sandbox;
use crate::receiver::{Receiver, within};

/// The events of a stream, as they arrive.
struct Stream {
    lines: BufReader<TcpStream>,
    status: u16,
    /// The ID of the newest event.
    id: String,
}

impl Stream {
    async fn open(sandbox: &Sandbox, query: &str, headers: &str) -> Self {
        let addr = sandbox.addr();
        let mut stream = TcpStream::connect(addr).await.expect("connected");
        let head = format!(
            "GET /_sandbox/events{query} HTTP/1.1\r\nhost: {addr}\r\nconnection: close\r\n{headers}\r\n"
        );
        stream.write_all(head.as_bytes()).await.expect("sent");
        let mut stream = Self {
            lines: BufReader::new(stream),
            status: 0,
            id: String::new(),
        };
        let line = stream.line().await.expect("a status line");
        stream.status = line[9..12].parse().expect("a status");
        while stream.line().await.is_some_and(|line| !line.is_empty()) {}
        stream
    }

    /// The next line; `None` at the end.
    async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = within("a line of the stream", self.lines.read_line(&mut line)).await;
        read.is_ok_and(|bytes| bytes > 0)
            .then(|| line.trim_end().to_owned())
    }

    /// The type and the data of the next event; `None` at the end of the stream.
    async fn next(&mut self) -> Option<(String, String)> {
        let mut kind = String::new();
        loop {
            let line = self.line().await?;
            if let Some(id) = line.strip_prefix("id: ") {
                id.clone_into(&mut self.id);
            } else if let Some(event) = line.strip_prefix("event: ") {
                event.clone_into(&mut kind);
            } else if let Some(data) = line.strip_prefix("data: ") {
                return Some((kind, data.to_owned()));
            }
        }
    }

    /// The types of the events up to the first one whose data contains this text.
    async fn until(&mut self, text: &str) -> Vec<String> {
        let mut kinds = Vec::new();
        loop {
            let (kind, data) = self.next().await.expect("the stream goes on");
            kinds.push(kind);
            if data.contains(text) {
                return kinds;
            }
        }
    }
}

async fn send(sandbox: &Sandbox, subject: &str) {
    let client = sandbox.server.email_client().expect("a client");
    let email = Email::new("hello@sandbox.test", "ada@example.test", subject).text("Hi");
    client.emails().send(&email).await.expect("sent");
    sandbox.settle().await;
}

#[tokio::test]
async fn a_stream_has_everything_that_changes() {
    let sandbox = Sandbox::start().await;
    let receiver = Receiver::start(&[]).await;
    let hook = format!(
        r#"{{"url":"{}","events":["email.delivered"]}}"#,
        receiver.url()
    );
    assert_eq!(
        sandbox.call("POST /api/v1/webhooks", &hook).await.status,
        201
    );

    let mut stream = Stream::open(&sandbox, "", "").await;
    assert_eq!(stream.status, 200);
    assert_eq!(stream.next().await.expect("an event").0, "ready");

    send(&sandbox, "Hi").await;
    let kinds = stream.until(r#""state":"delivered""#).await;
    for kind in ["email", "request", "message", "delivery"] {
        assert!(
            kinds.iter().any(|seen| seen == kind),
            "no {kind} in {kinds:?}"
        );
    }

    let (kind, data) = stream.next().await.expect("the attempt");
    assert_eq!(kind, "attempt");
    assert!(
        data.contains(r#""number":1,"#) && data.contains(r#""status":200"#),
        "{data}"
    );

    let operation = Some("emails.send".to_owned());
    let fault = NewFault {
        operation,
        status: Some(500),
        ..NewFault::default()
    };
    sandbox
        .server
        .client()
        .unwrap()
        .add_fault(&fault)
        .await
        .unwrap();
    let change = (
        "change".to_owned(),
        r#"{"type":"change","resource":"faults","method":"POST"}"#.to_owned(),
    );
    assert_eq!(stream.next().await, Some(change));
}

#[tokio::test]
async fn a_stream_is_resumed_without_a_gap() {
    let sandbox = Sandbox::start().await;
    let mut stream = Stream::open(&sandbox, "", "").await;
    stream.until("ready").await;
    send(&sandbox, "First").await;
    stream.until("First").await;
    let seen = stream.id.clone();
    drop(stream);
    send(&sandbox, "Second").await;
    let mut again = Stream::open(&sandbox, "", &format!("last-event-id: {seen}\r\n")).await;
    let (kind, _) = again.next().await.expect("an event");
    assert!(kind != "ready" && kind != "reset", "{kind}");

    again.until("Second").await;
    // As a query parameter, for clients that cannot set headers.
    let mut again = Stream::open(&sandbox, &format!("?after={seen}"), "").await;
    again.until("Second").await;

    let mut other = Stream::open(&sandbox, "?after=0123456789ab-7", "").await;
    let reset = r#"{"type":"reset","reason":"restarted"}"#;
    assert_eq!(
        other.next().await,
        Some(("reset".to_owned(), reset.to_owned()))
    );
}

#[tokio::test]
async fn an_organization_sees_only_its_own_events() {
    let sandbox = Sandbox::start().await;
    let tenant = sandbox.server.tenant("One").await.unwrap();
    let query = format!("?organization={}", tenant.organization.id);
    let mut stream = Stream::open(&sandbox, &query, "").await;
    stream.until("ready").await;
    send(&sandbox, "Secret").await;
    tenant.email.domains().list().await.unwrap();
    let (kind, data) = stream.next().await.expect("an event");
    assert_eq!(kind, "request");
    assert!(data.contains("domains.list"), "{data}");
}

#[tokio::test]
async fn a_reset_ends_the_stream_and_the_next_one_goes_on() {
    let sandbox = Sandbox::start().await;
    let control = sandbox.server.client().unwrap();
    let mut stream = Stream::open(&sandbox, "", "").await;
    stream.until("ready").await;
    control.reset_organization("Sandbox").await.unwrap();
    stream.until(r#""reason":"deleted""#).await;
    let id = stream.id.clone();
    assert_eq!(stream.next().await, None);

    send(&sandbox, "After").await;
    Stream::open(&sandbox, &format!("?after={id}"), "")
        .await
        .until("After")
        .await;
}

#[tokio::test]
async fn streams_are_limited_and_end_with_the_server() {
    let sandbox = Sandbox::start().await;
    let mut streams = Vec::new();
    for _ in 0..64 {
        let mut stream = Stream::open(&sandbox, "", "").await;
        assert_eq!(stream.status, 200);
        stream.until("ready").await;
        streams.push(stream);
    }

    let refused = sandbox.control("GET /_sandbox/events/wait", "").await;
    assert_eq!(refused.status, 503, "{refused:?}");

    // A stream that is closed makes room for another one.
    streams.pop();
    let reopened = async {
        while Stream::open(&sandbox, "", "").await.status != 200 {
            tokio::task::yield_now().await;
        }
    };
    within("room for another stream", reopened).await;
    within("the server to stop", sandbox.server.stop()).await;
    for mut stream in streams {
        while stream.next().await.is_some() {}
    }
}

const WAIT: Duration = Duration::from_secs(20);

#[tokio::test]
async fn the_typed_client_waits_for_changes() {
    let server = Server::start().await.unwrap();
    let sandbox = server.client().unwrap();
    let events = async |request: Request<NotificationPage>| {
        within("the changes", request.into_future()).await.unwrap()
    };
    let begun = events(sandbox.notifications(None, WAIT)).await;
    assert!(
        matches!(begun.data[..], [Notification::Ready { .. }]),
        "{begun:?}"
    );

    let client = server.email_client().unwrap();
    let waiting = tokio::spawn(sandbox.notifications(Some(&begun.next), WAIT).into_future());
    let email = Email::new("hello@sandbox.test", "bounced@example.test", "Hi").text("Hi");
    let sent = client.emails().send(&email).await.unwrap();
    let mut position = begun.next;
    let mut found = within("a change", waiting).await.unwrap().unwrap();
    let mut all = Vec::new();
    loop {
        position.clone_from(&found.next);
        all.append(&mut found.data);
        let is_bounced = |event: &Notification| {
            matches!(event, Notification::Email(email) if email.id == sent.id
                && email.last_event.as_deref() == Some("email.bounced"))
        };
        let is_logged = |event: &Notification| {
            matches!(event, Notification::Request(request) if request.operation == "emails.send"
                && request.status == Some(202))
        };
        if all.iter().any(is_bounced) && all.iter().any(is_logged) {
            break;
        }
        found = events(sandbox.notifications(Some(&position), WAIT)).await;
    }

    // Nothing changes, so the wait ends without an event, at the same position.
    let (at_end, none) = at_end(&sandbox, position).await;
    assert!(none.data.is_empty());
    assert_eq!(none.next, at_end);

    sandbox.reset().await.unwrap();
    let reset = events(sandbox.notifications(Some(&none.next), WAIT)).await;
    assert!(
        matches!(
            &reset.data[..],
            [Notification::Reset {
                reason: ResetReason::Deleted,
                ..
            }]
        ),
        "{reset:?}"
    );

    server.stop().await;
}

/// Reads the changes until there are none. Returns the last position, and the empty response.
async fn at_end(sandbox: &Client, mut position: String) -> (String, NotificationPage) {
    loop {
        let wait = sandbox.notifications(Some(&position), Duration::from_millis(50));
        let found = within("the changes", wait.into_future())
            .await
            .expect("an event");
        if found.data.is_empty() {
            return (position, found);
        }
        position = found.next;
    }
}
