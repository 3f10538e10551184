//! What earlier jobs mean for a new one: who would get another email, who has got it already, and
//! which jobs are kept.

use std::collections::HashSet;
use std::time::Duration;

use svc_bulk::RedisQueue;

use super::plan::Plan;
use super::store::{JobState, StoredJob, all};
use crate::context::Context;
use crate::failure::Failure;

/// How long a job that has ended keeps its addresses from another one.
const RECENT: Duration = Duration::from_secs(20 * 60 * 60);

/// Refuses to send to people of whom another job has half or more, or any if it sends the same email:
/// one that is not complete, or ended within the last hours, or is newer than the job that is
/// `continued`.
pub async fn refuse(
    context: &Context,
    jobs: &[StoredJob],
    plan: &Plan,
    addresses: &HashSet<u64>,
    continued: Option<&StoredJob>,
) -> Result<(), Failure> {
    if plan.only_to.is_some() {
        return Ok(());
    }
    let mut found: Option<(usize, &StoredJob)> = None;
    for job in jobs {
        let is_of_interest = match continued {
            Some(old) => old.info.job != job.info.job && job.info.at >= old.info.at,
            None => !job.has_ended() || job.age() <= RECENT,
        };
        if job.plan.only_to.is_some() || job.plan.service != plan.service || !is_of_interest {
            continue;
        }
        let same = job.addresses().await?.intersection(addresses).count();
        let is_too_many = same * 2 >= addresses.len() || job.plan.sends_same_email(plan);
        if is_too_many && same > found.as_ref().map_or(0, |it| it.0) {
            found = Some((same, job));
        }
    }
    let Some((same, job)) = found else { return Ok(()) };
    let (id, of) = (&job.info.job, addresses.len());
    let when = context.out.local_time(&job.info.at.to_rfc3339());
    let svc = |command: &str| context.svc(&format!("bulk {command} {id}"));
    let (what, next) = match job.state {
        JobState::Running | JobState::Paused => ("is being sent", String::new()),
        JobState::Incomplete => {
            let (resume, cancel) = (svc("resume"), svc("cancel"));
            ("is not complete", format!("go on with that job: {resume}, or give it up: {cancel}\n"))
        }
        state if job.plan.sends_same_email(plan) && continued.is_none() => {
            let was = if state == JobState::Cancelled { "was cancelled" } else { "has been sent" };
            (was, format!("send this email only to those who have not got it: --limit {of}\n"))
        }
        _ => ("has been sent", String::new()),
    };
    let message = format!("job {id} of {when} has {same} of these {of} addresses, and {what}");
    let hint = format!("{next}send them another email all the same: --again");
    Err(Failure::input(message).code("sent_again").hint(hint))
}

/// The addresses that jobs with the same email have, for one that goes on after them.
pub async fn sent_before(jobs: &[StoredJob], plan: &Plan) -> Result<HashSet<u64>, Failure> {
    let mut addresses = HashSet::new();
    for job in jobs {
        let is_same = job.plan.sends_same_email(plan);
        if is_same && job.plan.only_to.is_none() && job.plan.service == plan.service {
            addresses.extend(job.addresses().await?);
        }
    }
    Ok(addresses)
}

/// The jobs of this machine and of a queue. Those of this machine that ended long ago are removed: they
/// hold addresses. One that cannot be removed stays.
pub async fn earlier(
    context: &Context,
    queue: Option<&RedisQueue>,
) -> Result<Vec<StoredJob>, Failure> {
    let mut kept = Vec::new();
    for job in all(context, true, queue).await? {
        let is_old = job.has_ended() && job.age() > context.settings.bulk_retention;
        if !(is_old && job.is_here() && job.remove().await.is_ok()) {
            kept.push(job);
        }
    }
    Ok(kept)
}
