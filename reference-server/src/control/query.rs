//! The types of query parameters. Each one is read from its text, and describes it.

use std::borrow::Cow;
use std::marker::PhantomData;
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
#[serde(bound = "T: Identified", deny_unknown_fields)]
#[schemars(bound = "T: Identified")]
pub(crate) struct PageQuery<T> {
    /// Maximum number of results.
    #[serde(default)]
    pub(crate) limit: Limit,
    /// The `next` value of the previous page.
    pub(crate) cursor: Option<Id<T>>,
}

/// What the ID of a resource begins with, and what the resource is called in an error.
pub(crate) trait Identified {
    const PREFIX: &'static str;
    const NAME: &'static str;

    fn is_id(text: &str) -> bool {
        text.starts_with(Self::PREFIX)
    }

    /// What [`is_id`](Self::is_id) accepts, for the description.
    fn pattern() -> String {
        format!("^{}", Self::PREFIX)
    }
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

/// The ID of a resource, as the cursor of a list.
#[derive(Deserialize)]
#[serde(try_from = "String", bound = "T: Identified")]
pub(crate) struct Id<T>(pub(crate) String, pub(crate) PhantomData<fn() -> T>);

impl<T: Identified> TryFrom<String> for Id<T> {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        match T::is_id(&text) {
            true => Ok(Self(text, PhantomData)),
            false => Err("must be the `next` value of the previous page"),
        }
    }
}

impl<T: Identified> JsonSchema for Id<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("Id{}", T::PREFIX).into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": T::pattern()})
    }
}

/// A time, or the ID of a resource.
#[derive(Clone, Deserialize)]
#[serde(try_from = "String", bound = "T: Identified")]
pub(crate) enum Position<T> {
    Time(Millis),
    Id(String, PhantomData<fn() -> T>),
}

impl<T: Identified> TryFrom<String> for Position<T> {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        // A `+` in a query that is not percent-encoded decodes to a space.
        match time::parse(&text).or_else(|| time::parse(&text.replace(' ', "+"))) {
            Some(time) => Ok(Self::Time(time)),
            None if text.starts_with(T::PREFIX) => Ok(Self::Id(text, PhantomData)),
            None => Err(format!("must be an ISO 8601 date-time or {} ID", T::NAME)),
        }
    }
}

impl<T: Identified> JsonSchema for Position<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("Position{}", T::PREFIX).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let (time, id) = (schema::Time::json_schema(generator), Id::<T>::json_schema(generator));
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
