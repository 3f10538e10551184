//! `POST /_sandbox/emails/{id}/events`: makes something happen to an email,
//! webhooks included.

use std::sync::Arc;

use http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Reply, json as reply, organization, organization_of_query};
use crate::email::stored;
use crate::engine::{Change, apply_event};
use crate::error::{ApiError, Code};
use crate::openapi::schema;
use crate::web::Input;

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "EmailEvent")]
pub(crate) struct Event {
    organization: Option<String>,
    #[schemars(with = "schema::EmailChange")]
    event: String,
    /// To this recipient; without it to every one that it can happen to.
    recipient: Option<String>,
    /// Of a bounce `{type, reason}`, of a click `{url}`, else `{reason}`; a text
    /// stands for the reason or the URL.
    detail: Option<Value>,
}

pub(super) async fn create(mut input: Input) -> Reply {
    let id = input.id().to_owned();
    let event: Event = input.object().await?;
    let Some(change) = Change::parse(&event.event) else {
        let names: Vec<&str> = Change::ALL.iter().map(|(name, _)| *name).collect();
        return Err(ApiError::field("event", format!("must be one of {}", names.join(", "))));
    };
    let kind = event.detail.as_ref().and_then(|detail| detail.get("type"));
    if change == Change::Bounced && kind.is_some_and(|kind| kind != "hard" && kind != "soft") {
        return Err(ApiError::field("detail.type", "must be hard or soft"));
    }
    let named = event.organization.or_else(|| organization_of_query(&input));
    let app = Arc::clone(&input.app);
    let email = input.app.store.write(move |tx| {
        let organization = organization(tx.connection(), &app.settings, named.as_deref())?;
        let mut email = stored::find(tx.connection(), &id)?
            .filter(|email| email.organization == organization)
            .ok_or_else(|| ApiError::not_found("email"))?;
        let meant: Vec<usize> = email
            .recipients
            .iter()
            .enumerate()
            .filter(|(_, state)| match &event.recipient {
                Some(address) => state.address.eq_ignore_ascii_case(address),
                None => change.steps(state.status).is_some(),
            })
            .map(|(position, _)| position)
            .collect();
        if meant.is_empty() {
            if event.recipient.is_some() {
                return Err(ApiError::field("recipient", "is no recipient of this email"));
            }
            let message = format!("an email that is {} cannot become this", email.status.as_str());
            return Err(ApiError::new(Code::Conflict, message));
        }
        for position in meant {
            apply_event(tx, &app, &mut email, position, change, event.detail.as_ref())?;
        }
        stored::update(tx, &email)?;
        Ok(email)
    });
    reply(StatusCode::OK, &email.await?.view())
}
