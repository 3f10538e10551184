//! The table `audience`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{Code, Failure, Result, Timestamp, id};
use crate::store::{Row, Tx};

/// A list of contacts.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Audience {
    pub(crate) id: String,
    pub(crate) name: String,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl Row for Audience {
    const TABLE: &'static str = "audience";
}

/// Inserts an audience, by default with a new ID.
pub(crate) fn insert(
    tx: &Tx<'_>,
    organization: i64,
    name: String,
    id: Option<String>,
) -> Result<Audience> {
    let id = id.unwrap_or_else(|| id::new(id::AUDIENCE));
    let audience = Audience {
        id,
        name,
        created_at: tx.now.into(),
        updated_at: tx.now.into(),
    };
    if tx.insert(organization, &audience)? {
        return Ok(audience);
    }

    Err(Failure::new(
        Code::Conflict,
        "belongs to an audience of another organization",
    ))
}
