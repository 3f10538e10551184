//! Relays mail to an SMTP server (`--relay`) with lettre, over connections that are reused and with an
//! outcome for each recipient. Lettre's transport gives up a message with the first recipient that
//! is rejected; this drives its connection command by command, so that the others get the message,
//! and the hand-over is recorded before the relay has it.

mod target;

use std::error::Error as _;
use std::sync::Mutex;
use std::time::Duration;

use lettre::transport::smtp::Error as SmtpError;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{AsyncSmtpConnection, TlsParameters};
use lettre::transport::smtp::extension::{ClientId, Extension};
use lettre::transport::smtp::response::{Response, Severity};
use target::Tls;
pub use target::{InvalidRelay, InvalidRelayTo};
pub(crate) use target::{RelayTarget, RelayTo};
use tokio::time::timeout;

use crate::model::address::Address;
use crate::model::error::Failure;
use crate::model::status::{Change, simulated};
use crate::net::tls;
use crate::store::lock;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(300);

/// Client of the SMTP server that mail is relayed to.
pub(crate) struct Relay {
    target: RelayTarget,
    recipients: Vec<RelayTo>,
    /// The connections on which no message is sent now.
    idle: Mutex<Vec<AsyncSmtpConnection>>,
}

/// Outcome of a recipient at the relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Handoff {
    /// The relay accepted the message.
    Accepted,
    /// Temporary failure, to be retried later: a 4xx reply or no connection.
    Deferred(String),
    /// Permanent failure: a 5xx reply.
    Refused(String),
    /// The message was sent, but its reply did not arrive. The relay may have accepted it.
    Unknown(String),
}

/// Why a message was not accepted, such as `550 5.1.1 no such user`: one line of limited length,
/// because the text comes from the relay.
fn reason(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(500)
        .collect()
}

impl Relay {
    pub(crate) fn new(target: RelayTarget, recipients: Vec<RelayTo>) -> Self {
        Self {
            target,
            recipients,
            idle: Mutex::default(),
        }
    }

    /// Whether mail to this address leaves the machine. Magic recipients are handled locally.
    pub(crate) fn is_for(&self, address: &str) -> bool {
        let is_allowed = |address: Address| self.recipients.iter().any(|to| to.allows(&address));
        simulated(address) == [Change::Delivered] && Address::parse(address).is_ok_and(is_allowed)
    }

    /// Sends one message. Returns one outcome per recipient, in order.
    ///
    /// `before_message` is called with the outcomes so far when the relay waits for the message. The
    /// relay gets it only if this succeeds.
    pub(crate) async fn send<F: Future<Output = Result<(), Failure>>>(
        &self,
        sender: &str,
        recipients: &[String],
        source: &[u8],
        before_message: impl FnOnce(&[Handoff]) -> F,
    ) -> Vec<Handoff> {
        let sent = async {
            let kept = lock(&self.idle).pop();
            let mut connection = self.ready(kept).await?;
            let outcomes =
                transact(&mut connection, sender, recipients, source, before_message).await?;
            let is_lost = outcomes
                .iter()
                .any(|outcome| matches!(outcome, Handoff::Unknown(_)));
            if !is_lost {
                lock(&self.idle).push(connection);
            }
            Ok(outcomes)
        };
        sent.await.unwrap_or_else(|reason: String| {
            tracing::warn!(reason, "the relay did not get a message");
            let reason = format!("the relay did not get the message: {reason}");
            vec![Handoff::Deferred(self::reason(&reason)); recipients.len()]
        })
    }

    /// A connection without a transaction: the one that was kept, unless the relay has closed it.
    async fn ready(
        &self,
        kept: Option<AsyncSmtpConnection>,
    ) -> Result<AsyncSmtpConnection, String> {
        if let Some(mut connection) = kept
            && command(&mut connection, "RSET").await == Ok(Handoff::Accepted)
        {
            return Ok(connection);
        }
        timeout(COMMAND_TIMEOUT, self.connect())
            .await
            .unwrap_or_else(|_| Err("timed out".into()))
    }

    /// Connects, starts TLS if the URL demands it or the relay offers it, and logs in if there are
    /// credentials.
    async fn connect(&self) -> Result<AsyncSmtpConnection, String> {
        let RelayTarget {
            host,
            port,
            tls,
            credentials,
            ..
        } = &self.target;
        let hello = ClientId::Domain("sandbox.localhost".to_owned());
        let parameters = || {
            tls::provider().ok_or(tls::NO_PROVIDER)?;
            TlsParameters::new(host.clone()).map_err(|error| error.to_string())
        };

        let from_start = (*tls == Tls::FromStart).then(parameters).transpose()?;
        let address = (host.as_str(), *port);
        let limit = Some(CONNECT_TIMEOUT);
        let connecting =
            AsyncSmtpConnection::connect_tokio1(address, limit, &hello, from_start, None);
        let mut connection = connecting.await.map_err(|error| error.to_string())?;
        if connection.can_starttls() {
            connection
                .starttls(parameters()?, &hello)
                .await
                .map_err(|error| error.to_string())?;
        } else if *tls == Tls::Upgrade {
            return Err("the server does not offer STARTTLS, which the URL demands".to_owned());
        }
        if let Some((user, password)) = credentials {
            if !connection.is_encrypted() && !self.target.is_loopback() {
                let reason =
                    "the server does not offer TLS, and passwords are not sent in cleartext";
                return Err(reason.to_owned());
            }
            let credentials = Credentials::new(user.clone(), password.clone());
            let login = connection.auth(&[Mechanism::Plain, Mechanism::Login], &credentials);
            login.await.map_err(|error| match error.status() {
                Some(_) => format!("the server rejected the credentials: {}", reply_of(&error)),
                None => error.to_string(),
            })?;
        }

        Ok(connection)
    }
}

/// Fails with the reason if the connection does, before the message was sent; rejections are
/// outcomes.
async fn transact<F: Future<Output = Result<(), Failure>>>(
    connection: &mut AsyncSmtpConnection,
    sender: &str,
    recipients: &[String],
    source: &[u8],
    before_message: impl FnOnce(&[Handoff]) -> F,
) -> Result<Vec<Handoff>, String> {
    let has_utf8 = connection
        .server_info()
        .supports_feature(Extension::SmtpUtfEight);
    let is_ascii = sender.is_ascii() && recipients.iter().all(|address| address.is_ascii());
    let parameter = if has_utf8 && !is_ascii {
        " SMTPUTF8"
    } else {
        ""
    };
    let of_sender = if sender.is_ascii() || has_utf8 {
        command(connection, &format!("MAIL FROM:<{sender}>{parameter}")).await?
    } else {
        no_utf8()
    };
    if of_sender != Handoff::Accepted {
        return Ok(vec![of_sender; recipients.len()]);
    }

    let mut outcomes = Vec::with_capacity(recipients.len());
    for recipient in recipients {
        outcomes.push(if recipient.is_ascii() || has_utf8 {
            command(connection, &format!("RCPT TO:<{recipient}>")).await?
        } else {
            no_utf8()
        });
    }

    if !outcomes.contains(&Handoff::Accepted) {
        return Ok(outcomes);
    }

    let go_ahead = connection.command("DATA\r\n");
    let mut of_message = reply(COMMAND_TIMEOUT, Severity::PositiveIntermediate, go_ahead).await?;
    if of_message == Handoff::Accepted {
        before_message(&outcomes)
            .await
            .map_err(|_| "this server could not store that it hands it over")?;
        // The connection adds a line break.
        let source = source.strip_suffix(b"\r\n").unwrap_or(source);
        // Without a reply, whether the relay has all of the message is not known.
        let message = connection.message(source);
        let sent = reply(MESSAGE_TIMEOUT, Severity::PositiveCompletion, message).await;
        of_message = sent.unwrap_or_else(|failure| {
            Handoff::Unknown(reason(&format!(
                "the relay did not confirm the message, and may have accepted it: {failure}"
            )))
        });
    }

    for outcome in outcomes
        .iter_mut()
        .filter(|outcome| **outcome == Handoff::Accepted)
    {
        outcome.clone_from(&of_message);
    }

    Ok(outcomes)
}

async fn command(connection: &mut AsyncSmtpConnection, line: &str) -> Result<Handoff, String> {
    let sent = connection.command(format!("{line}\r\n"));
    reply(COMMAND_TIMEOUT, Severity::PositiveCompletion, sent).await
}

/// What the reply means for the recipients that it concerns. Without one, or with one that lettre
/// takes for success and that was not expected, the connection is lost.
async fn reply(
    limit: Duration,
    expected: Severity,
    work: impl Future<Output = Result<Response, SmtpError>>,
) -> Result<Handoff, String> {
    match timeout(limit, work).await {
        Ok(Ok(reply)) if reply.code().severity == expected => Ok(Handoff::Accepted),
        Ok(Ok(reply)) => Err(format!("unexpected reply {}", reply.code())),
        Ok(Err(error)) if error.is_permanent() => Ok(Handoff::Refused(reply_of(&error))),
        Ok(Err(error)) if error.is_transient() => Ok(Handoff::Deferred(reply_of(&error))),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("timed out".to_owned()),
    }
}

/// The code and the text of a 4xx or 5xx reply.
fn reply_of(error: &SmtpError) -> String {
    let code = error
        .status()
        .map(|code| code.to_string())
        .unwrap_or_default();
    let text = error.source().map(ToString::to_string).unwrap_or_default();
    reason(&format!("{code} {text}"))
}

fn no_utf8() -> Handoff {
    Handoff::Refused("550 5.6.7 the relay does not support internationalized addresses".to_owned())
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
                let lines = lines.clone();
                let ehlo = Arc::clone(&ehlo);
                tokio::spawn(async move {
                    let mut stream = BufReader::new(stream);
                    stream
                        .write_all(b"220-hello\r\n220 there\r\n")
                        .await
                        .expect("written");
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
        Relay::new(RelayTarget::parse(&url).expect("a relay"), Vec::new())
    }

    async fn send(
        relay: &Relay,
        sender: &str,
        recipients: &[String],
        source: &[u8],
    ) -> Vec<Handoff> {
        relay
            .send(sender, recipients, source, |_| std::future::ready(Ok(())))
            .await
    }

    fn drain(lines: &mut mpsc::UnboundedReceiver<(usize, String)>) -> Vec<(usize, String)> {
        std::iter::from_fn(|| lines.try_recv().ok()).collect()
    }

    const SOURCE: &[u8] = b"Subject: x\r\n\r\n.one\r\n..two\r\nthree\r\n";

    fn to(addresses: &[&str]) -> Vec<String> {
        addresses
            .iter()
            .map(|&address| address.to_owned())
            .collect()
    }

    #[tokio::test]
    async fn messages_share_a_connection_and_dots_are_stuffed() {
        let (address, mut lines) = server(|_| None, "250-x\r\n250-8BITMIME\r\n250 SIZE 1000").await;
        let relay = relay(address, "");
        for _ in 0..2 {
            let outcome = send(&relay, "ada@a.test", &to(&["b@c.test"]), SOURCE).await;
            assert_eq!(outcome, [Handoff::Accepted]);
        }

        let lines = drain(&mut lines);
        assert!(
            lines.iter().all(|(connection, _)| *connection == 1),
            "{lines:?}"
        );
        let lines: Vec<_> = lines.iter().map(|(_, line)| line.as_str()).collect();
        let message = [
            "MAIL FROM:<ada@a.test>",
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
                Handoff::Refused("550 5.1.1 no such user".into()),
                Handoff::Accepted,
                Handoff::Deferred("451 4.7.1 greylisted".into()),
            ]
        );
    }

    #[tokio::test]
    async fn no_data_is_sent_if_all_recipients_are_rejected() {
        let script = |line: &str| line.starts_with("RCPT").then_some("550 no");
        let (address, mut lines) = server(script, "250 x").await;
        let relay = relay(address, "");
        let refused = Handoff::Refused("550 no".into());
        assert_eq!(
            send(&relay, "a@b.test", &to(&["c@d.test"]), SOURCE).await,
            [refused]
        );
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
            let outcome = send(
                &relay(address, ""),
                "a@b.test",
                &to(&["c@d.test", "e@f.test"]),
                SOURCE,
            )
            .await;
            let reason = reply.to_owned();
            let expected = if refused {
                Handoff::Refused(reason)
            } else {
                Handoff::Deferred(reason)
            };
            assert_eq!(outcome, [expected.clone(), expected], "{at}");
        }
    }

    #[tokio::test]
    async fn an_intermediate_reply_to_a_message_leaves_its_outcome_open() {
        let script = |line: &str| (line == ".").then_some("354 more");
        let (address, _lines) = server(script, "250 x").await;
        let outcome = send(&relay(address, ""), "a@b.test", &to(&["c@d.test"]), SOURCE).await;
        let [Handoff::Unknown(reason)] = &outcome[..] else {
            panic!("{outcome:?}")
        };
        assert!(reason.ends_with("unexpected reply 354"), "{reason}");
    }

    #[tokio::test]
    async fn a_final_reply_to_data_is_no_go_ahead() {
        let script = |line: &str| (line == "DATA").then_some("250 OK");
        let (address, mut lines) = server(script, "250 x").await;
        let outcome = send(&relay(address, ""), "a@b.test", &to(&["c@d.test"]), SOURCE).await;
        let [Handoff::Deferred(reason)] = &outcome[..] else {
            panic!("{outcome:?}")
        };
        assert!(reason.ends_with("unexpected reply 250"), "{reason}");
        assert_eq!(
            drain(&mut lines).last().map(|(_, line)| line.as_str()),
            Some("DATA")
        );
    }

    /// The relay gets a message only if that could be recorded, and for the recipients that it
    /// accepted.
    #[tokio::test]
    async fn a_message_that_cannot_be_recorded_is_not_sent() {
        let script = |line: &str| (line == "RCPT TO:<no@d.test>").then_some("550 no");
        let (address, mut lines) = server(script, "250 x").await;
        let relay = relay(address, "");
        let recipients = to(&["c@d.test", "no@d.test"]);
        let refused = Handoff::Refused("550 no".into());
        let before_message = |outcomes: &[Handoff]| {
            assert_eq!(outcomes, [Handoff::Accepted, refused.clone()]);
            std::future::ready(Err(Failure::internal("the disk is full")))
        };

        let outcome = relay
            .send("a@b.test", &recipients, SOURCE, before_message)
            .await;
        let reason = "the relay did not get the message: this server could not store that it hands \
                      it over";
        assert_eq!(outcome[0], Handoff::Deferred(reason.to_owned()));
        let sent = drain(&mut lines);
        assert_eq!(
            sent.last().map(|(_, line)| line.as_str()),
            Some("DATA"),
            "{sent:?}"
        );
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

        assert_eq!(
            drain(&mut lines).last().map(|(connection, _)| *connection),
            Some(2)
        );
    }

    #[tokio::test]
    async fn an_unreachable_server_defers_the_message() {
        let free = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let address = free.local_addr().expect("an address");
        drop(free);
        let outcome = send(&relay(address, ""), "a@b.test", &to(&["c@d.test"]), SOURCE).await;
        let [Handoff::Deferred(reason)] = &outcome[..] else {
            panic!("{outcome:?}")
        };
        assert!(
            reason.starts_with("the relay did not get the message: "),
            "{reason}"
        );
    }

    #[tokio::test]
    async fn passwords_are_sent_only_over_tls_or_loopback() {
        let ehlo = "250-x\r\n250 AUTH LOGIN PLAIN";
        let script = |line: &str| line.starts_with("AUTH").then_some("235 welcome");
        let (address, mut lines) = server(script, ehlo).await;
        let outcome = send(
            &relay(address, "ada:p%40ss@"),
            "a@b.test",
            &to(&["c@d.test"]),
            SOURCE,
        )
        .await;
        assert_eq!(outcome, [Handoff::Accepted]);
        let plain = "AUTH PLAIN AGFkYQBwQHNz";
        assert!(drain(&mut lines).iter().any(|(_, line)| line == plain));

        // An IPv4-mapped address does not count as loopback.
        let (address, mut lines) = server(|_| None, ehlo).await;
        let url = format!("smtp://ada:p%40ss@[::ffff:127.0.0.1]:{}", address.port());
        let mapped = Relay::new(RelayTarget::parse(&url).expect("a relay"), Vec::new());
        let outcome = send(&mapped, "a@b.test", &to(&["c@d.test"]), SOURCE).await;
        assert!(
            matches!(&outcome[..], [Handoff::Deferred(_)]),
            "{outcome:?}"
        );
        assert!(
            !drain(&mut lines)
                .iter()
                .any(|(_, line)| line.starts_with("AUTH"))
        );

        let script = |line: &str| match line {
            "AUTH LOGIN" => Some("334 VXNlcm5hbWU6"),
            "YWRh" => Some("334 UGFzc3dvcmQ6"),
            "cEBzcw==" => Some("535 5.7.8 no"),
            _ => None,
        };

        let (address, _lines) = server(script, "250-x\r\n250 AUTH LOGIN").await;
        let outcome = send(
            &relay(address, "ada:p%40ss@"),
            "a@b.test",
            &to(&["c@d.test"]),
            SOURCE,
        )
        .await;
        let [Handoff::Deferred(reason)] = &outcome[..] else {
            panic!("{outcome:?}")
        };
        assert_eq!(
            *reason,
            "the relay did not get the message: the server rejected the credentials: 535 5.7.8 no"
        );
    }

    /// Anyone on the way could remove the offer of STARTTLS, so a URL can demand it.
    #[tokio::test]
    async fn a_url_can_demand_tls() {
        let (address, mut lines) = server(|_| None, "250-x\r\n250 8BITMIME").await;
        let url = format!("smtp+starttls://{address}");
        let relay = Relay::new(RelayTarget::parse(&url).expect("a relay"), Vec::new());
        let outcome = send(&relay, "a@b.test", &to(&["c@d.test"]), SOURCE).await;
        let reason = "the relay did not get the message: the server does not offer STARTTLS, which \
                      the URL demands";
        assert_eq!(outcome, [Handoff::Deferred(reason.to_owned())]);
        assert!(
            !drain(&mut lines)
                .iter()
                .any(|(_, line)| line.starts_with("MAIL"))
        );
    }

    #[tokio::test]
    async fn internationalized_addresses_require_smtputf8() {
        let (address, mut lines) = server(|_| None, "250-x\r\n250 SMTPUTF8").await;
        let outcome = send(
            &relay(address, ""),
            "a@b.test",
            &to(&["zoë@d.test"]),
            SOURCE,
        )
        .await;
        assert_eq!(outcome, [Handoff::Accepted]);
        let mail = "MAIL FROM:<a@b.test> SMTPUTF8";
        assert!(drain(&mut lines).iter().any(|(_, line)| line == mail));

        let (address, _lines) = server(|_| None, "250 x").await;
        let outcome = send(
            &relay(address, ""),
            "a@b.test",
            &to(&["zoë@d.test", "c@d.test"]),
            SOURCE,
        )
        .await;
        assert!(
            matches!(&outcome[..], [Handoff::Refused(_), Handoff::Accepted]),
            "{outcome:?}"
        );
    }
}
