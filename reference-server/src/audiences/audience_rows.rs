//! The table `audience`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::error::{Code, Failure};
use crate::model::id;
use crate::model::timestamp::Timestamp;
use crate::store::Tx;
use crate::store::rows::Row;

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

    fn touch(&mut self, now: Timestamp) {
        self.updated_at = now;
    }
}

/// Inserts an audience, by default with a new ID.
pub(crate) fn insert(
    tx: &Tx<'_>,
    organization: i64,
    name: String,
    id: Option<String>,
) -> Result<Audience, Failure> {
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
