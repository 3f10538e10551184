//! How the server reads the text of query parameters.

use std::time::Duration;

use crate::control::endpoint::Page;
use crate::model::{Address, Failure, Mailbox, Millis, Result, time};

/// The UUID of an ID.
pub(crate) fn uuid(id: &str) -> Option<&str> {
    let uuid = id.split_once('_').map_or(id, |(_, uuid)| uuid);
    let is_uuid = uuid
        .bytes()
        .all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    Some(uuid).filter(|_| is_uuid && uuid.len() == 36)
}

/// A time, or the UUID of a resource, which says when the resource was created.
#[derive(Clone)]
pub(crate) enum Position {
    Time(Millis),
    Uuid(String),
}

impl Position {
    pub(crate) fn read(field: &str, text: Option<&str>) -> Result<Option<Self>> {
        let Some(text) = text else { return Ok(None) };
        // A `+` in a query that is not percent-encoded decodes to a space.
        let time = time::parse(text).or_else(|| time::parse(&text.replace(' ', "+")));
        let uuid = || uuid(text).map(|uuid| Self::Uuid(uuid.to_owned()));
        let position = time.map(Self::Time).or_else(uuid);
        let invalid = || Failure::field(field, "must be an ISO 8601 date-time or an ID");
        position.ok_or_else(invalid).map(Some)
    }

    pub(crate) fn time(self) -> Option<Millis> {
        match self {
            Self::Time(time) => Some(time),
            Self::Uuid(_) => None,
        }
    }

    /// The ID with this prefix, if it is not a time.
    pub(crate) fn id(&self, prefix: &str) -> Option<String> {
        match self {
            Self::Time(_) => None,
            Self::Uuid(uuid) => Some(format!("{prefix}{uuid}")),
        }
    }
}

/// The bare address of a mailbox.
pub(crate) fn address(field: &str, text: Option<&str>) -> Result<Option<String>> {
    let Some(text) = text else { return Ok(None) };
    // A space in it was a `+` that was not percent-encoded.
    let texts = [text, &text.replace(' ', "+")];
    let mailbox = texts.iter().find_map(|text| Mailbox::parse(text).ok());
    let address = match mailbox {
        Some(mailbox) => Some(mailbox.address),
        None => texts.iter().find_map(|text| Address::of_envelope(text)),
    };
    match address {
        Some(address) => Ok(Some(address.as_str().to_owned())),
        None => Err(Failure::field(
            field,
            "must be an address such as ada@example.test",
        )),
    }
}

/// How long to wait, in real time.
pub(crate) fn timeout(text: Option<&str>, [default, max]: [Duration; 2]) -> Result<Duration> {
    let Some(text) = text else { return Ok(default) };
    let wait = time::parse_duration(text).and_then(|ms| u64::try_from(ms).ok());
    let wait = wait.map(Duration::from_millis).filter(|wait| *wait <= max);
    let message = || {
        format!(
            "must be a duration of at most {} seconds, such as 20s",
            max.as_secs()
        )
    };

    wait.ok_or_else(|| Failure::field("timeout", message()))
}

impl<T> Page<T> {
    /// A page of `limit` items. `found` has one more if there are more pages.
    pub(crate) fn of(mut found: Vec<T>, limit: usize, id: impl Fn(&T) -> String) -> Self {
        let more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| more).map(id);
        Self { data: found, next }
    }
}
