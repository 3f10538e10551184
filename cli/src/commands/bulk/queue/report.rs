//! `svc bulk report` of a job in Redis.

use svc_bulk::JournalState;

use super::{LEFT_OUT, QueueOption, find};
use crate::commands::bulk::outcomes::{Outcome, Rows, left_out};
use crate::context::Context;
use crate::failure::Failure;

/// Calls `each` for every row with an outcome, chunk by chunk.
pub async fn for_each_row(
    context: &Context,
    option: &QueueOption,
    job: &str,
    mut each: impl FnMut(Outcome) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let queue = option.connect(context).await?;
    let status = find(&queue, job).await?;
    for chunk in 0..status.chunks {
        let entries = queue.entries(job, chunk).await?;
        let mut state = JournalState::default();
        entries.iter().for_each(|entry| state.apply(entry));
        let missing = if status.lost.contains(&chunk) { "unknown" } else { "in_flight" };
        let mut rows = Rows::new(state, missing);
        for entry in entries {
            rows.take(entry).into_iter().try_for_each(&mut each)?;
        }
        rows.unfinished().into_iter().try_for_each(&mut each)?;
    }
    left_out(queue.file(job, LEFT_OUT).await?.as_slice(), status.info.at, each)
}
