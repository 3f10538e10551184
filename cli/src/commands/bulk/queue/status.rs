//! `svc bulk status` of a job in Redis.

use svc_bulk::QueueState;

use super::{QueueOption, find, shown};
use crate::commands::bulk::VIEW;
use crate::commands::bulk::options::Unknown;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::output::{Column, Show, View};

/// Table columns of a worker.
const WORKERS: View = View(&[
    Column::id("WORKER", "/worker"),
    Column::new("STATE", "/state", Show::Status),
    Column::new("SEEN", "/seen", Show::Time),
    Column::new("REQUESTS", "/requests", Show::Number),
    Column::new("ACCEPTED", "/accepted", Show::Number),
    Column::new("REFUSED", "/refused", Show::Number),
    Column::new("UNKNOWN", "/unknown", Show::Number),
]);

/// Changes the state of a job if that is asked for, and shows it.
pub async fn run(
    context: &Context,
    option: &QueueOption,
    job: &str,
    change: Option<QueueState>,
    unknown: Unknown,
) -> Result<(), Failure> {
    let queue = option.connect(context).await?;
    find(&queue, job).await?;
    if let Some(change) = change {
        let state = queue.set_state(job, change).await?;
        if state != change {
            return Err(Failure::new(
                Kind::Refused,
                "the job was cancelled, which cannot be undone",
            )
            .code("job_is_cancelled"));
        }
    }
    if unknown == Unknown::Resend {
        let chunks = queue.resend_unknown(job).await?;
        context.out.note(&format!("{chunks} requests with unknown emails are sent again"));
    }
    let job = shown(&find(&queue, job).await?)?;
    context.out.one(&job, VIEW)?;
    match context.out.is_table() {
        true => context.out.list(&job.place.workers, WORKERS, "no workers yet"),
        false => Ok(()),
    }
}
