//! One SMTP session (RFC 5321) on the server side; section numbers refer to the RFC. `serve` reads
//! commands until the client leaves, and gives a complete message to `inbound/inbound_rules.rs`.
//! 250 after the data means that the message is stored. Nothing from before STARTTLS counts after
//! it. A message with a bare CR or LF, which the next server could read as two, is refused. Over
//! 500 lines, because the commands share the state of `Session`; logins are in `login.rs`.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mail_builder::headers::date::Date;
use smtp_proto::request::receiver::{DataReceiver, LineReceiver, MAX_LINE_LENGTH};
use smtp_proto::{
    Error, MAIL_BODY_7BIT, MAIL_BODY_8BITMIME, MAIL_BODY_BINARYMIME, MAIL_SMTPUTF8, MailFrom,
    RcptTo, Request,
};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};
use tokio_io_timeout::TimeoutStream;

use super::MailServer;
use super::login::{self, Login, Next, Step};
use crate::domains::domain_rows;
use crate::faults::fault_rows;
use crate::faults::fault_wire::{DropPoint, SmtpStep};
use crate::inbound::inbound_rules::{self, IncomingMessage};
use crate::inbound::inbound_wire::ReceivedMessage;
use crate::mail::authentication;
use crate::mail::header::has_bare_line_break;
use crate::mail::mime::has_header;
use crate::messages::message_wire::Authentication;
use crate::model::address::Address;
use crate::model::dns::INBOUND_HOST;
use crate::model::error::Failure;
use crate::model::id;
use crate::runtime::limit::Permit;
use crate::store::{Reader, SANDBOX, find_named};

const MAX_RECIPIENTS: usize = 100;
/// Maximum size of a message in bytes.
const MAX_MESSAGE_SIZE: usize = 25 << 20;
/// Maximum pause between two reads from the client, in real time.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum duration of the transfer of one message, in real time.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(600);
/// Maximum size of the header of a message, in bytes.
const MAX_HEADER_SIZE: usize = 1 << 20;

/// Serves one client until it disconnects, or is idle for too long.
pub(super) async fn serve(
    server: &MailServer,
    stream: TcpStream,
    peer: SocketAddr,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    // A client that does not read must not keep its connection.
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(server.app.settings.limits.write_timeout));
    let mut stream = Box::pin(stream);
    let client = peer.ip().to_canonical();
    let mut session = Session::new(server, client, false);
    let refused = session.meet(SmtpStep::Connect, &[]).await;
    let greeting = refused
        .clone()
        .unwrap_or_else(|| format!("220 {INBOUND_HOST} ESMTP"));
    session.write(&mut stream, &greeting).await?;
    if refused.is_some() || session.is_cut {
        return stream.shutdown().await;
    }

    if run_session(session, &mut stream).await? == End::StartTls
        && let Some(certificate) = &server.app.settings.smtp_certificate
    {
        let mut stream = timeout(IDLE_TIMEOUT, certificate.accept(stream)).await??;
        // The session starts over, since anyone could have injected the earlier
        // cleartext commands (RFC 3207 §4.2).
        run_session(Session::new(server, client, true), &mut stream).await?;
    }

    Ok(())
}

const UNKNOWN_PARAMETER: &str = "555 5.5.4 a parameter is not supported";

const TEMPORARY: &str = "451 4.3.0 temporary failure, try again later";

async fn write(stream: &mut (impl AsyncWrite + Unpin), replies: &str) -> io::Result<()> {
    stream
        .write_all(format!("{replies}\r\n").as_bytes())
        .await?;
    stream.flush().await
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Closed,
    /// The client asked for TLS.
    StartTls,
}

async fn run_session<S>(mut session: Session<'_>, stream: &mut S) -> io::Result<End>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut line = LineReceiver::new(());
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let Ok(read) = timeout(IDLE_TIMEOUT, stream.read(&mut buffer)).await else {
            write(stream, "421 4.4.2 idle timeout, closing connection").await?;
            return Ok(End::Closed);
        };
        let count = read?;
        if count == 0 {
            return Ok(End::Closed);
        }
        let mut bytes = buffer[..count].iter();
        if session
            .data
            .as_ref()
            .is_some_and(|data| data.started.elapsed() > TRANSFER_TIMEOUT)
        {
            write(stream, "421 4.4.2 the message took too long").await?;
            return Ok(End::Closed);
        }
        // Several commands may arrive at once (pipelining). Their replies are sent
        // together.
        let mut replies = Vec::new();
        while !bytes.as_slice().is_empty() && session.end.is_none() {
            let is_complete = match &mut session.data {
                Some(data) => data.receive(&mut bytes),
                None => line.ingest(&mut bytes),
            };
            if !is_complete {
                break;
            }
            let reply = match session.data.take() {
                Some(data) => session.process_message(data).await,
                None => session.handle_line(std::mem::take(&mut line.buf)).await,
            };
            if session.is_cut {
                session.end = Some(End::Closed);
            } else {
                replies.push(reply);
            }
        }
        if !replies.is_empty() {
            session.write(stream, &replies.join("\r\n")).await?;
        }
        match session.end {
            None => {}
            // Discard cleartext input that follows the command (RFC 3207 §6).
            Some(End::StartTls) => return Ok(End::StartTls),
            Some(End::Closed) => {
                stream.shutdown().await?;
                return Ok(End::Closed);
            }
        }
    }
}

struct Session<'a> {
    server: &'a MailServer,
    client: IpAddr,
    /// The name from the client's `HELO` or `EHLO`.
    helo: Option<String>,
    /// Whether the client sent `EHLO`.
    extended: bool,
    /// An authentication in progress.
    exchange: Option<Step>,
    login: Option<Login>,
    transaction: Option<Transaction>,
    data: Option<Data>,
    encrypted: bool,
    end: Option<End>,
    /// A fault closes the connection in place of the reply.
    is_cut: bool,
    /// A fault spreads the next reply over this time.
    pace: Option<Duration>,
}

#[derive(Default)]
struct Transaction {
    /// `None` for the empty sender of a bounce message.
    sender: Option<Address>,
    recipients: Vec<Address>,
    /// The organization that the login names.
    organization: Option<i64>,
    /// Gets what is for no verified domain.
    catcher: Option<i64>,
    /// Whether a recipient is in a verified domain.
    is_inbound: bool,
}

/// A message in transfer.
struct Data {
    receiver: DataReceiver,
    source: Vec<u8>,
    /// If so, only the last two bytes are kept, and the rest is still read.
    is_too_large: bool,
    started: Instant,
    _permit: Permit,
}

impl Data {
    fn new(permit: Permit) -> Self {
        let mut receiver = DataReceiver::new();
        let source = Vec::new();
        // The message may start with the final dot: it follows the line of the command.
        receiver.ingest(&mut b"\r\n".iter(), &mut Vec::new());
        Self {
            receiver,
            source,
            is_too_large: false,
            started: Instant::now(),
            _permit: permit,
        }
    }

    /// Receives message data. Returns `true` at the end of the message.
    fn receive(&mut self, bytes: &mut std::slice::Iter<'_, u8>) -> bool {
        let ended = self.receiver.ingest(bytes, &mut self.source);
        self.is_too_large |= self.source.len() > MAX_MESSAGE_SIZE;
        if self.is_too_large {
            self.source = self.source.split_off(self.source.len().saturating_sub(2));
        }
        ended
    }
}

impl<'a> Session<'a> {
    fn new(server: &'a MailServer, client: IpAddr, encrypted: bool) -> Self {
        Self {
            server,
            client,
            helo: None,
            extended: false,
            exchange: None,
            login: None,
            transaction: None,
            data: None,
            encrypted,
            end: None,
            is_cut: false,
            pace: None,
        }
    }

    /// Writes replies, slowly if a fault says so.
    async fn write<S>(&mut self, stream: &mut S, replies: &str) -> io::Result<()>
    where
        S: AsyncWrite + Unpin,
    {
        if self.is_cut && replies.is_empty() {
            return Ok(());
        }
        let Some(pace) = self.pace.take() else {
            return write(stream, replies).await;
        };

        let line = format!("{replies}\r\n");
        let pause = pace / u32::try_from(line.len()).unwrap_or(u32::MAX);
        for byte in line.bytes() {
            sleep(pause).await;
            stream.write_all(&[byte]).await?;
            stream.flush().await?;
        }

        Ok(())
    }

    /// What a fault does to a step of this session: the reply in place of the server's own, or a
    /// delay, or the end of the connection.
    async fn meet(&mut self, step: SmtpStep, to: &[Address]) -> Option<String> {
        let app = &self.server.app;
        if !app.has_faults.load(Ordering::SeqCst) {
            return None;
        }

        let login = self.login.clone();
        let has_seed = app.settings.seed;
        let from = self.transaction.as_ref().map(|transaction| {
            transaction
                .sender
                .as_ref()
                .map(Address::as_str)
                .unwrap_or_default()
                .to_owned()
        });
        let domain = to.first().map(|to| to.domain().as_str().to_owned());
        let to: Vec<_> = to.iter().map(|to| to.as_str().to_owned()).collect();
        let find = app.store.write_relaxed(move |tx| {
            let reader = tx.reader();
            let mut organization = login.and_then(|login| login::organization(reader, &login));
            if let (None, Some(domain)) = (organization, domain) {
                let owners = domain_rows::owners(reader, &domain, None)?;
                organization = owners.first().map(|(_, organization)| *organization);
            }
            let seeded = || find_named(reader, SANDBOX).ok().filter(|_| has_seed);
            fault_rows::trigger_smtp(tx, organization.or_else(seeded), step, from, to)
        });
        let fault = find.await.unwrap_or_else(|error| {
            tracing::warn!(message = error.message(), "cannot count the hit of a fault");
            None
        })?;

        match fault.delay() {
            Some(delay) if fault.slow == Some(true) => self.pace = Some(delay),
            Some(delay) => sleep(delay).await,
            None => {}
        }

        self.is_cut = fault.drop.is_some();
        if fault.drop == Some(DropPoint::Before) {
            return Some(String::new());
        }

        let reply = fault.reply()?;
        if step == SmtpStep::Connect || reply.starts_with("421") {
            self.end = Some(End::Closed);
        }
        Some(reply)
    }

    /// Handles a command, or a response to a challenge, without its line break.
    async fn handle_line(&mut self, mut line: Vec<u8>) -> String {
        if let Some(step) = self.exchange.take() {
            return self.continue_login(step.receive(&line)).await;
        }
        if line.len() >= MAX_LINE_LENGTH {
            return match self.helo {
                None => self.reject_syntax(&Error::UnknownCommand),
                Some(_) => "500 5.5.6 line too long".to_owned(),
            };
        }

        line.extend_from_slice(b"\r\n");
        let path = path(&line);
        let known = match &path {
            Some(path) => [&line[..path.start], b"a@b.test", &line[path.end..]].concat(),
            None => line.clone(),
        };
        match Request::parse(&mut known.iter()).map(Request::into_owned) {
            Ok(mut request) => {
                if let Some(path) = path {
                    let address = String::from_utf8_lossy(&line[path]).into_owned();
                    match &mut request {
                        Request::Mail { from } => from.address = address,
                        Request::Rcpt { to } => to.address = address,
                        _ => {}
                    }
                }
                self.handle_command(request, line.trim_ascii()).await
            }
            Err(error) => self.reject_syntax(&error),
        }
    }

    async fn handle_command(&mut self, request: Request<String>, line: &[u8]) -> String {
        match request {
            Request::Ehlo { host } => {
                self.set_helo(host, true);
                let tls = if self.offers_tls() {
                    "250-STARTTLS\r\n"
                } else {
                    ""
                };
                let auth = if self.may_log_in() {
                    "250-AUTH PLAIN LOGIN\r\n"
                } else {
                    ""
                };
                format!(
                    "250-{INBOUND_HOST}\r\n250-PIPELINING\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n\
                     250-SIZE {MAX_MESSAGE_SIZE}\r\n{tls}{auth}250 ENHANCEDSTATUSCODES"
                )
            }
            // The parser skips what follows the word.
            Request::StartTls if line.len() > "STARTTLS".len() => {
                "501 5.5.4 STARTTLS has no parameters".to_owned()
            }
            Request::StartTls if self.encrypted => "503 5.5.1 TLS is already active".to_owned(),
            Request::StartTls if self.offers_tls() => {
                self.end = Some(End::StartTls);
                "220 2.0.0 ready to start TLS".to_owned()
            }
            Request::Helo { host } => {
                self.set_helo(host, false);
                format!("250 {INBOUND_HOST}")
            }
            Request::Auth { .. } if !self.may_log_in() => "538 5.7.11 start TLS first".to_owned(),
            Request::Auth { .. }
                if !self.extended || self.login.is_some() || self.transaction.is_some() =>
            {
                "503 5.5.1 AUTH follows EHLO, once and before MAIL".to_owned()
            }
            Request::Auth {
                mechanism,
                initial_response,
            } => {
                self.continue_login(login::begin(mechanism, &initial_response))
                    .await
            }
            Request::Mail { from } => self.mail(&from).await,
            Request::Rcpt { to } => self.recipient(to, line).await,
            Request::Data => match &self.transaction {
                Some(transaction) if !transaction.recipients.is_empty() => {
                    match timeout(IDLE_TIMEOUT, self.server.transfers.permit()).await {
                        Ok(permit) => {
                            self.data = Some(Data::new(permit));
                            "354 end data with <CR><LF>.<CR><LF>"
                        }
                        Err(_) => "452 4.3.1 too many messages in transfer, try again later",
                    }
                    .to_owned()
                }
                Some(_) => "554 5.5.1 no valid recipients".to_owned(),
                None => "503 5.5.1 send MAIL and RCPT first".to_owned(),
            },
            Request::Rset => {
                self.transaction = None;
                "250 2.0.0 OK".to_owned()
            }
            Request::Noop { .. } => "250 2.0.0 OK".to_owned(),
            Request::Vrfy { .. } => {
                "252 2.5.2 cannot verify the address, but will accept the message".to_owned()
            }
            Request::Help { .. } => "214 2.0.0 see RFC 5321".to_owned(),
            Request::Quit => {
                self.end = Some(End::Closed);
                "221 2.0.0 closing connection".to_owned()
            }
            _ => "502 5.5.1 command not implemented".to_owned(),
        }
    }

    fn offers_tls(&self) -> bool {
        !self.encrypted && self.server.app.settings.smtp_certificate.is_some()
    }

    /// A server that others can reach reads keys only over TLS.
    fn may_log_in(&self) -> bool {
        self.encrypted || !self.server.app.settings.is_exposed()
    }

    async fn continue_login(&mut self, next: Next) -> String {
        match next {
            Next::Challenge(exchange, challenge) => {
                self.exchange = Some(exchange);
                challenge.to_owned()
            }
            Next::Done(login) => {
                self.login = Some(login);
                if let Some(reply) = self.meet(SmtpStep::Auth, &[]).await {
                    self.login = None;
                    return reply;
                }
                "235 2.7.0 authenticated".to_owned()
            }
            Next::Invalid(reply) => reply.to_owned(),
        }
    }

    fn set_helo(&mut self, host: String, extended: bool) {
        self.helo = Some(host);
        self.extended = extended;
        self.transaction = None;
    }

    async fn mail(&mut self, from: &MailFrom<String>) -> String {
        if self.helo.is_none() {
            return "503 5.5.1 send EHLO first".to_owned();
        }
        if self.transaction.is_some() {
            return "503 5.5.1 sender already specified".to_owned();
        }
        if from.flags & MAIL_BODY_BINARYMIME != 0 {
            return "504 5.5.4 BODY=BINARYMIME is not supported".to_owned();
        }

        let flags = from.flags & (MAIL_BODY_7BIT | MAIL_BODY_8BITMIME | MAIL_SMTPUTF8);
        let size = from.size;
        // A server with AUTH accepts the parameter `AUTH=` (RFC 4954 §5).
        let address = from.address.clone();
        let auth = from.auth.clone();
        let known = MailFrom {
            address,
            flags,
            size,
            auth,
            ..MailFrom::default()
        };
        if *from != known {
            return UNKNOWN_PARAMETER.to_owned();
        }
        if size > MAX_MESSAGE_SIZE {
            return too_large();
        }

        let sender = match &*from.address {
            "" => None,
            address => match Address::of_envelope(address) {
                Some(address) => Some(address),
                None => return "501 5.1.7 invalid sender address".to_owned(),
            },
        };
        self.transaction = Some(Transaction {
            sender,
            ..Transaction::default()
        });
        if let Some(reply) = self.meet(SmtpStep::Mail, &[]).await {
            self.transaction = None;
            return reply;
        }

        "250 2.1.0 sender OK".to_owned()
    }

    async fn recipient(&mut self, to: RcptTo<String>, line: &[u8]) -> String {
        if to
            != (RcptTo {
                address: to.address.clone(),
                ..RcptTo::default()
            })
        {
            return UNKNOWN_PARAMETER.to_owned();
        }
        let Some(transaction) = &mut self.transaction else {
            return "503 5.5.1 send MAIL first".to_owned();
        };
        if transaction.recipients.len() >= MAX_RECIPIENTS {
            return "452 4.5.3 too many recipients".to_owned();
        }

        // `<postmaster>`, the address without a domain that every server accepts (§4.5.1), is empty
        // for the parser, like `<>`.
        let is_postmaster = line.to_ascii_lowercase().ends_with(b"postmaster>");
        let address = if to.address.is_empty() && is_postmaster {
            match self
                .server
                .app
                .store
                .read(domain_rows::first_verified)
                .await
            {
                Ok(domain) => format!("postmaster@{}", domain.as_deref().unwrap_or(INBOUND_HOST)),
                Err(_) => return TEMPORARY.to_owned(),
            }
        } else {
            to.address
        };
        let Some(address) = Address::of_envelope(&address) else {
            return "501 5.1.3 invalid recipient address".to_owned();
        };

        let login = self.login.clone();
        let has_seed = self.server.app.settings.seed;
        let domain = address.domain().as_str().to_owned();
        let find = move |reader: Reader<'_>| {
            let organization = login.and_then(|login| login::organization(reader, &login));
            let owners = domain_rows::owners(reader, &domain, organization)?;
            let seeded = || find_named(reader, SANDBOX).ok().filter(|_| has_seed);
            let catcher = organization.or_else(seeded);
            Ok((organization, catcher, !owners.is_empty()))
        };

        let Ok((organization, catcher, is_owned)) = self.server.app.store.read(find).await else {
            return TEMPORARY.to_owned();
        };
        if !is_owned && catcher.is_none() {
            return "550 5.7.1 the domain is not verified on this server, which has no seed data; \
                    authenticate with a key of an organization to catch mail to any address"
                .to_owned();
        }
        if let Some(reply) = self
            .meet(SmtpStep::Rcpt, std::slice::from_ref(&address))
            .await
        {
            return reply;
        }
        let Some(transaction) = &mut self.transaction else {
            return TEMPORARY.to_owned();
        };

        (transaction.organization, transaction.catcher) = (organization, catcher);
        transaction.is_inbound |= is_owned;
        if !transaction.recipients.contains(&address) {
            transaction.recipients.push(address);
        }
        "250 2.1.5 recipient OK".to_owned()
    }

    /// Processes a message that is complete.
    async fn process_message(&mut self, data: Data) -> String {
        let transaction = self.transaction.take().unwrap_or_default();
        if data.source.ends_with(b"\r") {
            // The receiver takes `CRLF . CR CR LF` for the end. What follows may be of the message.
            self.end = Some(End::Closed);
            return "554 5.6.0 a line has a dot and several CR; end the message with <CR><LF>.<CR><LF>"
                .to_owned();
        }
        if data.is_too_large {
            return too_large();
        }

        // What is after the header may be long.
        let head = &data.source[..data.source.len().min(MAX_HEADER_SIZE + 4)];
        if head.len() > MAX_HEADER_SIZE && !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
            return format!(
                "552 5.3.4 the header exceeds the maximum size of {MAX_HEADER_SIZE} bytes"
            );
        }
        // The next server could take such a line end for one, and read another message.
        if has_bare_line_break(&data.source) {
            return "554 5.6.0 the message has a bare CR or LF; lines must end in <CR><LF>"
                .to_owned();
        }

        let recipients = transaction.recipients.clone();
        self.transaction = Some(transaction);
        let refused = self.meet(SmtpStep::Data, &recipients).await;
        let transaction = self.transaction.take().unwrap_or_default();
        if let Some(reply) = refused {
            return reply;
        }

        let id = id::new(id::REQUEST);
        match self.receive(&id, transaction, data.source).await {
            Ok(received) if received.is_empty() => {
                "550 5.7.1 mail for this domain is no longer accepted".to_owned()
            }
            Ok(_) => format!("250 2.0.0 queued as {id}"),
            Err(_) => TEMPORARY.to_owned(),
        }
    }

    /// Checks and stores a message.
    async fn receive(
        &self,
        id: &str,
        transaction: Transaction,
        source: Vec<u8>,
    ) -> Result<Vec<ReceivedMessage>, Failure> {
        let app = &self.server.app;
        // The server is busy until the message's events have been emitted.
        let _active = app.activity.request();
        let source = Arc::new(source);
        let helo = self.helo.as_deref().unwrap_or_default();
        // Mail that is caught comes from an application of this machine or team, and needs no look-ups.
        let results = if transaction.is_inbound {
            let sender = transaction.sender.as_ref();
            let domain = sender.map_or(helo, |sender| sender.domain().as_str());
            let peer = Some((self.client, domain));
            let now = app.clock.now();
            Some(authentication::check(&app.resolver, peer, &source, now).await?)
        } else {
            None
        };
        let mut traced = self
            .trace(id, helo, &transaction, results.as_ref())
            .into_bytes();
        // Otherwise the first paragraph would go on in the header.
        if !has_header(&source) {
            traced.extend_from_slice(b"\r\n");
        }
        traced.append(&mut authentication::without_own_results(
            Arc::unwrap_or_clone(source),
        ));
        let Transaction {
            recipients,
            organization,
            catcher,
            ..
        } = transaction;
        let message = IncomingMessage {
            organization,
            catcher,
            recipients,
            results,
            source: traced,
        };
        inbound_rules::receive(&app.store, message).await
    }

    /// Header fields that the server prepends to the message (§4.4, RFC 8601).
    fn trace(
        &self,
        id: &str,
        helo: &str,
        transaction: &Transaction,
        results: Option<&Authentication>,
    ) -> String {
        let sender = transaction.sender.as_ref().map_or("", Address::as_str);
        // The client chose this name. Remove characters that could end a field or a
        // comment.
        let helo: String = helo
            .chars()
            .filter(|c| c.is_alphanumeric() || ".-:[]_".contains(*c))
            .collect();
        let sender_domain = transaction.sender.as_ref().map(Address::domain);
        let results = results.map(|Authentication { spf, dkim, .. }| {
            // SPF was checked for the domain of the sender, or for the name of the client without one.
            let checked = match sender_domain {
                Some(domain) => format!("smtp.mailfrom={domain}"),
                None => format!("smtp.helo={helo}"),
            };
            let signer = dkim.domain.as_ref();
            let signer = signer.map_or(String::new(), |domain| format!(" header.d={domain}"));
            format!(
                "Authentication-Results: {INBOUND_HOST}; spf={spf} {checked};\r\n\t\
                 dkim={}{signer}\r\n",
                dkim.result
            )
        });
        let results = results.unwrap_or_default();
        let protocol = match (self.extended, self.encrypted, self.login.is_some()) {
            (true, true, true) => "ESMTPSA",
            (true, true, false) => "ESMTPS",
            (true, false, true) => "ESMTPA",
            (true, false, false) => "ESMTP",
            (false, ..) => "SMTP",
        };
        let date = Date::new(self.server.app.clock.now() / 1000).to_rfc822();
        format!(
            "Return-Path: <{sender}>\r\n{results}\
             Received: from {helo} ([{}])\r\n\tby {INBOUND_HOST} with {protocol} id {id};\r\n\t{date}\r\n",
            self.client
        )
    }

    fn reject_syntax(&mut self, error: &Error) -> String {
        match error {
            // A client that does not speak SMTP, such as a browser that a web page directs
            // to this port. What follows must not be taken for commands.
            Error::UnknownCommand if self.helo.is_none() => {
                self.end = Some(End::Closed);
                "421 4.7.0 this is an SMTP server; closing connection".to_owned()
            }
            Error::InvalidSenderAddress => "501 5.1.7 invalid sender address".to_owned(),
            Error::InvalidRecipientAddress => "501 5.1.3 invalid recipient address".to_owned(),
            Error::SyntaxError { syntax } => format!("501 5.5.2 syntax: {syntax}"),
            Error::InvalidParameter { param } => {
                format!("501 5.5.4 invalid parameter {param}")
            }
            Error::UnsupportedParameter { .. } => "504 5.5.4 unknown parameter".to_owned(),
            _ => "500 5.5.1 unknown command".to_owned(),
        }
    }
}

/// Where a command has an address. The parser knows only addresses of the Internet, so it reads the
/// command with another one; `<>` and `<postmaster>` it knows.
fn path(line: &[u8]) -> Option<Range<usize>> {
    let command = line.get(..4)?.to_ascii_uppercase();
    if !matches!(&command[..], b"MAIL" | b"RCPT") {
        return None;
    }

    let start = line.iter().position(|&byte| byte == b'<')? + 1;
    let mut is_quoted = false;
    let mut is_escaped = false;
    let length = line[start..].iter().position(|&byte| {
        let was_escaped = std::mem::take(&mut is_escaped);
        match byte {
            b'\\' if is_quoted => is_escaped = !was_escaped,
            b'"' if !was_escaped => is_quoted = !is_quoted,
            b'>' => return !is_quoted,
            _ => {}
        }
        false
    })?;
    let path = &line[start..start + length];
    let is_postmaster = &command[..] == b"RCPT" && path.eq_ignore_ascii_case(b"postmaster");
    if path.trim_ascii().is_empty() || is_postmaster {
        return None;
    }

    // A source route, which means nothing today (§4.1.1.3).
    let is_route = path.starts_with(b"@");
    let route = path
        .iter()
        .position(|&byte| byte == b':')
        .filter(|_| is_route);
    Some(start + route.map_or(0, |colon| colon + 1)..start + length)
}

fn too_large() -> String {
    format!("552 5.3.4 message exceeds the maximum size of {MAX_MESSAGE_SIZE} bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the size of the message, and however it arrives.
    #[test]
    fn what_is_no_end_of_a_message_leaves_its_cr() {
        for (end, is_end) in [("\r\n.\r\n", true), ("\r\n.\r\r\n", false)] {
            for is_too_large in [false, true] {
                for at in 0..end.len() {
                    let mut data = Data {
                        is_too_large,
                        ..Data::new(None)
                    };
                    let (first, last) = end.split_at(at);
                    let first = format!("xyz{first}");
                    assert!(!data.receive(&mut first.as_bytes().iter()), "{end:?}");
                    assert!(data.receive(&mut last.as_bytes().iter()), "{end:?}");
                    assert_eq!(data.source.ends_with(b"\r"), !is_end, "{end:?} after {at}");
                }
            }
        }
    }

    #[test]
    fn a_postmaster_who_sends_is_an_address() {
        for (line, expected) in [
            ("MAIL FROM:<Postmaster>", Some("Postmaster")),
            ("RCPT TO:<postmaster>", None),
            ("MAIL FROM:<>", None),
        ] {
            let path = path(line.as_bytes());
            assert_eq!(path.map(|path| &line[path]), expected, "{line}");
        }
    }
}
