//! The query parameters that select messages: `to`, `from`, `subject`, `after`, `limit`,
//! `cursor`.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::view::Direction;
use crate::api::app::Shared;
use crate::api::control::{organization, organization_param};
use crate::api::framework::Input;
use crate::model::address::Mailbox;
use crate::model::error::{ApiError, Problems};
use crate::model::time::{self, Millis};
use crate::model::timestamp::Timestamp;
use crate::store::Reader;
use crate::store::messages::{self, Range};

const DEFAULT_LIMIT: usize = 20;
const MAX_LIMIT: usize = 100;

#[derive(Clone, Default)]
pub(super) struct Search {
    organization: Option<String>,
    /// The complete address of the recipient; case-insensitive.
    to: Option<String>,
    /// The complete address of the sender; case-insensitive.
    from: Option<String>,
    /// A part of the subject, in lower case.
    subject: Option<String>,
    after: Option<After>,
    pub(super) limit: usize,
    /// Selects messages older than this one.
    cursor: Option<String>,
    /// Selects messages newer than this one.
    pub(super) since: Option<String>,
}

#[derive(Clone)]
enum After {
    Time(Millis),
    Message(String),
}

/// What a search has found.
pub(super) struct Found {
    pub(super) organization: i64,
    /// The newest message of the organization when the search began.
    pub(super) newest: Option<String>,
    pub(super) messages: Vec<MessageSummary>,
}

/// A message in a list.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct MessageSummary {
    /// The ID, `msg_…`.
    pub id: String,
    /// Where it comes from.
    pub direction: Direction,
    /// The ID of its email; only for an outgoing message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email_id: Option<String>,
    /// The sender.
    pub from: String,
    /// The address that it was delivered to.
    pub recipient: String,
    /// The subject; empty if there is none.
    pub subject: String,
    /// When it arrived.
    pub created_at: Timestamp,
}

impl Search {
    /// Whether a message for this recipient can be one that is searched for.
    pub(super) fn may_match(&self, recipient: &str) -> bool {
        self.to.as_deref().is_none_or(|to| to.eq_ignore_ascii_case(recipient))
    }

    pub(super) fn from_query(input: &Input) -> Result<Self, ApiError> {
        let mut query = input.query();
        let mut problems = Problems::default();
        let mut address = |name: &str| {
            let text = query.remove(name)?;
            match parse_address(&text) {
                Some(address) => Some(address),
                None => {
                    problems.add(name, "must be an address such as ada@example.test");
                    None
                }
            }
        };
        let (to, from) = (address("to"), address("from"));
        let after = query.remove("after").and_then(|text| {
            // A `+` in a query that is not percent-encoded decodes to a space.
            let time = time::parse(&text).or_else(|| time::parse(&text.replace(' ', "+")));
            let after = match time {
                Some(time) => Some(After::Time(time)),
                None => text.starts_with("msg_").then_some(After::Message(text)),
            };
            if after.is_none() {
                problems.add("after", "must be an ISO 8601 date-time or a message ID");
            }
            after
        });
        let limit = match query.remove("limit") {
            None => DEFAULT_LIMIT,
            Some(text) => match text.parse() {
                Ok(limit @ 1..=MAX_LIMIT) => limit,
                _ => {
                    problems.add("limit", format!("must be an integer from 1 to {MAX_LIMIT}"));
                    DEFAULT_LIMIT
                }
            },
        };
        let cursor = query.remove("cursor");
        if cursor.as_deref().is_some_and(|cursor| !cursor.starts_with("msg_")) {
            problems.add("cursor", "must be the `next` value of the previous page");
        }
        problems.check()?;
        Ok(Self {
            organization: organization_param(input),
            to,
            from,
            subject: query.remove("subject").map(|text| text.to_lowercase()),
            after,
            limit,
            cursor,
            since: None,
        })
    }

    /// Returns the organization, its newest message before the search, and the newest `count`
    /// matching messages, newest first.
    pub(super) async fn run(&self, app: &Shared, count: usize) -> Result<Found, ApiError> {
        let (context, search) = (Arc::clone(app), self.clone());
        let newest = app.store.read(move |reader| {
            let name = search.organization.as_deref();
            let organization = organization(reader, &context.settings, name)?;
            Ok((organization, messages::newest(reader, organization)?))
        });
        let (organization, newest) = newest.await?;
        let search = self.clone();
        let find = move |reader: Reader<'_>| search.find(reader, organization, count);
        // No index has the sender or the subject.
        let messages = if self.from.is_some() || self.subject.is_some() {
            let _slot = app.searches.acquire(organization).await;
            app.store.search(find).await?
        } else {
            app.store.read(find).await?
        };
        Ok(Found { organization, newest, messages })
    }

    pub(super) fn find(
        &self,
        reader: Reader<'_>,
        organization: i64,
        count: usize,
    ) -> Result<Vec<MessageSummary>, ApiError> {
        let oldest = match &self.after {
            Some(After::Message(id)) => id.as_str(),
            _ => "",
        };
        let oldest = oldest.max(self.since.as_deref().unwrap_or_default());
        let before = self.cursor.as_deref().unwrap_or(messages::PAST_EVERY_ID);
        let range = Range { after: oldest, before };
        let mut found = Vec::new();
        messages::each(reader, organization, &range, self.to.as_deref(), |head| {
            let messages::Head { message, meta, sender, subject } = head;
            // The server's clock never goes backwards, so all further messages are older.
            let created_at = message.created_at;
            if matches!(self.after, Some(After::Time(after)) if created_at <= after) {
                return Ok(false);
            }
            let (from, subject) = match meta {
                Some(meta) => {
                    let head: Head = serde_json::from_str(&meta).map_err(ApiError::internal)?;
                    (head.from, head.subject)
                }
                None => (sender.unwrap_or_default(), subject.unwrap_or_default()),
            };
            if self.matches(&from, &subject) {
                found.push(MessageSummary {
                    id: message.id,
                    direction: Direction::of(message.email.as_ref()),
                    email_id: message.email,
                    from: shortened(from),
                    recipient: message.recipient,
                    subject: shortened(subject),
                    created_at: created_at.into(),
                });
            }
            Ok(found.len() < count)
        })?;
        Ok(found)
    }

    fn matches(&self, from: &str, subject: &str) -> bool {
        let sender = |wanted: &String| {
            let address = parse_address(from).unwrap_or_else(|| from.to_owned());
            address.eq_ignore_ascii_case(wanted)
        };
        self.from.as_ref().is_none_or(sender)
            && self.subject.as_ref().is_none_or(|part| subject.to_lowercase().contains(part))
    }
}

/// The first characters of a header. That of a received message may be large.
fn shortened(mut text: String) -> String {
    const MAX: usize = 1_000;
    if let Some((end, _)) = text.char_indices().nth(MAX) {
        text.truncate(end);
    }
    text
}

/// The part of an email's `meta` that a list shows.
#[derive(Deserialize)]
struct Head {
    from: String,
    subject: String,
}

/// The bare address of a mailbox. A space in it was a `+` that was not percent-encoded in
/// the query.
fn parse_address(text: &str) -> Option<String> {
    let mailbox = Mailbox::parse(text).or_else(|_| Mailbox::parse(&text.replace(' ', "+")));
    mailbox.ok().map(|mailbox| mailbox.address.as_str().to_owned())
}
