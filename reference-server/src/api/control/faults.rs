//! `/_sandbox/faults`: adds, lists and removes faults, which affect the next matching
//! requests (`docs/control-interface.md#faults`).

use crate::api::framework::ControlCall;
use crate::api::framework::route::{ID, Routes};
use crate::control::faults::{self as control, Fault, NewFault};
use crate::model::error::{ApiError, Code};

pub(crate) fn routes(r: &mut Routes) {
    r.tag("Sandbox faults");
    r.control(control::LIST, list);
    r.control(control::ADD, add).errors(&[Code::Conflict]).links(ID, "/_sandbox/faults/{");
    r.control(control::CLEAR, clear);
    r.control(control::FAULT, get);
    r.control(control::REMOVE, remove);
}

pub(crate) async fn add(call: ControlCall<NewFault>) -> Result<Fault, ApiError> {
    let new = NewFault { organization: None, ..call.body };
    new.check()?;
    call.data.write(move |tx, app, organization| app.faults.add(tx, organization, new)).await
}

pub(crate) async fn list(call: ControlCall) -> Result<Vec<Fault>, ApiError> {
    Ok(call.data.app.faults.list(call.data.organization))
}

pub(crate) async fn get(call: ControlCall) -> Result<Fault, ApiError> {
    let faults = call.data.app.faults.list(call.data.organization);
    let found = faults.into_iter().find(|fault| fault.id == call.id());
    found.ok_or_else(|| ApiError::not_found("fault"))
}

/// Removes all faults of the organization.
pub(crate) async fn clear(call: ControlCall) -> Result<(), ApiError> {
    let all = call.data.write(|tx, app, organization| app.faults.remove(tx, organization, None));
    all.await.map(drop)
}

pub(crate) async fn remove(call: ControlCall) -> Result<(), ApiError> {
    let id = Some(call.id());
    let removed =
        call.data.write(move |tx, app, organization| app.faults.remove(tx, organization, id));
    if removed.await? { Ok(()) } else { Err(ApiError::not_found("fault")) }
}
