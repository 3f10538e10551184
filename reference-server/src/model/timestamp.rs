//! [`Timestamp`]: a time in the responses of the control interface.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::schema;
use super::time::{self, Millis};

/// A time, to the millisecond; in JSON and as text it is RFC 3339 in UTC, such as
/// `2026-11-21T08:00:00.000Z`.
///
/// It dereferences to [`DateTime<Utc>`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(inline, description = "")]
pub struct Timestamp(#[schemars(with = "schema::Time")] DateTime<Utc>);

impl From<Millis> for Timestamp {
    fn from(at: Millis) -> Self {
        Self(DateTime::from_timestamp_millis(at).unwrap_or_default())
    }
}

impl From<DateTime<Utc>> for Timestamp {
    fn from(at: DateTime<Utc>) -> Self {
        at.timestamp_millis().into()
    }
}

impl From<Timestamp> for DateTime<Utc> {
    fn from(at: Timestamp) -> Self {
        at.0
    }
}

impl Deref for Timestamp {
    type Target = DateTime<Utc>;

    fn deref(&self) -> &DateTime<Utc> {
        &self.0
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&time::rfc3339(self.0.timestamp_millis()))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        let at = DateTime::parse_from_rfc3339(&text).map_err(D::Error::custom)?;
        Ok(at.to_utc().into())
    }
}
