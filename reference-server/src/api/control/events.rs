//! `POST /_sandbox/emails/{id}/events`: simulates an event of an email, such as a bounce,
//! and delivers it to webhooks.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{named_organization, organization};
use crate::api::framework::{Input, Json, JsonBody};
use crate::delivery::events;
use crate::model::error::{ApiError, Code};
use crate::model::schema;
use crate::model::status::{self, Change};
use crate::store::emails;

/// An event of an email to simulate.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "EmailEvent")]
pub struct EmailEvent {
    #[serde(skip_serializing_if = "Option::is_none")]
    organization: Option<String>,
    /// `delivered`, `bounced`, `complained`, `failed`, `opened` or `clicked`.
    #[schemars(with = "schema::EmailChange")]
    event: String,
    /// The address of the affected recipient. Default: all recipients whose status allows
    /// the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    recipient: Option<String>,
    /// `{type, reason}` for a bounce, `{url}` for a click, `{reason}` for other events. A
    /// string is short for the reason or the URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<Value>,
}

impl EmailEvent {
    /// `delivered`, `bounced`, `complained`, `failed`, `opened` or `clicked`, for all
    /// recipients whose status allows it.
    pub fn new(event: impl Into<String>) -> Self {
        Self { event: event.into(), ..Self::default() }
    }

    /// Limits the event to one recipient.
    #[must_use]
    pub fn recipient(mut self, address: impl Into<String>) -> Self {
        self.recipient = Some(address.into());
        self
    }

    /// The details: `{type, reason}` for a bounce, `{url}` for a click, `{reason}` for
    /// other events. A string is short for the reason or the URL.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<Value>) -> Self {
        self.detail = Some(detail.into());
        self
    }
}

/// Maximum size of `detail` as JSON, in bytes: it is stored for every affected recipient.
const MAX_DETAIL: usize = 16 * 1024;

pub(crate) async fn create(
    mut input: Input,
    body: JsonBody<EmailEvent>,
) -> Result<Json<emails::View<'static>>, ApiError> {
    let id = input.id().to_owned();
    let event = body.read(&mut input).await?;
    let Some(change) = Change::parse(&event.event) else {
        let names: Vec<&str> = Change::ALL.iter().map(|(name, _)| *name).collect();
        return Err(ApiError::field("event", format!("must be one of {}", names.join(", "))));
    };
    let kind = event.detail.as_ref().and_then(|detail| detail.get("type"));
    if change == Change::Bounced && kind.is_some_and(|kind| kind != "hard" && kind != "soft") {
        return Err(ApiError::field("detail.type", "must be hard or soft"));
    }
    let size = event.detail.as_ref().map_or(0, |detail| detail.to_string().len());
    if size > MAX_DETAIL {
        let message = format!("has {size} bytes as JSON, at most {MAX_DETAIL} are allowed");
        return Err(ApiError::field("detail", message));
    }
    let name = named_organization(&input, event.organization)?;
    let app = Arc::clone(&input.app);
    let email = input.app.store.write(move |tx| {
        let organization = organization(tx.reader(), &app.settings, name.as_deref())?;
        let mut email = emails::find(tx.reader(), &id)?
            .filter(|email| email.organization == organization)
            .ok_or_else(|| ApiError::not_found("email"))?;
        let affected: Vec<usize> = email
            .recipients
            .iter()
            .enumerate()
            .filter(|(_, state)| match &event.recipient {
                Some(address) => state.address.eq_ignore_ascii_case(address),
                None => change.steps(state.status).is_some(),
            })
            .map(|(position, _)| position)
            .collect();
        if affected.is_empty() {
            if event.recipient.is_some() {
                return Err(ApiError::field("recipient", "is not a recipient of this email"));
            }
            let message = format!(
                "the event {} is not possible for an email with the status {}",
                event.event,
                email.status.as_str()
            );
            return Err(ApiError::new(Code::Conflict, message));
        }
        for position in affected {
            events::change(tx, &app.delivery, &mut email, position, change, event.detail.as_ref())?;
        }
        email.status = status::overall(&email.recipients);
        emails::update(tx, &email)?;
        Ok(email)
    });
    Json::of(&email.await?.view())
}
