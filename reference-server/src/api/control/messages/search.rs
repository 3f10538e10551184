//! The query parameters that select messages: `to`, `from`, `subject`, `after`, `limit`,
//! `cursor`.

use std::sync::Arc;

use crate::api::app::Shared;
use crate::api::control::query::{Position, Query};
use crate::api::control::{organization, organization_param};
use crate::api::framework::Input;
use crate::model::error::ApiError;
use crate::store::Reader;
use crate::store::messages::{self, MessageSummary, Range, Wanted};

#[derive(Clone, Default)]
pub(super) struct Search {
    organization: Option<String>,
    /// The complete address of the recipient; case-insensitive.
    to: Option<String>,
    wanted: Wanted,
    after: Option<Position>,
    pub(super) limit: usize,
    /// Selects messages older than this one.
    cursor: Option<String>,
    /// Selects messages newer than this one.
    pub(super) since: Option<String>,
}

/// What a search has found.
pub(super) struct Found {
    pub(super) organization: i64,
    /// The newest message of the organization when the search began.
    pub(super) newest: Option<String>,
    pub(super) messages: Vec<MessageSummary>,
}

impl Search {
    /// Whether a message for this recipient can be one that is searched for.
    pub(super) fn may_match(&self, recipient: &str) -> bool {
        self.to.as_deref().is_none_or(|to| to.eq_ignore_ascii_case(recipient))
    }

    pub(super) fn from_query(input: &Input) -> Result<Self, ApiError> {
        let mut query = Query::of(input);
        let search = Self {
            organization: organization_param(input),
            to: query.address("to"),
            wanted: Wanted {
                from: query.address("from"),
                subject: query.text("subject").map(|text| text.to_lowercase()),
            },
            after: query.position("after", "msg_", "a message"),
            limit: query.limit(),
            cursor: query.cursor("msg_"),
            since: None,
        };
        query.check()?;
        Ok(search)
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
        let messages = app.store.read(find).await?;
        Ok(Found { organization, newest, messages })
    }

    pub(super) fn find(
        &self,
        reader: Reader<'_>,
        organization: i64,
        count: usize,
    ) -> Result<Vec<MessageSummary>, ApiError> {
        let oldest = match &self.after {
            Some(Position::Id(id)) => id.as_str(),
            _ => "",
        };
        let oldest = oldest.max(self.since.as_deref().unwrap_or_default());
        let before = self.cursor.as_deref().unwrap_or(messages::PAST_EVERY_ID);
        let range = Range { after: oldest, before };
        let mut found = Vec::new();
        let take = |message: MessageSummary| {
            // The server's clock never goes backwards, so all further messages are older.
            if matches!(self.after, Some(Position::Time(after)) if message.created_at <= after.into())
            {
                return false;
            }
            found.push(message.shortened());
            found.len() < count
        };
        let (to, wanted) = (self.to.as_deref(), &self.wanted);
        messages::each(reader, organization, &range, to, wanted, take)?;
        Ok(found)
    }
}
