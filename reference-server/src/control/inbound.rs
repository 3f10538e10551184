//! `POST /_sandbox/inbound`: a message comes in, as if over SMTP.

use std::net::IpAddr;

use http::StatusCode;
use http::header::CONTENT_TYPE;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Reply, json as reply, organization, organization_of_query};
use crate::address::{Address, Mailbox, reject_line_breaks};
use crate::dkim;
use crate::dns::{self, Resolver, SpfVerdict};
use crate::email::one_or_many::OneOrMany;
use crate::error::{ApiError, Problems};
use crate::id::{self, Prefix};
use crate::inbound::{self, IncomingMessage};
use crate::mime::{Incoming, Outgoing};
use crate::openapi::schema;
use crate::web::Input;
use crate::web::input::object;

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "InboundMessage")]
pub(crate) struct Short {
    organization: Option<String>,
    #[schemars(with = "schema::Mailbox")]
    from: Option<String>,
    #[schemars(required)]
    to: Option<OneOrMany>,
    #[schemars(regex(pattern = r"^[^\r\n]*$"))]
    subject: Option<String>,
    text: Option<String>,
    html: Option<String>,
    /// Where it comes from, for SPF to judge; without it the verdict is `none`.
    #[schemars(with = "Option<schema::IpAddress>")]
    ip: Option<String>,
    /// The name that the peer gives; the sender's domain where there is none.
    #[schemars(regex(pattern = r"^[A-Za-z0-9.:\[\]_-]+$"))]
    helo: Option<String>,
}

/// The connection that the message would have come over.
struct Peer {
    ip: IpAddr,
    helo: Option<String>,
    /// The envelope's sender.
    sender: Option<Address>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "InboundMessages")]
pub(crate) struct Taken {
    messages: Vec<TakenMessage>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "InboundMessageTaken")]
struct TakenMessage {
    id: String,
    recipient: String,
}

pub(super) async fn create(mut input: Input) -> Reply {
    let mut named = organization_of_query(&input);
    let content_type = input.header(CONTENT_TYPE).unwrap_or_default().to_ascii_lowercase();
    let (recipients, source, peer) = if content_type.starts_with("message/rfc822") {
        let source = inbound::with_crlf(&input.bytes().await?);
        let recipients = recipients_of(&input, &source)?;
        let peer = peer_of(&input, &source)?;
        (recipients, source, peer)
    } else {
        let short: Short = object(&input.json_bytes().await?)?;
        named = short.organization.clone().or(named);
        short.compose(input.app.clock.now(), host_of(&input)?)?
    };
    let app = std::sync::Arc::clone(&input.app);
    let organization = input
        .app
        .store
        .read(move |connection| organization(connection, &app.settings, named.as_deref()));
    let dkim = dkim::verify(&input.app.resolver, &source, input.app.clock.now()).await;
    let spf = match &peer {
        Some(peer) => peer.judge(&input.app.resolver).await,
        // There was no connection whose address SPF could judge.
        None => SpfVerdict::None,
    };
    let organization = Some(organization.await?);
    let message = IncomingMessage { organization, recipients, spf, dkim, source };
    let received = inbound::receive(&input.app, message).await?;
    if received.is_empty() {
        let message = "names nobody in a verified domain of this organization";
        return Err(ApiError::field("to", message));
    }
    let messages = received.into_iter();
    let messages = messages.map(|one| TakenMessage { id: one.id, recipient: one.recipient });
    reply(StatusCode::ACCEPTED, &Taken { messages: messages.collect() })
}

/// Of a whole message: `to` in the query, as an envelope would have it, or
/// else what its header says.
fn recipients_of(input: &Input, source: &[u8]) -> Result<Vec<Address>, ApiError> {
    let named = input.query().remove("to");
    let texts = match named {
        // In a query, a `+` that was not encoded arrives as a space.
        Some(text) => text.split(',').map(|one| one.trim().replace(' ', "+")).collect(),
        None => {
            let message = Incoming::parse(source)
                .ok_or_else(|| ApiError::field("", "is not a message: it has no header"))?;
            [message.to, message.cc].concat()
        }
    };
    let parsed = texts.iter().map(|text| Mailbox::parse(text).map(|mailbox| mailbox.address));
    parsed.collect::<Result<_, _>>().map_err(|error| ApiError::field("to", error.to_string()))
}

/// Of a whole message: `ip`, `helo` and `from` in the query, the latter what
/// the header says where it is not given.
fn peer_of(input: &Input, source: &[u8]) -> Result<Option<Peer>, ApiError> {
    let (ip, helo) = host_of(input)?;
    let sender = match input.query().remove("from") {
        Some(text) => Some(text.replace(' ', "+")),
        None => Incoming::parse(source).and_then(|message| message.from),
    };
    let sender = sender.and_then(|text| Mailbox::parse(&text).ok()).map(|from| from.address);
    Ok(ip.map(|ip| Peer { ip, helo, sender }))
}

/// A host's address and name.
type Host = (Option<IpAddr>, Option<String>);

/// The host that the query names.
fn host_of(input: &Input) -> Result<Host, ApiError> {
    let mut query = input.query();
    let mut problems = Problems::default();
    let ip = query.remove("ip").and_then(|text| check_ip(&text, &mut problems));
    let helo = query.remove("helo").filter(|helo| check_helo(helo, &mut problems));
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
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-:[]_".contains(c);
    let is_name = !text.is_empty() && text.chars().all(plain);
    if !is_name {
        problems.add("helo", "must be the name of a host");
    }
    is_name
}

impl Peer {
    async fn judge(&self, resolver: &Resolver) -> SpfVerdict {
        let (local, domain) = match &self.sender {
            Some(sender) => (sender.local(), sender.domain().as_str()),
            None => ("", ""),
        };
        let helo = self.helo.as_deref().unwrap_or(domain);
        dns::evaluate_spf(resolver, self.ip, helo, local, domain).await
    }
}

type Composed = (Vec<Address>, Vec<u8>, Option<Peer>);

impl Short {
    /// `host` is what the query names, in place of what the message does not.
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
        let peer = ip.map(|ip| Peer { ip, helo, sender: Some(from.address.clone()) });
        Ok((to.into_iter().map(|mailbox| mailbox.address).collect(), source, peer))
    }
}
