//! `POST /_sandbox/inbound`: a message comes in, as if over SMTP.

use http::StatusCode;
use http::header::CONTENT_TYPE;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Reply, json as reply, organization, organization_of_query};
use crate::address::{Address, Mailbox, no_line_break};
use crate::dkim;
use crate::dns::SpfVerdict;
use crate::email::one_or_many::OneOrMany;
use crate::error::{ApiError, Problems};
use crate::id::{self, Prefix};
use crate::inbound::{self, Arrival};
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
    let (recipients, source) = if content_type.starts_with("message/rfc822") {
        let source = inbound::with_crlf(&input.bytes().await?);
        (recipients_of(&input, &source)?, source)
    } else {
        let short: Short = object(&input.json_bytes().await?)?;
        named = short.organization.clone().or(named);
        short.compose(input.app.clock.now())?
    };
    let app = std::sync::Arc::clone(&input.app);
    let organization = input
        .app
        .store
        .read(move |connection| organization(connection, &app.settings, named.as_deref()));
    let dkim = dkim::verify(&input.app.resolver, &source, input.app.clock.now()).await;
    // There was no connection whose address SPF could judge.
    let arrival = Arrival {
        organization: Some(organization.await?),
        recipients,
        spf: SpfVerdict::None,
        dkim,
        source,
    };
    let received = inbound::receive(&input.app, arrival).await?;
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

impl Short {
    fn compose(self, now: i64) -> Result<(Vec<Address>, Vec<u8>), ApiError> {
        let mut problems = Problems::default();
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
        if let Err(error) = no_line_break(&subject) {
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
        Ok((to.into_iter().map(|mailbox| mailbox.address).collect(), source))
    }
}
