//! [`Search`]: what selects messages.

use crate::app::Shared;
use crate::control::messages::MessageSummary;
use crate::control::query::{AddressParameter, Position};
use crate::model::error::ApiError;
use crate::model::terms::Terms;
use crate::store::Reader;
use crate::store::messages::{self, Range, Wanted};

#[derive(Clone, Default)]
pub(super) struct Search {
    /// The complete address of the recipient; case-insensitive.
    pub(super) to: Option<String>,
    pub(super) wanted: Wanted,
    pub(super) after: Option<Position>,
    /// Selects messages older than this one.
    pub(super) cursor: Option<String>,
    /// Selects messages newer than this one.
    pub(super) since: Option<String>,
}

/// What a search has found.
pub(super) struct Found {
    /// The newest message of the organization when the search began.
    pub(super) newest: Option<String>,
    pub(super) messages: Vec<MessageSummary>,
}

impl Search {
    pub(super) fn new(
        to: Option<AddressParameter>,
        from: Option<AddressParameter>,
        subject: Option<String>,
        search: Option<&str>,
        after: Option<Position>,
    ) -> Self {
        let (from, subject) = (from.map(|from| from.0), subject.map(|text| text.to_lowercase()));
        let wanted = Wanted { from, subject, terms: search.map(Terms::new), elsewhere: false };
        Self { to: to.map(|to| to.0), wanted, after, cursor: None, since: None }
    }

    /// Whether a message for this recipient can be one that is searched for.
    pub(super) fn may_match(&self, recipient: &str) -> bool {
        self.to.as_deref().is_none_or(|to| to.eq_ignore_ascii_case(recipient))
    }

    /// Returns the newest `count` matching messages, newest first, and the newest message of the
    /// organization before the search.
    pub(super) async fn run(
        &self,
        app: &Shared,
        organization: i64,
        count: usize,
    ) -> Result<Found, ApiError> {
        let newest = app.store.read(move |reader| messages::newest(reader, organization)).await?;
        let search = self.clone();
        let find = move |reader: Reader<'_>| search.find(reader, organization, count);
        let messages = app.store.read(find).await?;
        Ok(Found { newest, messages })
    }

    pub(super) fn find(
        &self,
        reader: Reader<'_>,
        organization: i64,
        count: usize,
    ) -> Result<Vec<MessageSummary>, ApiError> {
        let after = self.after.as_ref().and_then(|after| after.id("msg_"));
        // `None` is before all.
        let after = after.as_deref().max(self.since.as_deref()).unwrap_or_default();
        let before = self.cursor.as_deref().unwrap_or(messages::PAST_EVERY_ID);
        let range = Range { after, before };
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
