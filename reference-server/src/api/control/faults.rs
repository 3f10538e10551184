//! `/_sandbox/faults`: adds, lists and removes faults, which affect the next matching
//! requests (`docs/control-interface.md#faults`).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::api::framework::ControlCall;
use crate::control::faults::{Fault, NewFault};
use crate::model::error::ApiError;
use crate::store::faults;

pub(crate) async fn add(call: ControlCall<NewFault>) -> Result<Fault, ApiError> {
    let new = NewFault { organization: None, ..call.body };
    new.check()?;
    let added = call.data.write(move |tx, app, organization| {
        let app = Arc::clone(app);
        tx.after_commit(move || app.has_faults.store(true, Ordering::SeqCst));
        faults::add(tx, organization, new)
    });
    added.await
}

pub(crate) async fn list(call: ControlCall) -> Result<Vec<Fault>, ApiError> {
    call.data.read(|reader, of| reader.page(of, "", i64::MAX)).await
}

pub(crate) async fn get(call: ControlCall) -> Result<Fault, ApiError> {
    let id = call.id();
    call.data.read(move |reader, of| reader.get(&id, of)).await
}

/// Removes all faults of the organization.
pub(crate) async fn clear(call: ControlCall) -> Result<(), ApiError> {
    call.data.write(|tx, _, organization| faults::clear(tx, organization)).await
}

pub(crate) async fn remove(call: ControlCall) -> Result<(), ApiError> {
    let id = call.id();
    call.data.write(move |tx, _, of| tx.delete::<Fault>(&id, of)).await
}
