//! What earlier jobs mean for a new one: who would get another email, who has got it already, and
//! which jobs are kept.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use svc_bulk::RedisQueue;

use super::plan::Plan;
use super::store::{JobState, QueueOption, StoredJob, all};
use crate::context::Context;
use crate::failure::Failure;
use crate::settings::table::RECENT;

/// Refuses to send if a job shares too many people with this one: half of these or more, half of its
/// own or more (ten at least), or any if it sends the same email. Jobs count that are not complete, that
/// ended within the last hours, or that are newer than the one that is `continued`. If nothing is
/// refused, returns a note about the job that shares most.
pub async fn refuse(
    context: &Context,
    jobs: &[StoredJob],
    plan: &Plan,
    addresses: &HashSet<u64>,
    continued: Option<&StoredJob>,
    queue: &QueueOption,
) -> Result<Option<String>, Failure> {
    if plan.only_to.is_some() {
        return Ok(None);
    }
    let mut found: Option<((bool, usize), &StoredJob)> = None;
    for job in jobs {
        let is_of_interest = match continued {
            Some(old) => old.info.job != job.info.job && job.info.at >= old.info.at,
            None => !job.has_ended() || job.age() <= RECENT,
        };
        if job.plan.only_to.is_some() || job.plan.service != plan.service || !is_of_interest {
            continue;
        }
        let others = job.addresses().await?;
        let same = others.intersection(addresses).count();
        // A few testers of another email are no reason.
        let is_half = same * 2 >= addresses.len() || (same >= 10 && same * 2 >= others.len());
        let rank = (is_half || job.plan.sends_same_email(plan), same);
        if same > 0 && found.as_ref().is_none_or(|(other, _)| rank > *other) {
            found = Some((rank, job));
        }
    }
    let Some(((is_refused, same), job)) = found else { return Ok(None) };
    let (id, of) = (&job.info.job, addresses.len());
    let id_there = format!("{id}{}", if job.is_here() { "" } else { queue.hint() });
    let svc = |command: &str| context.svc(&format!("bulk {command} {id_there}"));
    let time = |at: DateTime<Utc>| context.out.local_time(&at.to_rfc3339());
    let what = match (job.state, job.waits_until()) {
        (JobState::Running | JobState::Paused, _) => "is being sent".to_owned(),
        (JobState::Incomplete, _) => "is not complete".to_owned(),
        (JobState::Cancelled, _) => "had sent to them when it was cancelled".to_owned(),
        (_, Some(at)) => format!("is scheduled for {}", time(at)),
        _ => "has been sent".to_owned(),
    };
    let when = time(job.info.at);
    let message = format!("job {id} of {when} has {same} of these {of} addresses, and {what}");
    if !is_refused {
        return Ok(Some(message));
    }
    let next = match (job.state, continued) {
        (JobState::Running | JobState::Paused, _) => {
            format!("see how far it is: {}", svc("status"))
        }
        (JobState::Incomplete, _) => {
            format!("go on with that job: {}, or give it up: {}", svc("resume"), svc("cancel"))
        }
        (_, Some(old)) => {
            let cancel = context.svc(&format!("bulk cancel {}", old.info.job));
            format!("give up this job: {cancel}, and {}", without(context, &id_there))
        }
        _ if job.plan.sends_same_email(plan) => {
            format!("send this email only to those who have not got it: --limit {of}")
        }
        _ => without(context, &id_there),
    };
    let hint = format!("{next}\nsend them another email all the same: --again");
    Err(Failure::input(message).code("sent_again").hint(hint))
}

/// How to leave out those who have got an email of a job.
pub fn without(context: &Context, id: &str) -> String {
    let report = context.svc(&format!("bulk report {id} --status accepted,unknown > got.csv"));
    format!(
        "leave out those who have got it: {report}, then add --suppress got.csv to svc bulk send"
    )
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
