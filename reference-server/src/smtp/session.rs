//! One SMTP conversation (RFC 5321), from the greeting to the end.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use mail_builder::headers::date::Date;
use smtp_proto::request::receiver::{DataReceiver, RequestReceiver};
use smtp_proto::{Error, Request};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::certificate::Tls;
use crate::address::Address;
use crate::app::{ActivityGuard, Shared};
use crate::dkim::{self, DkimVerdict};
use crate::dns::{self, INBOUND_HOST, SpfVerdict};
use crate::id::{self, Prefix};
use crate::inbound::{self, Arrival};

/// Bytes of a message.
const LARGEST: usize = 25 << 20;
const RECIPIENTS: usize = 100;
/// Wrong commands before the line is hung up.
const MISTAKES: u32 = 20;
/// Between two things that the client sends, in real time.
const PAUSE: Duration = Duration::from_secs(60);
/// A message that came through so many servers goes in circles (§6.3).
const HOPS: usize = 100;

/// Speaks with one client until it leaves, falls silent or makes no sense.
pub(super) async fn serve(
    app: &Shared,
    tls: &Tls,
    mut stream: TcpStream,
    peer: SocketAddr,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let client = peer.ip().to_canonical();
    stream.write_all(format!("220 {INBOUND_HOST} ESMTP\r\n").as_bytes()).await?;
    if converse(Session::new(app, client, false), &mut stream).await? == End::StartTls {
        let mut stream = timeout(PAUSE, tls.accept(stream)).await??;
        // It begins anew: what was said before, anybody may have said (RFC 3207 §4.2).
        converse(Session::new(app, client, true), &mut stream).await?;
    }
    Ok(())
}

/// How a conversation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Left,
    /// The client asked to go on encrypted.
    StartTls,
}

async fn converse<S>(mut session: Session<'_>, stream: &mut S) -> io::Result<End>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut commands = RequestReceiver::default();
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let Ok(read) = timeout(PAUSE, stream.read(&mut buffer)).await else {
            stream.write_all(b"421 4.4.2 nothing came for a minute\r\n").await?;
            return Ok(End::Left);
        };
        let count = read?;
        if count == 0 {
            return Ok(End::Left);
        }
        let mut bytes = buffer[..count].iter();
        // Several commands may have come at once: their replies go together.
        let mut replies = String::new();
        while !bytes.as_slice().is_empty() && session.end.is_none() {
            let reply = match &mut session.data {
                Some(data) => {
                    if !data.take(&mut bytes) {
                        break;
                    }
                    session.finish_message().await
                }
                None => match commands.ingest(&mut bytes).map(Request::into_owned) {
                    Ok(request) => session.obey(request).await,
                    Err(Error::NeedsMoreData { .. }) => break,
                    Err(error) => session.complain(&error),
                },
            };
            replies.push_str(&reply);
            replies.push_str("\r\n");
        }
        stream.write_all(replies.as_bytes()).await?;
        stream.flush().await?;
        match session.end {
            None => {}
            // What came after it in plain text is not read any more.
            Some(End::StartTls) => return Ok(End::StartTls),
            Some(End::Left) => {
                stream.shutdown().await?;
                return Ok(End::Left);
            }
        }
    }
}

struct Session<'a> {
    app: &'a Shared,
    client: IpAddr,
    /// The name that the client gave, once it has.
    helo: Option<String>,
    /// Whether it was `EHLO`.
    extended: bool,
    transaction: Option<Transaction>,
    data: Option<Data>,
    mistakes: u32,
    encrypted: bool,
    end: Option<End>,
}

struct Transaction {
    /// `None` for the empty sender of a bounce.
    sender: Option<Address>,
    recipients: Vec<Address>,
}

struct Data {
    receiver: DataReceiver,
    source: Vec<u8>,
    too_large: bool,
}

impl Data {
    fn new() -> Self {
        let mut data = Self { receiver: DataReceiver::new(), source: vec![], too_large: false };
        // The end of the command's line: a dot may follow it at once.
        data.receiver.ingest(&mut b"\r\n".iter(), &mut data.source);
        data.source.clear();
        data
    }

    /// Says whether the message has come to its end.
    fn take(&mut self, bytes: &mut std::slice::Iter<'_, u8>) -> bool {
        let ended = self.receiver.ingest(bytes, &mut self.source);
        if self.source.len() > LARGEST {
            self.too_large = true;
        }
        if self.too_large {
            self.source.clear();
        }
        ended
    }
}

impl<'a> Session<'a> {
    fn new(app: &'a Shared, client: IpAddr, encrypted: bool) -> Self {
        Self {
            app,
            client,
            helo: None,
            extended: false,
            transaction: None,
            data: None,
            mistakes: 0,
            encrypted,
            end: None,
        }
    }

    async fn obey(&mut self, request: Request<String>) -> String {
        match request {
            Request::Ehlo { host } => {
                self.greet(host, true);
                let tls = if self.encrypted { "" } else { "250-STARTTLS\r\n" };
                format!(
                    "250-{INBOUND_HOST}\r\n250-PIPELINING\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n\
                     250-SIZE {LARGEST}\r\n{tls}250 ENHANCEDSTATUSCODES"
                )
            }
            Request::StartTls if self.encrypted => {
                self.mistake("503 5.5.1 the connection is encrypted already")
            }
            Request::StartTls => {
                self.end = Some(End::StartTls);
                "220 2.0.0 go ahead".to_owned()
            }
            Request::Helo { host } => {
                self.greet(host, false);
                format!("250 {INBOUND_HOST}")
            }
            Request::Mail { from } => self.mail(&from.address, from.size),
            Request::Rcpt { to } => self.recipient(&to.address).await,
            Request::Data => match &self.transaction {
                Some(transaction) if !transaction.recipients.is_empty() => {
                    self.data = Some(Data::new());
                    "354 end it with a dot on a line of its own".to_owned()
                }
                Some(_) => self.mistake("554 5.5.1 no valid recipients"),
                None => self.mistake("503 5.5.1 first MAIL and RCPT"),
            },
            Request::Rset => {
                self.transaction = None;
                "250 2.0.0 forgotten".to_owned()
            }
            Request::Noop { .. } => "250 2.0.0 fine".to_owned(),
            Request::Vrfy { .. } => "252 2.5.2 send it, and see".to_owned(),
            Request::Help { .. } => "214 2.0.0 see RFC 5321".to_owned(),
            Request::Quit => {
                self.end = Some(End::Left);
                "221 2.0.0 good-bye".to_owned()
            }
            _ => self.mistake("502 5.5.1 not offered"),
        }
    }

    fn greet(&mut self, host: String, extended: bool) {
        self.helo = Some(host);
        self.extended = extended;
        self.transaction = None;
    }

    fn mail(&mut self, address: &str, size: usize) -> String {
        if self.helo.is_none() {
            return self.mistake("503 5.5.1 first EHLO");
        }
        if self.transaction.is_some() {
            return self.mistake("503 5.5.1 a message is under way");
        }
        if size > LARGEST {
            return too_large();
        }
        let sender = match address {
            "" => None,
            address => match Address::parse(address) {
                Ok(address) => Some(address),
                Err(_) => return self.mistake("501 5.1.7 the sender is no address"),
            },
        };
        self.transaction = Some(Transaction { sender, recipients: Vec::new() });
        "250 2.1.0 go on".to_owned()
    }

    async fn recipient(&mut self, address: &str) -> String {
        let Some(transaction) = &mut self.transaction else {
            return self.mistake("503 5.5.1 first MAIL");
        };
        if transaction.recipients.len() >= RECIPIENTS {
            return "452 4.5.3 too many recipients".to_owned();
        }
        let Ok(address) = Address::parse(address) else {
            return self.mistake("501 5.1.3 the recipient is no address");
        };
        match inbound::is_taken(self.app, address.domain().as_str()).await {
            Ok(true) => {
                if !transaction.recipients.contains(&address) {
                    transaction.recipients.push(address);
                }
                "250 2.1.5 go on".to_owned()
            }
            Ok(false) => {
                self.mistake("550 5.7.1 no mail is taken for this domain: it is not verified here")
            }
            Err(_) => "451 4.3.0 try again later".to_owned(),
        }
    }

    async fn finish_message(&mut self) -> String {
        let (Some(data), Some(transaction)) = (self.data.take(), self.transaction.take()) else {
            return self.mistake("503 5.5.1 no message is under way");
        };
        if data.too_large {
            return too_large();
        }
        if hops(&data.source) > HOPS {
            return "554 5.4.6 the message goes in circles".to_owned();
        }
        // The server is not idle before the message's events are out.
        let _active = ActivityGuard::request(self.app);
        let helo = self.helo.clone().unwrap_or_default();
        let (local, domain) = match &transaction.sender {
            Some(sender) => (sender.local(), sender.domain().as_str()),
            None => ("", ""),
        };
        let spf = dns::evaluate_spf(&self.app.resolver, self.client, &helo, local, domain).await;
        let dkim = dkim::verify(&self.app.resolver, &data.source, self.app.clock.now()).await;
        let id = id::new(Prefix::Request);
        let mut source = self.trace(&id, &helo, &transaction, spf, dkim).into_bytes();
        source.extend_from_slice(&data.source);
        let recipients = transaction.recipients;
        let arrival = Arrival { organization: None, recipients, spf, dkim, source };
        match inbound::receive(self.app, arrival).await {
            Ok(received) if received.is_empty() => {
                "550 5.7.1 no mail is taken for this domain any more".to_owned()
            }
            Ok(_) => format!("250 2.0.0 taken as {id}"),
            Err(_) => "451 4.3.0 try again later".to_owned(),
        }
    }

    /// What the server adds before the message (§4.4, RFC 8601).
    fn trace(
        &self,
        id: &str,
        helo: &str,
        transaction: &Transaction,
        spf: SpfVerdict,
        dkim: DkimVerdict,
    ) -> String {
        let sender = transaction.sender.as_ref().map_or("", Address::as_str);
        // The client chose it: nothing that could end a field or a comment.
        let helo: String =
            helo.chars().filter(|c| c.is_alphanumeric() || ".-:[]_".contains(*c)).collect();
        let protocol = match (self.extended, self.encrypted) {
            (true, true) => "ESMTPS",
            (true, false) => "ESMTP",
            (false, _) => "SMTP",
        };
        let date = Date::new(self.app.clock.now() / 1000).to_rfc822();
        format!(
            "Return-Path: <{sender}>\r\n\
             Authentication-Results: {INBOUND_HOST}; spf={spf} smtp.helo={helo}; dkim={dkim}\r\n\
             Received: from {helo} ([{}])\r\n\tby {INBOUND_HOST} with {protocol} id {id};\r\n\t{date}\r\n",
            self.client
        )
    }

    fn complain(&mut self, error: &Error) -> String {
        match error {
            Error::UnknownCommand => self.mistake("500 5.5.1 no such command"),
            Error::InvalidSenderAddress => self.mistake("501 5.1.7 the sender is no address"),
            Error::InvalidRecipientAddress => self.mistake("501 5.1.3 the recipient is no address"),
            Error::SyntaxError { syntax } => {
                let text = format!("501 5.5.2 write {syntax}");
                self.mistake(&text)
            }
            Error::InvalidParameter { param } => {
                let text = format!("501 5.5.4 the parameter {param} is wrong");
                self.mistake(&text)
            }
            Error::UnsupportedParameter { .. } => self.mistake("504 5.5.4 no such parameter"),
            // Where the line ends is not known any more.
            _ => {
                self.end = Some(End::Left);
                "500 5.5.6 the line is too long".to_owned()
            }
        }
    }

    fn mistake(&mut self, reply: &str) -> String {
        self.mistakes += 1;
        if self.mistakes < MISTAKES {
            return reply.to_owned();
        }
        self.end = Some(End::Left);
        "421 4.7.0 too many mistakes".to_owned()
    }
}

fn too_large() -> String {
    format!("552 5.3.4 a message may have {LARGEST} bytes")
}

fn hops(source: &[u8]) -> usize {
    let head = source.windows(4).position(|w| w == b"\r\n\r\n").unwrap_or(source.len());
    let lines = source[..head].split(|&byte| byte == b'\n');
    lines.filter(|line| line.get(..9).is_some_and(|l| l.eq_ignore_ascii_case(b"received:"))).count()
}
