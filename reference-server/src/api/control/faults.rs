//! `/_sandbox/faults`: adds and clears faults, which affect the next matching
//! requests (`docs/control-interface.md#faults`).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::api::framework::ControlCall;
use crate::control::faults::{Fault, NewFault};
use crate::model::error::ApiError;
use crate::store::faults;

pub(crate) async fn add(call: ControlCall<NewFault>) -> Result<Fault, ApiError> {
    let new = NewFault {
        organization: None,
        ..call.body
    };
    new.check()?;
    let added = call.data.write(move |tx, app, organization| {
        let app = Arc::clone(app);
        tx.after_commit(move || app.has_faults.store(true, Ordering::SeqCst));
        faults::add(tx, organization, new)
    });
    added.await
}

/// Removes all faults of the organization.
pub(crate) async fn clear(call: ControlCall) -> Result<(), ApiError> {
    call.data
        .write(|tx, _, organization| faults::clear(tx, organization))
        .await
}
