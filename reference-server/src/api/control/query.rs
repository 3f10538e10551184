//! [`Query`]: the query parameters of a list.

use std::collections::HashMap;

use crate::api::framework::Input;
use crate::model::address::Mailbox;
use crate::model::error::{ApiError, Problems};
use crate::model::time::{self, Millis};

const DEFAULT_LIMIT: usize = 20;
const MAX_LIMIT: usize = 100;

/// The parameters that have not been read yet, and what is wrong with those that have.
pub(super) struct Query {
    parameters: HashMap<String, String>,
    problems: Problems,
}

/// A time, or the ID of an item.
#[derive(Clone)]
pub(super) enum Position {
    Time(Millis),
    Id(String),
}

impl Query {
    pub(super) fn of(input: &Input) -> Self {
        Self { parameters: input.query(), problems: Problems::default() }
    }

    pub(super) fn text(&mut self, name: &str) -> Option<String> {
        self.parameters.remove(name)
    }

    /// A complete address.
    pub(super) fn address(&mut self, name: &str) -> Option<String> {
        let text = self.text(name)?;
        self.parsed(name, parse_address(&text), || "must be an address such as ada@example.test")
    }

    /// A time, or an ID with this prefix.
    pub(super) fn position(&mut self, name: &str, prefix: &str, item: &str) -> Option<Position> {
        let text = self.text(name)?;
        // A `+` in a query that is not percent-encoded decodes to a space.
        let time = time::parse(&text).or_else(|| time::parse(&text.replace(' ', "+")));
        let position = match time {
            Some(time) => Some(Position::Time(time)),
            None => text.starts_with(prefix).then_some(Position::Id(text)),
        };
        self.parsed(name, position, || format!("must be an ISO 8601 date-time or {item} ID"))
    }

    /// A value of a fixed set, which `expected` describes.
    pub(super) fn choice<T>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&str) -> Option<T>,
        expected: impl FnOnce() -> String,
    ) -> Option<T> {
        let text = self.text(name)?;
        self.parsed(name, parse(&text), || format!("must be {}", expected()))
    }

    /// The `limit`.
    pub(super) fn limit(&mut self) -> usize {
        let Some(text) = self.text("limit") else { return DEFAULT_LIMIT };
        let limit = text.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
        let limit =
            self.parsed("limit", limit, || format!("must be an integer from 1 to {MAX_LIMIT}"));
        limit.unwrap_or(DEFAULT_LIMIT)
    }

    /// The `cursor`, which is an ID with this prefix.
    pub(super) fn cursor(&mut self, prefix: &str) -> Option<String> {
        let text = self.text("cursor")?;
        let cursor = text.starts_with(prefix).then_some(text);
        self.parsed("cursor", cursor, || "must be the `next` value of the previous page")
    }

    /// Returns 422 if a parameter is invalid.
    pub(super) fn check(self) -> Result<(), ApiError> {
        self.problems.check()
    }

    fn parsed<T, M: Into<String>>(
        &mut self,
        name: &str,
        value: Option<T>,
        problem: impl FnOnce() -> M,
    ) -> Option<T> {
        if value.is_none() {
            self.problems.add(name, problem().into());
        }
        value
    }
}

/// The bare address of a mailbox. A space in it was a `+` that was not percent-encoded in
/// the query.
fn parse_address(text: &str) -> Option<String> {
    let mailbox = Mailbox::parse(text).or_else(|_| Mailbox::parse(&text.replace(' ', "+")));
    mailbox.ok().map(|mailbox| mailbox.address.as_str().to_owned())
}
