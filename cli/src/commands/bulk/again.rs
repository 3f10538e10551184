//! Who would get another email: the people of another job.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use svc_bulk::{JobInfo, QueueState, RedisQueue};

use super::jobs::{JobState, Jobs, LocalJob, last_change, read_info};
use super::plan::{ADDRESSES, Plan, hashes};
use super::store::{StoredJob, queued};
use crate::context::Context;
use crate::failure::Failure;

/// How long a job that has ended keeps its addresses from another one.
const RECENT: Duration = Duration::from_secs(20 * 60 * 60);

/// Refuses to send to people of whom another job has half or more: one that is not complete, or
/// ended within the last hours, or is newer than the job that is continued.
pub fn refuse_here(
    jobs: &Jobs,
    context: &Context,
    plan: &Plan,
    addresses: &HashSet<u64>,
    continued: Option<&JobInfo>,
) -> Result<(), Failure> {
    if plan.only_to.is_some() {
        return Ok(());
    }
    let mut found: Option<(u64, LocalJob)> = None;
    for folder in jobs.folders()? {
        let Ok((info, other)) = read_info(&folder) else { continue };
        let is_newer = |job: &JobInfo| job.job != info.job && info.at >= job.at;
        if other.only_to.is_some()
            || other.service != plan.service
            || !continued.is_none_or(is_newer)
        {
            continue;
        }
        let Ok(job) = LocalJob::read(&folder) else { continue };
        let age = SystemTime::now().duration_since(last_change(&folder)).unwrap_or_default();
        if job.has_ended() && age > RECENT && continued.is_none() {
            continue;
        }
        let same = job.addresses()?.into_iter().collect::<HashSet<_>>();
        let same = same.intersection(addresses).count() as u64;
        if same * 2 >= addresses.len() as u64 && same > found.as_ref().map_or(0, |it| it.0) {
            found = Some((same, job));
        }
    }
    match found {
        Some((same, job)) => {
            Err(again(context, same, addresses.len(), &StoredJob::Here(Box::new(job))))
        }
        None => Ok(()),
    }
}

/// Refuses to send to people of whom a job in Redis has half or more: one that is not complete, or
/// was created within the last hours.
pub async fn refuse_queued(
    context: &Context,
    queue: &RedisQueue,
    plan: &Plan,
    addresses: &HashSet<u64>,
) -> Result<(), Failure> {
    for id in queue.jobs().await? {
        let Ok(StoredJob::Queued { status, plan: other, .. }) = queued(queue.clone(), &id).await
        else {
            continue;
        };
        let age = chrono::Utc::now() - status.info.at;
        let has_ended = matches!(status.state, QueueState::Complete | QueueState::Cancelled);
        let is_old = age.to_std().is_ok_and(|age| age > RECENT);
        let is_other = other.only_to.is_some() || other.service != plan.service;
        let sent = status.totals.accepted + status.totals.unknown;
        if plan.only_to.is_some() || is_other || (has_ended && (is_old || sent == 0)) {
            continue;
        }
        let same = queue.file(&id, ADDRESSES).await?;
        let same = hashes(&same).filter(|hash| addresses.contains(hash)).count();
        if same * 2 >= addresses.len() {
            let job = StoredJob::Queued { queue: queue.clone(), status, plan: other };
            return Err(again(context, same as u64, addresses.len(), &job));
        }
    }
    Ok(())
}

/// The failure for people who would get another email.
fn again(context: &Context, same: u64, of: usize, job: &StoredJob) -> Failure {
    let id = &job.info().job;
    let when = context.out.local_time(&job.info().at.to_rfc3339());
    let (what, next) = match (job.state(), job) {
        (JobState::Running | JobState::Paused, _) => ("is being sent", String::new()),
        (JobState::Incomplete, _) => {
            let resume = context.svc(&format!("bulk resume {id}"));
            ("is not complete", format!("go on with that job: {resume}\n"))
        }
        _ => ("has been sent", String::new()),
    };
    let message = format!("job {id} of {when} has {same} of these {of} addresses, and {what}");
    let hint = format!("{next}send them another email all the same: --again");
    Failure::input(message).code("sent_again").hint(hint)
}
