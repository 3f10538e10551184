//! The control interface under `/_sandbox/`: what tests need beyond the documented
//! services (`docs/control-interface.md`).

pub(crate) mod audiences;
pub(crate) mod clock;
pub(crate) mod deliveries;
pub(crate) mod dns;
pub(crate) mod domains;
pub(crate) mod emails;
pub(crate) mod endpoints;
pub(crate) mod events;
pub(crate) mod extractions;
pub(crate) mod faults;
pub(crate) mod guard;
pub(crate) mod health;
pub(crate) mod inbound;
pub(crate) mod keys;
pub(crate) mod lease;
pub(crate) mod live;
pub(crate) mod messages;
pub(crate) mod metrics;
pub(crate) mod organizations;
mod query;
pub(crate) mod requests;
pub(crate) mod reset;
pub(crate) mod seed;
pub(crate) mod templates;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::framework::Input;
use crate::model::error::ApiError;
use crate::store::Reader;
use crate::store::organizations::{SANDBOX, find_named};

/// One page of a list.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "{T}List")]
#[non_exhaustive]
pub struct Page<T> {
    /// The items.
    pub data: Vec<T>,
    /// The cursor of the next page, or null on the last page.
    pub next: Option<String>,
}

impl<T> Page<T> {
    /// A page of `limit` items. `found` has one more if there are more pages.
    fn of(mut found: Vec<T>, limit: usize, id: impl Fn(&T) -> String) -> Self {
        let more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| more).map(id);
        Self { data: found, next }
    }
}

/// The `organization` query parameter.
fn organization_param(input: &Input) -> Option<String> {
    input.query().remove("organization")
}

/// The organization that a body or the query names. They must not contradict each other.
fn named_organization(input: &Input, in_body: Option<String>) -> Result<Option<String>, ApiError> {
    match (in_body, organization_param(input)) {
        (Some(body), Some(query)) if body != query => {
            let message = "differs between the query and the body; give it once";
            Err(ApiError::field("organization", message))
        }
        (body, query) => Ok(body.or(query)),
    }
}

/// Finds an organization by its ID or its name. The default is the seeded organization
/// `Sandbox`.
pub(crate) fn organization(
    reader: Reader<'_>,
    settings: &crate::settings::Settings,
    id_or_name: Option<&str>,
) -> Result<i64, ApiError> {
    let id_or_name = match id_or_name {
        Some(id_or_name) => id_or_name,
        None if settings.seed => SANDBOX,
        None => {
            return Err(ApiError::field(
                "organization",
                "is required, because the server has no seed data",
            ));
        }
    };
    find_named(reader, id_or_name)
}
