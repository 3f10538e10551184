//! The types of query parameters. Each one is read from its text, and describes it.

use std::borrow::Cow;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::model::address::Mailbox;
use crate::model::schema;
use crate::model::time::{self, Millis};

/// The query of a request without parameters, besides `organization`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoQuery {}

/// The query of a list.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(bound = "C: JsonSchema")]
pub(crate) struct PageQuery<C = Id> {
    /// Maximum number of results.
    #[serde(default)]
    pub(crate) limit: Limit,
    /// The `next` value of the previous page.
    pub(crate) cursor: Option<C>,
}

/// Maximum number of results.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Limit(pub(crate) usize);

const MAX_LIMIT: usize = 100;

impl Default for Limit {
    fn default() -> Self {
        Self(20)
    }
}

impl TryFrom<String> for Limit {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let limit = text.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
        limit.map(Self).ok_or_else(|| format!("must be an integer from 1 to {MAX_LIMIT}"))
    }
}

impl JsonSchema for Limit {
    fn schema_name() -> Cow<'static, str> {
        "Limit".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let default = Self::default().0;
        json_schema!({"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": default})
    }
}

/// The ID of a resource, as the cursor of a list: a UUID, which may have a prefix.
#[derive(Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Id(pub(crate) String);

/// The UUID of an ID.
fn uuid(id: &str) -> Option<&str> {
    let uuid = id.split_once('_').map_or(id, |(_, uuid)| uuid);
    let is_uuid = uuid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    Some(uuid).filter(|_| is_uuid && uuid.len() == 36)
}

impl TryFrom<String> for Id {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        match uuid(&text) {
            Some(_) => Ok(Self(text)),
            None => Err("must be the `next` value of the previous page"),
        }
    }
}

impl JsonSchema for Id {
    fn schema_name() -> Cow<'static, str> {
        "Id".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^([a-z]+_)?[0-9a-fA-F-]{36}$"})
    }
}

/// A time, or the UUID of a resource, which says when the resource was created.
#[derive(Clone, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum Position {
    Time(Millis),
    Uuid(String),
}

#[cfg(feature = "server")]
impl Position {
    /// The ID with this prefix, if it is not a time.
    pub(crate) fn id(&self, prefix: &str) -> Option<String> {
        match self {
            Self::Time(_) => None,
            Self::Uuid(uuid) => Some(format!("{prefix}{uuid}")),
        }
    }
}

impl TryFrom<String> for Position {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        // A `+` in a query that is not percent-encoded decodes to a space.
        let time = time::parse(&text).or_else(|| time::parse(&text.replace(' ', "+")));
        let uuid = || uuid(&text).map(|uuid| Self::Uuid(uuid.to_owned()));
        let position = time.map(Self::Time).or_else(uuid);
        position.ok_or("must be an ISO 8601 date-time or an ID")
    }
}

impl JsonSchema for Position {
    fn schema_name() -> Cow<'static, str> {
        "Position".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let (time, id) = (schema::Time::json_schema(generator), Id::json_schema(generator));
        json_schema!({"anyOf": [time, id]})
    }
}

/// The bare address of a mailbox.
#[derive(Clone, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct AddressParameter(pub(crate) String);

impl TryFrom<String> for AddressParameter {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        // A space in it was a `+` that was not percent-encoded.
        let mailbox = Mailbox::parse(&text).or_else(|_| Mailbox::parse(&text.replace(' ', "+")));
        let mailbox = mailbox.map_err(|_| "must be an address such as ada@example.test")?;
        Ok(Self(mailbox.address.as_str().to_owned()))
    }
}

impl JsonSchema for AddressParameter {
    fn schema_name() -> Cow<'static, str> {
        schema::Mailbox::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        schema::Mailbox::json_schema(generator)
    }
}

/// How long to wait, in real time, at most this many seconds.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Timeout<const MAX: u64>(pub(crate) Duration);

impl<const MAX: u64> TryFrom<String> for Timeout<MAX> {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wait = time::parse_duration(&text).and_then(|ms| u64::try_from(ms).ok());
        let wait = wait.map(Duration::from_millis).filter(|wait| *wait <= Duration::from_secs(MAX));
        let error = || format!("must be a duration of at most {MAX} seconds, such as 20s");
        wait.map(Self).ok_or_else(error)
    }
}

impl<const MAX: u64> From<Timeout<MAX>> for String {
    fn from(timeout: Timeout<MAX>) -> Self {
        time::duration_text(timeout.0)
    }
}

impl<const MAX: u64> JsonSchema for Timeout<MAX> {
    fn schema_name() -> Cow<'static, str> {
        schema::Duration::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        schema::Duration::json_schema(generator)
    }
}
