//! Relays mail to an SMTP server (`--relay`), over one reused connection and with an
//! outcome for each recipient.

mod connection;
mod target;

use std::fmt;

use tokio::sync::Mutex;

use connection::{Connection, ConnectionError};
pub use target::InvalidRelay;
pub(crate) use target::RelayTarget;

use crate::model::error::ApiError;
use crate::model::stop::Stop;
use crate::net::{DESCRIPTOR_WAIT, is_out_of_descriptors};

/// Client of the SMTP server that mail is relayed to.
#[derive(Debug)]
pub(crate) struct Relay {
    target: RelayTarget,
    /// Locked while a message is sent: there is only one connection.
    connection: Mutex<Option<Connection>>,
}

/// Outcome of a recipient at the relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Handoff {
    /// The relay accepted the message.
    Accepted,
    /// Temporary failure, to be retried later: a 4xx reply or no connection.
    Deferred(Reason),
    /// Permanent failure: a 5xx reply.
    Refused(Reason),
    /// The relay got the whole message, but its reply did not arrive. It may have accepted
    /// the message.
    Unknown(Reason),
}

/// Who a message is from and for.
pub(crate) struct Envelope<'a, B> {
    pub(crate) sender: &'a str,
    pub(crate) recipients: &'a [String],
    /// Called with the outcomes so far when the relay has the whole message except for its end.
    /// The relay gets the end only if this succeeds.
    pub(crate) before_end: B,
}

/// Why a message was not accepted, such as `550 5.1.1 no such user`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reason(String);

impl Reason {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        // The text comes from the relay: reduce it to one line of limited length.
        let text: String = text.into();
        let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
        Self(plain.take(500).collect())
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Relay {
    pub(crate) fn new(target: RelayTarget) -> Self {
        Self { target, connection: Mutex::new(None) }
    }

    /// Sends one message. Returns one outcome per recipient, in order, or `None` if the server
    /// stops before the relay has the whole message.
    pub(crate) async fn send<F: Future<Output = Result<(), ApiError>>>(
        &self,
        stop: &Stop,
        envelope: Envelope<'_, impl FnOnce(&[Handoff]) -> F>,
        source: &[u8],
    ) -> Option<Vec<Handoff>> {
        tokio::select! {
            // After the final dot, the message is sent, and the outcome of a stop is unknown.
            biased;
            outcomes = self.transact(stop, envelope, source) => outcomes,
            () = stop.until_cut() => None,
        }
    }

    async fn transact<F: Future<Output = Result<(), ApiError>>>(
        &self,
        stop: &Stop,
        envelope: Envelope<'_, impl FnOnce(&[Handoff]) -> F>,
        source: &[u8],
    ) -> Option<Vec<Handoff>> {
        let count = envelope.recipients.len();
        let mut slot = self.connection.lock().await;
        // The server may have closed the connection. Trying it costs nothing.
        let reused = match slot.take() {
            Some(mut connection) => connection.reset().await.is_ok().then_some(connection),
            None => None,
        };
        let connection = match reused {
            Some(connection) => Ok(connection),
            None => self.connect(stop).await?,
        };
        let result = match connection {
            Ok(mut connection) => {
                let result = connection.transact(stop, envelope, source).await;
                if result.is_ok() && connection.is_usable() {
                    *slot = Some(connection);
                }
                result
            }
            Err(error) => Err(error),
        };
        Some(result.unwrap_or_else(|failure| {
            let reason = match failure {
                ConnectionError::NotStored => Reason::new(failure.to_string()),
                _ => Reason::new(format!("the relay failed: {failure}")),
            };
            vec![Handoff::Deferred(reason); count]
        }))
    }

    /// Connects. If this process has no free file descriptor, waits until it has one, because
    /// the relay has not failed. Returns `None` if the server stops first.
    async fn connect(&self, stop: &Stop) -> Option<Result<Connection, ConnectionError>> {
        loop {
            match Connection::open(&self.target).await {
                Err(ConnectionError::Io(error)) if is_out_of_descriptors(&error) => {}
                connection => return Some(connection),
            }
            tracing::warn!("the relay waits for a free file descriptor");
            tokio::select! {
                () = tokio::time::sleep(DESCRIPTOR_WAIT) => {}
                () = stop.requested() => return None,
            }
        }
    }

    /// Closes the connection with `QUIT`.
    pub(crate) async fn close(&self) {
        if let Some(mut connection) = self.connection.lock().await.take() {
            connection.quit().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::Arc;

    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
    use tokio::net::TcpListener;
    use tokio::sync::mpsc;

    use super::*;

    /// An SMTP server that replies to each command according to `script`, or with 250,
    /// and reports every line that it reads with the number of its connection.
    async fn server(
        script: fn(&str) -> Option<&'static str>,
        ehlo: &'static str,
    ) -> (SocketAddr, mpsc::UnboundedReceiver<(usize, String)>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let address = listener.local_addr().expect("an address");
        let (lines, received) = mpsc::unbounded_channel();
        let ehlo = Arc::new(ehlo);
        tokio::spawn(async move {
            for number in 1.. {
                let (stream, _) = listener.accept().await.expect("accepted");
                let (lines, ehlo) = (lines.clone(), Arc::clone(&ehlo));
                tokio::spawn(async move {
                    let mut stream = BufReader::new(stream);
                    stream.write_all(b"220-hello\r\n220 there\r\n").await.expect("written");
                    let mut data = false;
                    let mut line = String::new();
                    while stream.read_line(&mut line).await.is_ok_and(|n| n > 0) {
                        let text = line.trim_end().to_owned();
                        line.clear();
                        let _ = lines.send((number, text.clone()));
                        let reply = match (data, text.as_str()) {
                            (true, ".") => {
                                data = false;
                                script(".").unwrap_or("250 OK")
                            }
                            (true, _) => continue,
                            (false, "DATA") => {
                                let reply = script("DATA").unwrap_or("354 send data");
                                data = reply.starts_with('3');
                                reply
                            }
                            (false, text) if text.starts_with("EHLO") => *ehlo,
                            (false, text) => script(text).unwrap_or("250 OK"),
                        };
                        if reply == "hang up" {
                            return;
                        }
                        let reply = format!("{reply}\r\n");
                        if stream.write_all(reply.as_bytes()).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        (address, received)
    }

    fn relay(address: SocketAddr, credentials: &str) -> Relay {
        let url = format!("smtp://{credentials}{address}");
        Relay::new(RelayTarget::parse(&url).expect("a relay"))
    }

    /// Sends a message with a server that does not stop.
    async fn send(
        relay: &Relay,
        sender: &str,
        recipients: &[String],
        source: &[u8],
    ) -> Vec<Handoff> {
        let before_end = |_: &[Handoff]| std::future::ready(Ok(()));
        let envelope = Envelope { sender, recipients, before_end };
        relay.send(&Stop::default(), envelope, source).await.expect("no stop")
    }

    fn drain(lines: &mut mpsc::UnboundedReceiver<(usize, String)>) -> Vec<(usize, String)> {
        std::iter::from_fn(|| lines.try_recv().ok()).collect()
    }

    const SOURCE: &[u8] = b"Subject: x\r\n\r\n.one\r\n..two\r\nthree\r\n";

    fn to(addresses: &[&str]) -> Vec<String> {
        addresses.iter().map(|&address| address.to_owned()).collect()
    }

    #[tokio::test]
    async fn messages_share_a_connection_and_dots_are_stuffed() {
        let (address, mut lines) = server(|_| None, "250-x\r\n250-8BITMIME\r\n250 SIZE 1000").await;
        let relay = relay(address, "");
        for _ in 0..2 {
            let outcome = send(&relay, "ada@a.test", &to(&["b@c.test"]), SOURCE).await;
            assert_eq!(outcome, [Handoff::Accepted]);
        }
        relay.close().await;
        let lines = drain(&mut lines);
        assert!(lines.iter().all(|(connection, _)| *connection == 1), "{lines:?}");
        let lines: Vec<_> = lines.iter().map(|(_, line)| line.as_str()).collect();
        let message = [
            "MAIL FROM:<ada@a.test> SIZE=34 BODY=8BITMIME",
            "RCPT TO:<b@c.test>",
            "DATA",
            "Subject: x",
            "",
            "..one",
            "...two",
            "three",
            ".",
        ];
        assert_eq!(lines[1..10], message);
        assert_eq!(lines[10], "RSET");
        assert_eq!(lines[11..20], message);
    }

    #[tokio::test]
    async fn each_recipient_has_its_own_outcome() {
        let script = |line: &str| match line {
            "RCPT TO:<no@c.test>" => Some("550-5.1.1 no such\r\n550 5.1.1 user"),
            "RCPT TO:<later@c.test>" => Some("451 4.7.1 greylisted"),
            _ => None,
        };
        let (address, _lines) = server(script, "250 x").await;
        let recipients = to(&["no@c.test", "yes@c.test", "later@c.test"]);
        let outcome = send(&relay(address, ""), "a@b.test", &recipients, SOURCE).await;
        assert_eq!(
            outcome,
            [
                Handoff::Refused(Reason("550 5.1.1 no such 5.1.1 user".into())),
                Handoff::Accepted,
                Handoff::Deferred(Reason("451 4.7.1 greylisted".into())),
            ]
        );
    }

    #[tokio::test]
    async fn no_data_is_sent_if_all_recipients_are_rejected() {
        let script = |line: &str| line.starts_with("RCPT").then_some("550 no");
        let (address, mut lines) = server(script, "250 x").await;
        let relay = relay(address, "");
        let refused = Handoff::Refused(Reason("550 no".into()));
        assert_eq!(send(&relay, "a@b.test", &to(&["c@d.test"]), SOURCE).await, [refused]);
        assert!(!drain(&mut lines).iter().any(|(_, line)| line == "DATA"));
    }

    #[tokio::test]
    async fn a_rejected_message_fails_for_all_recipients() {
        for (at, reply, refused) in [
            ("MAIL FROM:<a@b.test>", "553 no", true),
            ("DATA", "421 bye", false),
            (".", "554 spam", true),
            (".", "452 full", false),
        ] {
            // The script is a function pointer and cannot capture the case.
            let script: fn(&str) -> Option<&'static str> = match (at, reply) {
                ("DATA", _) => |line| (line == "DATA").then_some("421 bye"),
                (".", "554 spam") => |line| (line == ".").then_some("554 spam"),
                (".", _) => |line| (line == ".").then_some("452 full"),
                _ => |line| line.starts_with("MAIL").then_some("553 no"),
            };
            let (address, _lines) = server(script, "250 x").await;
            let outcome =
                send(&relay(address, ""), "a@b.test", &to(&["c@d.test", "e@f.test"]), SOURCE).await;
            let reason = Reason(reply.to_owned());
            let expected =
                if refused { Handoff::Refused(reason) } else { Handoff::Deferred(reason) };
            assert_eq!(outcome, [expected.clone(), expected], "{at}");
        }
    }

    #[tokio::test]
    async fn an_intermediate_reply_to_a_message_leaves_its_outcome_open() {
        let script = |line: &str| (line == ".").then_some("354 more");
        let (address, _lines) = server(script, "250 x").await;
        let outcome = send(&relay(address, ""), "a@b.test", &to(&["c@d.test"]), SOURCE).await;
        let [Handoff::Unknown(reason)] = &outcome[..] else { panic!("{outcome:?}") };
        assert!(reason.to_string().ends_with("unexpected reply: 354 more"), "{reason}");
    }

    /// The relay gets the end of a message only if that could be recorded, and for the recipients
    /// that it accepted.
    #[tokio::test]
    async fn a_message_that_cannot_be_recorded_is_not_sent() {
        let script = |line: &str| (line == "RCPT TO:<no@d.test>").then_some("550 no");
        let (address, mut lines) = server(script, "250 x").await;
        let relay = relay(address, "");
        let recipients = to(&["c@d.test", "no@d.test"]);
        let refused = Handoff::Refused(Reason("550 no".into()));
        let before_end = |outcomes: &[Handoff]| {
            assert_eq!(outcomes, [Handoff::Accepted, refused.clone()]);
            std::future::ready(Err(ApiError::internal("the disk is full")))
        };
        let envelope = Envelope { sender: "a@b.test", recipients: &recipients, before_end };
        let outcome = relay.send(&Stop::default(), envelope, SOURCE).await.expect("no stop");
        let reason = "this server could not store that it hands over the message";
        assert_eq!(outcome[0], Handoff::Deferred(Reason(reason.to_owned())));
        assert!(!drain(&mut lines).iter().any(|(_, line)| line == "."));
    }

    #[tokio::test]
    async fn reconnects_after_a_lost_connection() {
        let script = |line: &str| (line == "RSET").then_some("hang up");
        let (address, mut lines) = server(script, "250 x").await;
        let relay = relay(address, "");
        for _ in 0..2 {
            let outcome = send(&relay, "a@b.test", &to(&["c@d.test"]), SOURCE).await;
            assert_eq!(outcome, [Handoff::Accepted]);
        }
        assert_eq!(drain(&mut lines).last().map(|(connection, _)| *connection), Some(2));
    }

    #[tokio::test]
    async fn an_unreachable_server_defers_the_message() {
        let free = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let address = free.local_addr().expect("an address");
        drop(free);
        let outcome = send(&relay(address, ""), "a@b.test", &to(&["c@d.test"]), SOURCE).await;
        let [Handoff::Deferred(reason)] = &outcome[..] else { panic!("{outcome:?}") };
        assert!(reason.to_string().starts_with("the relay failed: "), "{reason}");
    }

    #[tokio::test]
    async fn passwords_are_sent_only_over_tls_or_loopback() {
        let ehlo = "250-x\r\n250 AUTH LOGIN PLAIN";
        let script = |line: &str| line.starts_with("AUTH").then_some("235 welcome");
        let (address, mut lines) = server(script, ehlo).await;
        let outcome =
            send(&relay(address, "ada:p%40ss@"), "a@b.test", &to(&["c@d.test"]), SOURCE).await;
        assert_eq!(outcome, [Handoff::Accepted]);
        let plain = "AUTH PLAIN AGFkYQBwQHNz";
        assert!(drain(&mut lines).iter().any(|(_, line)| line == plain));

        // An IPv4-mapped address does not count as loopback.
        let (address, mut lines) = server(|_| None, ehlo).await;
        let url = format!("smtp://ada:p%40ss@[::ffff:127.0.0.1]:{}", address.port());
        let mapped = Relay::new(RelayTarget::parse(&url).expect("a relay"));
        let outcome = send(&mapped, "a@b.test", &to(&["c@d.test"]), SOURCE).await;
        assert!(matches!(&outcome[..], [Handoff::Deferred(_)]), "{outcome:?}");
        assert!(!drain(&mut lines).iter().any(|(_, line)| line.starts_with("AUTH")));

        let script = |line: &str| match line {
            "AUTH LOGIN" => Some("334 VXNlcm5hbWU6"),
            "YWRh" => Some("334 UGFzc3dvcmQ6"),
            "cEBzcw==" => Some("535 5.7.8 no"),
            _ => None,
        };
        let (address, _lines) = server(script, "250-x\r\n250 AUTH LOGIN").await;
        let outcome =
            send(&relay(address, "ada:p%40ss@"), "a@b.test", &to(&["c@d.test"]), SOURCE).await;
        let [Handoff::Deferred(reason)] = &outcome[..] else { panic!("{outcome:?}") };
        assert_eq!(
            reason.to_string(),
            "the relay failed: the server rejected the credentials: 535 5.7.8 no"
        );
    }

    /// Cleartext that follows the reply to STARTTLS may have been injected.
    #[tokio::test]
    async fn rejects_cleartext_injected_before_tls() {
        let script = |line: &str| (line == "STARTTLS").then_some("220 ready\r\n250 injected");
        let (address, _lines) = server(script, "250-x\r\n250 STARTTLS").await;
        let outcome = send(&relay(address, ""), "a@b.test", &to(&["c@d.test"]), SOURCE).await;
        let reason = Reason("the relay failed: the server did not speak SMTP".to_owned());
        assert_eq!(outcome, [Handoff::Deferred(reason)]);
    }

    #[tokio::test]
    async fn internationalized_addresses_require_smtputf8() {
        let (address, mut lines) = server(|_| None, "250-x\r\n250 SMTPUTF8").await;
        let outcome = send(&relay(address, ""), "a@b.test", &to(&["zoë@d.test"]), SOURCE).await;
        assert_eq!(outcome, [Handoff::Accepted]);
        let mail = "MAIL FROM:<a@b.test> SMTPUTF8";
        assert!(drain(&mut lines).iter().any(|(_, line)| line == mail));

        let (address, _lines) = server(|_| None, "250 x").await;
        let outcome =
            send(&relay(address, ""), "a@b.test", &to(&["zoë@d.test", "c@d.test"]), SOURCE).await;
        assert!(matches!(&outcome[..], [Handoff::Refused(_), Handoff::Accepted]), "{outcome:?}");
    }
}
