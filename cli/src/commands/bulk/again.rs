//! What earlier jobs mean for a new one: who would get another email, who has got it already, and
//! which jobs are kept.

use std::collections::HashSet;

use svc_bulk::RedisQueue;

use super::plan::Plan;
use super::store::{JobState, StoredJob, all};
use crate::context::Context;
use crate::failure::Failure;
use crate::settings::table::RECENT;

/// Refuses to send if a job shares too many people with this one: half of these or more, half of its
/// own or more (ten at least), or any if it sends the same email. Jobs count that are not complete, that
/// ended within the last hours, or that are newer than the one that is `continued`.
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
        let others = job.addresses().await?;
        let same = others.intersection(addresses).count();
        // A few testers of another email are no reason.
        let is_half = same * 2 >= addresses.len() || (same >= 10 && same * 2 >= others.len());
        let is_refused = is_half || job.plan.sends_same_email(plan);
        if is_refused && same > 0 && found.is_none_or(|(most, _)| same > most) {
            found = Some((same, job));
        }
    }
    let Some((same, job)) = found else {
        return Ok(());
    };
    let next = match (job.state, continued) {
        (JobState::Running | JobState::Paused, _) => {
            format!("see how far it is: {}", job.svc(context, "status"))
        }
        (JobState::Incomplete, _) => {
            let [resume, cancel] = ["resume", "cancel"].map(|verb| job.svc(context, verb));
            format!("go on with that job: {resume}, or give it up: {cancel}")
        }
        (_, Some(old)) => {
            format!(
                "give up this job: {}, and {}",
                old.svc(context, "cancel"),
                job.without(context)
            )
        }
        _ if job.plan.sends_same_email(plan) => {
            let of = addresses.len();
            format!("send this email only to those who have not got it: --limit {of}")
        }
        _ => job.without(context),
    };
    let message = format!(
        "job {} of {} has {same} of these {} addresses, and is {}",
        job.info.job,
        context.out.local_time(&job.info.at.to_rfc3339()),
        addresses.len(),
        job.summary().summary
    );
    let hint = format!("{next}\nsend them another email all the same: --again");
    Err(Failure::input(message).code("sent_again").hint(hint))
}

/// The addresses that jobs with the same email have sent to or are sending to, for one that goes on
/// after them. An incomplete job is left out, so that [`refuse`] names it: it has to be resumed first.
pub async fn sent_before(jobs: &[StoredJob], plan: &Plan) -> Result<HashSet<u64>, Failure> {
    let mut addresses = HashSet::new();
    for job in jobs {
        let is_same = job.state != JobState::Incomplete && job.plan.sends_same_email(plan);
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
    are_needed: bool,
) -> Result<Vec<StoredJob>, Failure> {
    let mut kept = Vec::new();
    for job in all(context, true, queue, are_needed).await? {
        let is_old = job.has_ended() && job.age() > context.settings.bulk_retention;
        if !(is_old && job.is_here() && job.remove().await.is_ok()) {
            kept.push(job);
        }
    }
    Ok(kept)
}
