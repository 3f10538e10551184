//! `POST /_sandbox/inbound`: receives a message as if it had arrived over SMTP.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use http::header::CONTENT_TYPE;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{named_organization, organization, organization_param};
use crate::api::email::one_or_many::OneOrMany;
use crate::api::framework::{Input, Json, JsonBody};
use crate::delivery::authentication::{self, Peer};
use crate::delivery::inbound::{self, IncomingMessage};
use crate::mail::mime::{Incoming, Outgoing};
use crate::model::address::{Address, Mailbox, reject_line_breaks};
use crate::model::error::{ApiError, Problems};
use crate::model::heavy;
use crate::model::id::{self, Prefix};
use crate::model::schema;

/// An email that arrives.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "InboundMessage")]
pub struct InboundMessage {
    #[serde(skip_serializing_if = "Option::is_none")]
    organization: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::Mailbox")]
    from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    to: Option<OneOrMany>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[^\r\n]*$"))]
    subject: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    html: Option<String>,
    /// The IP address of the sending host, for the SPF check. Without it, the SPF result is
    /// `none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::IpAddress>")]
    ip: Option<String>,
    /// The name that the sending host gives in `HELO`. Default: the domain of the sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[A-Za-z0-9.:\[\]_-]+$"))]
    helo: Option<String>,
}

impl InboundMessage {
    /// An email without subject and content. The recipient is in a verified domain.
    pub fn new(from: impl Into<String>, to: impl Into<String>) -> Self {
        let (from, to) = (Some(from.into()), Some(OneOrMany(vec![to.into()])));
        Self { from, to, ..Self::default() }
    }

    /// Adds a recipient.
    #[must_use]
    pub fn to(mut self, to: impl Into<String>) -> Self {
        self.to.get_or_insert_default().0.push(to.into());
        self
    }

    /// Sets the subject.
    #[must_use]
    pub fn subject(mut self, subject: impl Into<String>) -> Self {
        self.subject = Some(subject.into());
        self
    }

    /// Sets the text part.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }

    /// Sets the HTML part.
    #[must_use]
    pub fn html(mut self, html: impl Into<String>) -> Self {
        self.html = Some(html.into());
        self
    }

    /// The address of the sending host, for the SPF check. Without it, the SPF result is
    /// `none`.
    #[must_use]
    pub fn ip(mut self, ip: IpAddr) -> Self {
        self.ip = Some(ip.to_string());
        self
    }

    /// The name that the sending host gives in `HELO`. Default: the domain of the sender.
    #[must_use]
    pub fn helo(mut self, helo: impl Into<String>) -> Self {
        self.helo = Some(helo.into());
        self
    }
}

/// The sending host of the simulated SMTP connection.
struct SendingHost {
    ip: IpAddr,
    helo: Option<String>,
    /// The envelope sender.
    sender: Option<Address>,
}

/// The messages of an email that arrived, one for each local recipient.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "InboundMessages")]
#[non_exhaustive]
pub struct Received {
    /// The messages.
    pub messages: Vec<ReceivedMessage>,
}

/// A message that arrived.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "InboundMessageReceived")]
#[non_exhaustive]
pub struct ReceivedMessage {
    /// The ID, `msg_…`.
    pub id: String,
    /// The address of the recipient.
    pub recipient: String,
}

/// Maximum number of recipients: each gets a message in the same transaction.
const MAX_RECIPIENTS: usize = 1_000;

pub(crate) async fn create(
    mut input: Input,
    body: JsonBody<InboundMessage>,
) -> Result<Json<Received, 202>, ApiError> {
    let mut organization_name = organization_param(&input);
    let content_type = input.header(CONTENT_TYPE).unwrap_or_default().to_ascii_lowercase();
    let query = input.query();
    let prepared = if content_type.starts_with("message/rfc822") {
        let bytes = input.bytes().await?;
        let read = move || {
            let source = inbound::with_crlf(&bytes);
            let recipients = parse_recipients(&query, &source)?;
            let host = parse_peer(&query, &source)?;
            Ok(Prepared::new((recipients, source, host)))
        };
        heavy::run(read).await?
    } else {
        let new = body.read(&mut input).await?;
        organization_name = named_organization(&input, new.organization.clone())?;
        let (now, host) = (input.app.clock.now(), parse_host(&query)?);
        heavy::run(move || new.compose(now, host).map(Prepared::new)).await?
    };
    let Prepared { recipients, source, host } = prepared;
    if recipients.len() > MAX_RECIPIENTS {
        let message =
            format!("has {} recipients, at most {MAX_RECIPIENTS} are allowed", recipients.len());
        return Err(ApiError::field("to", message));
    }
    let app = Arc::clone(&input.app);
    let organization = input
        .app
        .store
        .read(move |reader| organization(reader, &app.settings, organization_name.as_deref()));
    let organization = Some(organization.await?);
    let (store, resolver, now) = (&input.app.store, &input.app.resolver, input.app.clock.now());
    let peer = host.as_ref().map(SendingHost::peer);
    let results = authentication::check(resolver, peer, &source, now).await?;
    let source = Arc::unwrap_or_clone(source);
    let message = IncomingMessage { organization, recipients, results, source };
    let received = inbound::receive(store, &input.app.webhooks, message).await?;
    if received.is_empty() {
        let message = "contains no recipient in a verified domain of this organization";
        return Err(ApiError::field("to", message));
    }
    let messages = received.into_iter();
    let messages = messages.map(|one| ReceivedMessage { id: one.id, recipient: one.recipient });
    Json::of(&Received { messages: messages.collect() })
}

/// The recipients of a complete message: the envelope recipients in the query parameter
/// `to`, or those in the header.
fn parse_recipients(query: &Query, source: &[u8]) -> Result<Vec<Address>, ApiError> {
    let texts = match query.get("to") {
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
fn parse_peer(query: &Query, source: &[u8]) -> Result<Option<SendingHost>, ApiError> {
    let (ip, helo) = parse_host(query)?;
    let sender = match query.get("from") {
        Some(text) => Some(text.replace(' ', "+")),
        None => Incoming::parse(source).and_then(|message| message.from),
    };
    let sender = sender.and_then(|text| Mailbox::parse(&text).ok()).map(|from| from.address);
    Ok(ip.map(|ip| SendingHost { ip, helo, sender }))
}

/// The query parameters.
type Query = HashMap<String, String>;

/// The IP address and the `HELO` name of a host.
type Host = (Option<IpAddr>, Option<String>);

/// Reads the query parameters `ip` and `helo`.
fn parse_host(query: &Query) -> Result<Host, ApiError> {
    let mut problems = Problems::default();
    let ip = query.get("ip").and_then(|text| check_ip(text, &mut problems));
    let helo = query.get("helo").filter(|helo| check_helo(helo, &mut problems)).cloned();
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
