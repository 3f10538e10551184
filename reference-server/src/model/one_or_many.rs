//! [`OneOrMany`]: a field of type `string | string[]` (`docs/email-service/README.md#emails`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::schema;

/// One address or a list of them.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(from = "StringOrList")]
#[schemars(inline)]
pub struct OneOrMany(pub Vec<String>);

#[derive(Deserialize, JsonSchema)]
#[serde(untagged, expecting = "must be a string or a list of strings")]
#[schemars(inline)]
enum StringOrList {
    One(#[schemars(with = "schema::Mailbox")] String),
    Many(#[schemars(with = "Vec<schema::Mailbox>")] Vec<String>),
}

impl From<StringOrList> for OneOrMany {
    fn from(value: StringOrList) -> Self {
        match value {
            StringOrList::One(text) => Self(vec![text]),
            StringOrList::Many(texts) => Self(texts),
        }
    }
}
