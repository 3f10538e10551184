//! `svc bulk list` of the jobs in Redis.

use std::io::ErrorKind;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::{QueueOption, to_json};
use crate::context::Context;
use crate::failure::Failure;

/// Adds the jobs with their times, and those that cannot be read.
pub async fn read(
    context: &Context,
    option: &QueueOption,
    jobs: &mut Vec<(DateTime<Utc>, Value)>,
    damaged: &mut Vec<Value>,
) -> Result<(), Failure> {
    let queue = option.connect(context).await?;
    for id in queue.jobs().await? {
        let status = match queue.status(&id).await {
            Ok(status) => status,
            // Someone has deleted its keys.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                context.out.warning(&format!("job {id}: {error}"));
                damaged.push(json!({"job": id, "state": "damaged"}));
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        match to_json(&status) {
            Ok(job) => jobs.push((status.info.at, job)),
            // An application has made it with the SDK, or another version of svc.
            Err(failure) => {
                context.out.warning(&format!("job {id}: {}", failure.details().message));
                damaged.push(json!({"job": id, "state": "damaged"}));
            }
        }
    }
    Ok(())
}
