//! One SMTP client connection to a relay (RFC 5321, 3207, 4954, 6531).

use std::io;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::target::RelayTarget;
use super::{Envelope, Handoff, Reason};
use crate::model::error::ApiError;
use crate::model::stop::Stop;
use crate::net::tls;

pub(super) struct Connection {
    stream: BufReader<Box<dyn Stream>>,
    /// The lines of the reply to `EHLO` after the first, in upper case.
    extensions: Vec<String>,
    usable: bool,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connection")
    }
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// Why a connection is unusable. The failure of a single message is not an error of the
/// connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectionError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("timed out")]
    TimedOut,
    #[error("this server was stopped")]
    Stopped,
    #[error("this server could not store that it hands over the message")]
    NotStored,
    #[error("the server did not speak SMTP")]
    NotSmtp,
    #[error("unexpected reply: {0}")]
    Reply(Reply),
    #[error("the server rejected the credentials: {0}")]
    Credentials(Reply),
    #[error("the server offers no supported authentication mechanism (PLAIN, LOGIN)")]
    NoMechanism,
    #[error("the server does not offer TLS, and passwords are not sent in cleartext")]
    NoTls,
}

impl Connection {
    /// Connects, starts TLS if the server offers it, and logs in if there are
    /// credentials.
    pub(super) async fn open(target: &RelayTarget) -> Result<Self, ConnectionError> {
        let address = (target.host.as_str(), target.port);
        let tcp = within(CONNECT_TIMEOUT, TcpStream::connect(address)).await??;
        tcp.set_nodelay(true)?;
        let mut connection = Self::new(Box::new(tcp));
        if target.implicit_tls {
            connection = connection.into_tls(target).await?;
        }
        expect(within(COMMAND_TIMEOUT, connection.read_reply()).await??, 2)?;
        connection.hello().await?;
        let start_tls = !target.implicit_tls && connection.extension("STARTTLS").is_some();
        if start_tls {
            expect(connection.command("STARTTLS").await?, 2)?;
            // Cleartext after the reply may have been injected (RFC 3207 §6).
            if !connection.stream.buffer().is_empty() {
                return Err(ConnectionError::NotSmtp);
            }
            connection = connection.into_tls(target).await?;
            connection.hello().await?;
        }
        connection.log_in(target, target.implicit_tls || start_tls).await?;
        Ok(connection)
    }

    fn new(stream: Box<dyn Stream>) -> Self {
        Self { stream: BufReader::new(stream), extensions: Vec::new(), usable: true }
    }

    async fn into_tls(self, target: &RelayTarget) -> Result<Self, ConnectionError> {
        let handshake = tls::connect(&target.host, self.stream.into_inner());
        Ok(Self::new(Box::new(within(CONNECT_TIMEOUT, handshake).await??)))
    }

    async fn hello(&mut self) -> Result<(), ConnectionError> {
        let reply = self.command("EHLO sandbox.localhost").await?;
        self.extensions =
            reply.lines.iter().skip(1).map(|line| line.to_ascii_uppercase()).collect();
        expect(reply, 2)
    }

    /// The parameters of an extension, if the server offers it.
    fn extension(&self, name: &str) -> Option<&str> {
        self.extensions.iter().find_map(|line| {
            let (known, parameters) = line.split_once(' ').unwrap_or((line, ""));
            (known == name).then_some(parameters)
        })
    }

    async fn log_in(&mut self, target: &RelayTarget, tls: bool) -> Result<(), ConnectionError> {
        let Some((user, password)) = &target.credentials else { return Ok(()) };
        if !tls && !target.is_loopback() {
            return Err(ConnectionError::NoTls);
        }
        let mechanisms = self.extension("AUTH").unwrap_or_default();
        let offers = |name| mechanisms.split_ascii_whitespace().any(|offered| offered == name);
        let (plain, login) = (offers("PLAIN"), offers("LOGIN"));
        let mut reply;
        if plain {
            let secret = BASE64.encode(format!("\0{user}\0{password}"));
            reply = self.command(&format!("AUTH PLAIN {secret}")).await?;
        } else if login {
            reply = self.command("AUTH LOGIN").await?;
            for part in [user, password] {
                if reply.class() == 3 {
                    reply = self.command(&BASE64.encode(part)).await?;
                }
            }
        } else {
            return Err(ConnectionError::NoMechanism);
        }
        if reply.class() == 2 { Ok(()) } else { Err(ConnectionError::Credentials(reply)) }
    }

    /// Resets the connection for the next message. Fails if the connection is dead.
    pub(super) async fn reset(&mut self) -> Result<(), ConnectionError> {
        expect(self.command("RSET").await?, 2)
    }

    pub(super) async fn quit(&mut self) {
        let _ = timeout(QUIT_TIMEOUT, self.command("QUIT")).await;
    }

    /// Sends one message. Fails if the connection is unusable afterwards; rejections by
    /// the relay are outcomes. See [`Envelope::before_end`].
    pub(super) async fn transact<F: Future<Output = Result<(), ApiError>>>(
        &mut self,
        stop: &Stop,
        envelope: Envelope<'_, impl FnOnce(&[Handoff]) -> F>,
        source: &[u8],
    ) -> Result<Vec<Handoff>, ConnectionError> {
        let Envelope { sender, recipients, before_end } = envelope;
        let has_utf8 = self.extension("SMTPUTF8").is_some();
        let is_impossible = |address: &str| !address.is_ascii() && !has_utf8;
        if is_impossible(sender) {
            return Ok(vec![Handoff::Refused(no_utf8()); recipients.len()]);
        }
        let mail = self.mail_command(sender, recipients, source);
        let reply = self.command(&mail).await?;
        if reply.class() != 2 {
            return Ok(vec![reply.handoff(); recipients.len()]);
        }
        let mut outcomes = Vec::with_capacity(recipients.len());
        for recipient in recipients {
            outcomes.push(if is_impossible(recipient) {
                Handoff::Refused(no_utf8())
            } else {
                self.command(&format!("RCPT TO:<{recipient}>")).await?.handoff()
            });
        }
        if !outcomes.contains(&Handoff::Accepted) {
            return Ok(outcomes);
        }
        let reply = self.command("DATA").await?;
        let outcome_of_data = match reply.class() {
            3 => {
                within(MESSAGE_TIMEOUT, self.write_message(source)).await??;
                before_end(&outcomes).await.map_err(|_| ConnectionError::NotStored)?;
                let ended = tokio::select! {
                    ended = self.end_message() => ended,
                    () = stop.until_cut() => Err(ConnectionError::Stopped),
                };
                // Any other reply leaves open what the relay does with the message.
                let ended = ended.and_then(|reply| match reply.class() {
                    2 | 4 | 5 => Ok(reply.handoff()),
                    _ => Err(ConnectionError::Reply(reply)),
                });
                match ended {
                    Ok(outcome) => outcome,
                    Err(failure) => {
                        self.usable = false;
                        Handoff::Unknown(Reason::new(format!(
                            "the relay did not confirm the message, and may have accepted it: {failure}"
                        )))
                    }
                }
            }
            2 => return Err(ConnectionError::NotSmtp),
            _ => reply.handoff(),
        };
        for outcome in &mut outcomes {
            if *outcome == Handoff::Accepted {
                *outcome = outcome_of_data.clone();
            }
        }
        Ok(outcomes)
    }

    fn mail_command(&self, sender: &str, recipients: &[String], source: &[u8]) -> String {
        let mut mail = format!("MAIL FROM:<{sender}>");
        if self.extension("SIZE").is_some() {
            mail.push_str(&format!(" SIZE={}", source.len()));
        }
        if self.extension("8BITMIME").is_some() {
            mail.push_str(" BODY=8BITMIME");
        }
        let international = !sender.is_ascii() || recipients.iter().any(|r| !r.is_ascii());
        if self.extension("SMTPUTF8").is_some() && international {
            mail.push_str(" SMTPUTF8");
        }
        mail
    }

    /// Whether another message can be sent over the connection.
    pub(super) fn is_usable(&self) -> bool {
        self.usable
    }

    /// Writes the final dot and reads the reply. If this fails, the relay may have accepted
    /// the message.
    async fn end_message(&mut self) -> Result<Reply, ConnectionError> {
        let exchange = async {
            self.stream.write_all(b".\r\n").await?;
            self.stream.flush().await?;
            self.read_reply().await
        };
        within(MESSAGE_TIMEOUT, exchange).await?
    }

    /// Writes the message with dot-stuffing, without the final dot.
    async fn write_message(&mut self, source: &[u8]) -> io::Result<()> {
        let mut stuffed = Vec::with_capacity(source.len() + source.len() / 50 + 8);
        for line in source.split_inclusive(|&byte| byte == b'\n') {
            if line.first() == Some(&b'.') {
                stuffed.push(b'.');
            }
            stuffed.extend_from_slice(line);
        }
        if !stuffed.ends_with(b"\r\n") {
            stuffed.extend_from_slice(b"\r\n");
        }
        self.stream.write_all(&stuffed).await?;
        self.stream.flush().await
    }

    async fn command(&mut self, line: &str) -> Result<Reply, ConnectionError> {
        let exchange = async {
            self.stream.write_all(format!("{line}\r\n").as_bytes()).await?;
            self.stream.flush().await?;
            self.read_reply().await
        };
        within(COMMAND_TIMEOUT, exchange).await?
    }

    async fn read_reply(&mut self) -> Result<Reply, ConnectionError> {
        let mut limited = (&mut self.stream).take(MAX_REPLY);
        let mut lines = Vec::new();
        loop {
            let mut line = Vec::new();
            if limited.read_until(b'\n', &mut line).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end();
            let code = line.get(..3).and_then(|code| code.parse::<u16>().ok());
            let Some(code) = code.filter(|code| (200..600).contains(code)) else {
                return Err(ConnectionError::NotSmtp);
            };
            let last = line.as_bytes().get(3) != Some(&b'-');
            lines.push(line.get(4..).unwrap_or_default().to_owned());
            if last {
                return Ok(Reply { code, lines });
            }
        }
    }
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
const QUIT_TIMEOUT: Duration = Duration::from_secs(1);
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(300);
const MAX_REPLY: u64 = 64 * 1024;

async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Result<T, ConnectionError> {
    timeout(limit, work).await.map_err(|_| ConnectionError::TimedOut)
}

fn expect(reply: Reply, class: u16) -> Result<(), ConnectionError> {
    if reply.class() == class { Ok(()) } else { Err(ConnectionError::Reply(reply)) }
}

fn no_utf8() -> Reason {
    Reason::new("550 5.6.7 the relay does not support internationalized addresses")
}

/// A reply with one or more lines.
#[derive(Debug)]
pub(super) struct Reply {
    code: u16,
    lines: Vec<String>,
}

impl Reply {
    fn class(&self) -> u16 {
        self.code / 100
    }

    fn handoff(&self) -> Handoff {
        let reason = || Reason::new(self.to_string());
        match self.class() {
            2 => Handoff::Accepted,
            5 => Handoff::Refused(reason()),
            _ => Handoff::Deferred(reason()),
        }
    }
}

impl std::fmt::Display for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.code, self.lines.join(" "))
    }
}
