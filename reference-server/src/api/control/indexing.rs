//! Adds to the indexes of searches what a search had to read without them.

use std::sync::{Arc, MutexGuard, PoisonError};

use crate::api::app::{App, Indexing, Shared};
use crate::model::error::ApiError;
use crate::store::Tx;

/// Adds the next items of an organization to an index. Returns whether it has all of them.
pub(super) type Extend = fn(&mut Tx<'_>, i64) -> Result<bool, ApiError>;

/// Adds the items of an organization to an index in the background, if a search has read many
/// without it, unless that is in progress. `kind` is what the index has.
pub(super) fn extend_after(
    read: usize,
    app: &Shared,
    organization: i64,
    kind: &'static str,
    extend: Extend,
) {
    fn indexing(app: &App) -> MutexGuard<'_, Indexing> {
        app.indexing.lock().unwrap_or_else(PoisonError::into_inner)
    }
    if read <= MAX_UNINDEXED || !indexing(app).insert((kind, organization)) {
        return;
    }
    let app = Arc::clone(app);
    tokio::spawn(async move {
        let slice = move |tx: &mut Tx<'_>| extend(tx, organization);
        while !app.stop.is_requested() && matches!(app.store.write_relaxed(slice).await, Ok(false))
        {
        }
        indexing(&app).remove(&(kind, organization));
    });
}

/// How many items a search reads without an index before that is extended.
const MAX_UNINDEXED: usize = 1_000;
