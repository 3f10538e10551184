//! [`OneOrMany`]: a field of type `string | string[]` (`docs/email-service/README.md#emails`).

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::model::schema;

/// One address or a list of them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "StringOrList")]
pub struct OneOrMany(pub Vec<String>);

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a string or a list of strings")]
enum StringOrList {
    One(String),
    Many(Vec<String>),
}

impl From<StringOrList> for OneOrMany {
    fn from(value: StringOrList) -> Self {
        match value {
            StringOrList::One(text) => Self(vec![text]),
            StringOrList::Many(texts) => Self(texts),
        }
    }
}

impl JsonSchema for OneOrMany {
    fn schema_name() -> Cow<'static, str> {
        "OneOrMany".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<schema::Mailbox>();
        json_schema!({"anyOf": [one, {"type": "array", "items": one}]})
    }
}
