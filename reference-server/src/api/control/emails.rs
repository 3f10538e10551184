//! `/_sandbox/emails`: the emails in every status, and what happened to each.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::deliveries::{self, Delivery};
use super::query::{Position, Query};
use super::requests::{self, LoggedRequest};
use super::{Page, organization, organization_param};
use crate::api::framework::{Input, Json};
use crate::model::error::ApiError;
use crate::model::status::{RecipientState, Status};
use crate::model::timestamp::Timestamp;
use crate::store::Reader;
use crate::store::emails::{self, EmailSummary, Range, Stored, Wanted};
use crate::store::messages::{self, MessageSummary};

/// What happened to an email.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct EmailStory {
    /// The email.
    pub email: EmailSummary,
    /// The status of each recipient.
    pub recipients: Vec<RecipientState>,
    /// The request that sent it; null if the server does not have it any more.
    pub request: Option<LoggedRequest>,
    /// Its changes, oldest first, at most 500 after the first one.
    pub timeline: Vec<EmailChange>,
    /// The messages in local mailboxes.
    pub messages: Vec<MessageSummary>,
    /// The webhook deliveries of its events with their attempts, oldest first, at most 100.
    pub deliveries: Vec<Delivery>,
}

/// A change of an email.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct EmailChange {
    /// When it happened.
    pub at: Timestamp,
    /// The status of the recipient after it.
    pub status: Status,
    /// The event, such as `email.delivered`.
    pub event: Option<String>,
    /// The address of the recipient; null if it concerns all of them.
    pub recipient: Option<String>,
}

/// Lists one page of the matching emails, newest first.
pub(crate) async fn list(input: Input) -> Result<Json<Page<EmailSummary>>, ApiError> {
    let mut query = Query::of(&input);
    let names = || format!("one of {}", Status::ALL.map(Status::as_str).join(", "));
    let status = query.choice("status", Status::parse, names);
    let wanted = Wanted {
        address: query.address("address"),
        subject: query.text("subject").map(|part| part.to_lowercase()),
        tag: query.text("tag"),
    };
    let after = query.position("after", "eml_", "an email");
    let before = query.position("before", "eml_", "an email");
    let (limit, cursor) = (query.limit(), query.cursor("eml_"));
    query.check()?;
    let (name, app) = (organization_param(&input), Arc::clone(&input.app));
    let resolve = move |reader: Reader<'_>| organization(reader, &app.settings, name.as_deref());
    let organization = input.app.store.read(resolve).await?;
    let find = move |reader: Reader<'_>| {
        let mut found = Vec::new();
        let mut range = Range { after: "", before: emails::PAST_EVERY_ID, newer_than: None };
        match &after {
            Some(Position::Id(id)) => range.after = id,
            Some(Position::Time(time)) => range.newer_than = Some(*time),
            None => {}
        }
        if let Some(Position::Id(id)) = &before {
            range.before = id;
        }
        if let Some(cursor) = &cursor {
            range.before = range.before.min(cursor);
        }
        let take = |email: EmailSummary| {
            if !matches!(before, Some(Position::Time(before)) if email.created_at >= before.into())
            {
                found.push(email);
            }
            found.len() <= limit
        };
        emails::each(reader, organization, &range, status, &wanted, take)?;
        Ok(Page::of(found, limit, |last| last.id.clone()))
    };
    Json::of(&input.app.store.read(find).await?)
}

/// Maximum number of deliveries in a story.
const MAX_DELIVERIES: i64 = 100;

/// Returns what happened to an email.
pub(crate) async fn story(input: Input) -> Result<Json<EmailStory>, ApiError> {
    let (name, app) = (organization_param(&input), Arc::clone(&input.app));
    let id = input.id().to_owned();
    let story = input.app.store.read(move |reader| {
        let organization = organization(reader, &app.settings, name.as_deref())?;
        let email = emails::find(reader, &id)?
            .filter(|email| email.organization == organization)
            .ok_or_else(|| ApiError::not_found("email"))?;
        let messages = messages::of_email(reader, &id)?;
        let found = deliveries::of_email(reader, &id, MAX_DELIVERIES)?;
        Ok(EmailStory {
            request: requests::of_email(&app.requests, organization, &email),
            timeline: timeline(&email),
            messages,
            deliveries: found,
            email: EmailSummary::from(&email),
            recipients: email.recipients,
        })
    });
    Json::of(&story.await?)
}

fn timeline(email: &Stored) -> Vec<EmailChange> {
    let accepted = EmailChange {
        at: email.created_at.into(),
        status: Status::Queued,
        event: None,
        recipient: None,
    };
    let address =
        |position: usize| email.recipients.get(position).map(|state| state.address.clone());
    let changes = email.history.iter().map(|step| EmailChange {
        at: step.at.into(),
        status: step.status,
        event: step.event.clone(),
        recipient: step.recipient.and_then(address),
    });
    [accepted].into_iter().chain(changes).collect()
}
