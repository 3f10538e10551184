//! Deletes all data of an organization, or of the server: it belongs to no organization from then
//! on, and is removed in slices (see [`deleted`]).

use std::sync::Arc;

use crate::model::error::ApiError;
use crate::store::deleted::{self, Kind};
use crate::store::keys::{self, Keys};
use crate::store::{Tx, crashes, meta, organizations, webhooks};

/// Deletes the data of one organization except its keys. Returns its new number.
pub(crate) fn organization(
    tx: &mut Tx<'_>,
    keys: &Arc<Keys>,
    organization: i64,
) -> Result<i64, ApiError> {
    let renumbered = organizations::renumber(tx, organization)?;
    keys::renumber(tx, keys, organization, renumbered)?;
    webhooks::delete_all(tx, Some(organization))?;
    tx.organizations_renumbered();
    deleted::remove(tx, Kind::Organization, &organization.to_string())?;
    Ok(renumbered)
}

/// Deletes the data of all organizations, the organizations and their keys, and the state
/// of the clock.
pub(crate) fn server(tx: &mut Tx<'_>) -> Result<(), ApiError> {
    deleted::remove_organizations(tx)?;
    organizations::delete_all(tx)?;
    webhooks::delete_all(tx, None)?;
    keys::clear(tx)?;
    crashes::clear(tx)?;
    tx.organizations_renumbered();
    meta::delete_clock(tx)?;
    Ok(())
}
