//! `svc bulk list` of the jobs in Redis.

use std::io::ErrorKind;

use chrono::{DateTime, Utc};

use super::{QueueOption, QueuedJob, shown};
use crate::commands::bulk::jobs::Damaged;
use crate::context::Context;
use crate::failure::Failure;

/// Adds the jobs with their times, and those that cannot be read.
pub async fn read(
    context: &Context,
    option: &QueueOption,
    jobs: &mut Vec<(DateTime<Utc>, QueuedJob)>,
    damaged: &mut Vec<Damaged>,
) -> Result<(), Failure> {
    let queue = option.connect(context).await?;
    for id in queue.jobs().await? {
        let status = match queue.status(&id).await {
            Ok(status) => status,
            // Someone has deleted its keys.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                context.out.warning(&format!("job {id}: {error}"));
                damaged.push(Damaged::new(id, None));
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        match shown(&status) {
            Ok(job) => jobs.push((status.info.at, job)),
            // An application has made it with the SDK, or another version of svc.
            Err(failure) => {
                context.out.warning(&format!("job {id}: {}", failure.details().message));
                damaged.push(Damaged::new(id, None));
            }
        }
    }
    Ok(())
}
