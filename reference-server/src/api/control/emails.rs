//! `/_sandbox/emails`: the emails in every status, and what happened to each.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::deliveries::{self, Delivery};
use super::query::{Position, Query, parse_address};
use super::requests::{self, LoggedRequest};
use super::{Page, organization, organization_param};
use crate::api::framework::{Input, Json};
use crate::model::error::ApiError;
use crate::model::status::{RecipientState, Status};
use crate::model::timestamp::Timestamp;
use crate::store::Reader;
use crate::store::emails::{self, EmailSummary, Range, Stored};
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
    let filter = Filter {
        address: query.address("address"),
        subject: query.text("subject").map(|part| part.to_lowercase()),
        tag: query.text("tag"),
        after: query.position("after", "eml_", "an email"),
        before: query.position("before", "eml_", "an email"),
    };
    let (limit, cursor) = (query.limit(), query.cursor("eml_"));
    query.check()?;
    let (name, app) = (organization_param(&input), Arc::clone(&input.app));
    let resolve = move |reader: Reader<'_>| organization(reader, &app.settings, name.as_deref());
    let organization = input.app.store.read(resolve).await?;
    let may_scan = filter.may_scan() || emails::may_scan(status);
    let find = move |reader: Reader<'_>| {
        let mut found = Vec::new();
        let mut range = Range { after: "", before: emails::PAST_EVERY_ID };
        if let Some(Position::Id(id)) = &filter.after {
            range.after = id;
        }
        for id in [filter.before_id(), cursor.as_deref()].into_iter().flatten() {
            range.before = range.before.min(id);
        }
        emails::each(reader, organization, &range, status, |email| {
            // The server's clock never goes backwards, so all further emails are older.
            if matches!(filter.after, Some(Position::Time(after)) if email.created_at <= after.into())
            {
                return Ok(false);
            }
            if filter.matches(&email) {
                found.push(email);
            }
            Ok(found.len() <= limit)
        })?;
        Ok(Page::of(found, limit, |last| last.id.clone()))
    };
    let page = if may_scan {
        let _slot = input.app.searches.acquire(organization).await;
        input.app.store.search(find).await?
    } else {
        input.app.store.read(find).await?
    };
    Json::of(&page)
}

/// What selects emails besides their status.
struct Filter {
    /// A complete address; case-insensitive.
    address: Option<String>,
    /// A part of the subject, in lower case.
    subject: Option<String>,
    /// `name` or `name=value`.
    tag: Option<String>,
    after: Option<Position>,
    before: Option<Position>,
}

impl Filter {
    /// Whether many emails may not match.
    fn may_scan(&self) -> bool {
        let texts = [&self.address, &self.subject, &self.tag];
        texts.into_iter().any(Option::is_some) || matches!(self.before, Some(Position::Time(_)))
    }

    fn before_id(&self) -> Option<&str> {
        match &self.before {
            Some(Position::Id(id)) => Some(id),
            _ => None,
        }
    }

    fn matches(&self, email: &EmailSummary) -> bool {
        let is_before = !matches!(self.before, Some(Position::Time(before)) if email.created_at >= before.into());
        let addresses = || [&email.to, &email.cc, &email.bcc].into_iter().flatten();
        let has_address = |wanted: &String| {
            addresses().chain([&email.from]).any(|mailbox| {
                parse_address(mailbox).is_some_and(|address| address.eq_ignore_ascii_case(wanted))
            })
        };
        let has_tag = |wanted: &String| match wanted.split_once('=') {
            Some((name, value)) => email.tags.get(name).is_some_and(|tag| match tag.as_str() {
                Some(text) => text == value,
                None => serde_json::to_string(tag).is_ok_and(|text| text == value),
            }),
            None => email.tags.contains_key(wanted),
        };
        is_before
            && self.subject.as_ref().is_none_or(|part| email.subject.to_lowercase().contains(part))
            && self.tag.as_ref().is_none_or(has_tag)
            && self.address.as_ref().is_none_or(has_address)
    }
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
        let delivered = email.recipients.iter().filter(|recipient| {
            matches!(recipient.status, Status::Delivered | Status::Complained | Status::Bounced)
        });
        let addresses = delivered.map(|recipient| recipient.address.as_str());
        let messages = messages::of_email(reader, organization, &id, addresses)?;
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
