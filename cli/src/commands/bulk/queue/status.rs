//! `svc bulk status` of a job in Redis.

use svc_bulk::QueueState;

use super::{QueueOption, find, shown};
use crate::commands::bulk::VIEW;
use crate::commands::bulk::drive::Again;
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
    again: Again,
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
    if again.unknown {
        let chunks = queue.resend_unknown(job).await?;
        context.out.note(&format!("{chunks} requests with unknown emails are sent again"));
    }
    if again.refused {
        let chunks = queue.resend_refused(job).await?;
        context.out.note(&format!("{chunks} requests with refused emails are sent again"));
    }
    let status = find(&queue, job).await?;
    if let (QueueState::Paused, Some(cause)) = (status.state, &status.cause) {
        let reason = cause.message.as_ref().or(cause.code.as_ref());
        let reason = reason.map_or("no reason given", String::as_str);
        context.out.note(&format!("paused, because the service refuses every email: {reason}"));
    }
    let job = shown(&status)?;
    context.out.one(&job, VIEW)?;
    match context.out.is_table() {
        true => context.out.list(&job.place.workers, WORKERS, "no workers yet"),
        false => Ok(()),
    }
}
