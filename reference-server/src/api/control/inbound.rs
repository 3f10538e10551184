//! `POST /_sandbox/inbound`: receives a message as if it had arrived over SMTP.

use std::net::IpAddr;
use std::sync::Arc;

use crate::api::framework::ControlCall;
use crate::api::framework::route::Routes;
use crate::control::inbound::{
    self as control, InboundMessage, InboundQuery, Received, ReceivedMessage,
};
use crate::delivery::authentication::{self, Peer};
use crate::delivery::inbound::{self, IncomingMessage};
use crate::mail::mime::{Incoming, Outgoing};
use crate::model::address::{Address, Mailbox, reject_line_breaks};
use crate::model::error::{ApiError, Problems};
use crate::model::id::{self, Prefix};
use crate::runtime::heavy;
use crate::store::domains;

pub(crate) fn routes(r: &mut Routes) {
    r.tag("Sandbox inbound");
    r.control(control::RECEIVE, receive);
}

/// The sending host of the simulated SMTP connection.
struct SendingHost {
    ip: IpAddr,
    helo: Option<String>,
    /// The envelope sender.
    sender: Option<Address>,
}

/// Maximum number of recipients: each gets a message in the same transaction.
const MAX_RECIPIENTS: usize = 1_000;

pub(crate) async fn receive(
    call: ControlCall<InboundMessage, InboundQuery>,
) -> Result<Received, ApiError> {
    let (app, query) = (Arc::clone(&call.data.app), call.query);
    let prepared = if let Some(bytes) = call.source {
        let read = move || {
            let source = inbound::with_crlf(&bytes);
            let recipients = parse_recipients(&query, &source)?;
            let host = parse_peer(&query, &source)?;
            Ok(Prepared::new((recipients, source, host)))
        };
        heavy::run(read).await?
    } else {
        let new = call.body;
        let (now, host) = (app.clock.now(), parse_host(&query)?);
        heavy::run(move || new.compose(now, host).map(Prepared::new)).await?
    };
    let Prepared { recipients, source, host } = prepared;
    if recipients.len() > MAX_RECIPIENTS {
        let message =
            format!("has {} recipients, at most {MAX_RECIPIENTS} are allowed", recipients.len());
        return Err(ApiError::field("to", message));
    }
    let domain = recipients.first().map(|first| first.domain().as_str().to_owned());
    let (store, resolver, now) = (&app.store, &app.resolver, app.clock.now());
    let peer = host.as_ref().map(SendingHost::peer);
    let results = authentication::check(resolver, peer, &source, now).await?;
    let source = Arc::unwrap_or_clone(source);
    let message = IncomingMessage {
        organization: Some(call.data.organization),
        catcher: None,
        recipients,
        results: Some(results),
        source,
    };
    let received = inbound::receive(store, message).await?;
    if received.is_empty() {
        let elsewhere = store
            .read(move |reader| domains::elsewhere(reader, &domain.unwrap_or_default()))
            .await?;
        let message =
            format!("contains no recipient in a verified domain of this organization{elsewhere}");
        return Err(ApiError::field("to", message));
    }
    let messages = received.into_iter();
    let messages = messages.map(|one| ReceivedMessage { id: one.id, recipient: one.recipient });
    Ok(Received { messages: messages.collect() })
}

/// The recipients of a complete message: the envelope recipients in the query parameter
/// `to`, or those in the header.
fn parse_recipients(query: &InboundQuery, source: &[u8]) -> Result<Vec<Address>, ApiError> {
    let texts = match &query.to {
        // A `+` in a query that is not percent-encoded decodes to a space.
        Some(text) => text.split(',').map(|one| one.trim().replace(' ', "+")).collect(),
        None => {
            let message = Incoming::parse(source)
                .ok_or_else(|| ApiError::field("", "is not an email message: it has no header"))?;
            [message.to, message.cc].concat()
        }
    };
    let parsed = texts.iter().map(|text| Mailbox::parse(text).map(|mailbox| mailbox.address));
    parsed.collect::<Result<_, _>>().map_err(|error| ApiError::field("to", error.to_string()))
}

/// The sending host of a complete message: the query parameters `ip` and `helo`, and the
/// envelope sender in `from`, which defaults to the sender in the header.
fn parse_peer(query: &InboundQuery, source: &[u8]) -> Result<Option<SendingHost>, ApiError> {
    let (ip, helo) = parse_host(query)?;
    let sender = match &query.from {
        Some(text) => Some(text.replace(' ', "+")),
        None => Incoming::parse(source).map(|message| message.from).filter(|from| !from.is_empty()),
    };
    let sender = sender.and_then(|text| Mailbox::parse(&text).ok()).map(|from| from.address);
    Ok(ip.map(|ip| SendingHost { ip, helo, sender }))
}

/// The IP address and the `HELO` name of a host.
type Host = (Option<IpAddr>, Option<String>);

/// Reads the query parameters `ip` and `helo`.
fn parse_host(query: &InboundQuery) -> Result<Host, ApiError> {
    let mut problems = Problems::default();
    let ip = query.ip.as_deref().and_then(|text| check_ip(text, &mut problems));
    let helo = query.helo.clone().filter(|helo| check_helo(helo, &mut problems));
    problems.check()?;
    Ok((ip, helo))
}

fn check_ip(text: &str, problems: &mut Problems) -> Option<IpAddr> {
    let ip = text.parse().ok();
    if ip.is_none() {
        problems.add("ip", "must be an IP address");
    }
    ip
}

fn check_helo(text: &str, problems: &mut Problems) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || ".-:[]_".contains(c);
    let is_valid = !text.is_empty() && text.chars().all(is_allowed);
    if !is_valid {
        problems.add("helo", "must be a host name");
    }
    is_valid
}

impl SendingHost {
    fn peer(&self) -> Peer<'_> {
        let (local, domain) = match &self.sender {
            Some(sender) => (sender.local(), sender.domain().as_str()),
            None => ("", ""),
        };
        Peer { ip: self.ip, helo: self.helo.as_deref().unwrap_or(domain), local, domain }
    }
}

/// Recipients, source and sending host.
type Composed = (Vec<Address>, Vec<u8>, Option<SendingHost>);

/// A message that is ready to be received.
struct Prepared {
    recipients: Vec<Address>,
    source: Arc<Vec<u8>>,
    host: Option<SendingHost>,
}

impl Prepared {
    fn new((recipients, source, host): Composed) -> Self {
        Self { recipients, source: Arc::new(source), host }
    }
}

impl InboundMessage {
    /// Builds the message. `host` is from the query; fields of the body take precedence.
    fn compose(self, now: i64, host: Host) -> Result<Composed, ApiError> {
        let mut problems = Problems::default();
        let ip = self.ip.as_deref().and_then(|text| check_ip(text, &mut problems)).or(host.0);
        let helo = self.helo.filter(|helo| check_helo(helo, &mut problems)).or(host.1);
        let mut mailbox = |field: &str, text: &str| match Mailbox::parse(text) {
            Ok(mailbox) => Some(mailbox),
            Err(error) => {
                problems.add(field, error.to_string());
                None
            }
        };
        let from = mailbox("from", self.from.as_deref().unwrap_or_default());
        let texts = self.to.unwrap_or_default().0;
        let to: Vec<Mailbox> = texts.iter().filter_map(|text| mailbox("to", text)).collect();
        if texts.is_empty() {
            problems.add("to", "is required: at least one recipient");
        }
        let subject = self.subject.unwrap_or_default();
        if let Err(error) = reject_line_breaks(&subject) {
            problems.add("subject", error.to_string());
        }
        problems.check()?;
        let Some(from) = from else { return Err(ApiError::field("from", "is required")) };
        let message_id = format!("{}@{}", id::new(Prefix::Delivery), from.address.domain());
        let message = Outgoing {
            from: &from,
            to: &to,
            cc: &[],
            reply_to: &[],
            subject: &subject,
            html: self.html.as_deref(),
            text: self.text.as_deref(),
            headers: &[],
            attachments: &[],
            message_id: &message_id,
            date: now / 1000,
        };
        let source = message.source();
        let host = ip.map(|ip| SendingHost { ip, helo, sender: Some(from.address.clone()) });
        Ok((to.into_iter().map(|mailbox| mailbox.address).collect(), source, host))
    }
}
