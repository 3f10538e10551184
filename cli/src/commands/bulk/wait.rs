//! `--wait` of `svc bulk send` and `svc bulk resume`: asks the service for the status of the
//! accepted emails until each is final, and stores what it learns in the ledger, so that another
//! run goes on from there. `refresh` asks once, for `svc bulk report`. `Wait::after` keeps the
//! failure of sending, if there is one: it comes before a failed delivery. Short outages are
//! survived with the `FailureBudget` of `crate::wait`.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use futures_util::stream::{self, StreamExt as _};
use svc_bulk::{FinalStatus, RowStatus};
use svc_sdk::EmailClient;
use svc_sdk::email::EmailStatus;
use tokio::time::{Instant, sleep};

use super::ledger::StoredJob;
use super::run::is_result;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::follow::{self, FailureBudget};
use crate::stop::StopSignal;

/// Requests in flight.
const CONCURRENCY: usize = 4;

/// How many statuses are recorded at a time.
const RECORDED: usize = 100;

/// Pauses between two rounds that ask for all emails without a final status.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Options that follow delivery.
#[derive(Args, Debug)]
pub struct Wait {
    /// Wait until the accepted emails are delivered, and report those that are not
    #[arg(long)]
    wait: bool,
}

/// The longest time to wait for delivery.
const LIMIT: Duration = Duration::from_secs(60 * 60);

impl Wait {
    /// Follows the delivery of a job that was sent with this result, which decides the exit code
    /// if it is a failure.
    pub async fn after(
        &self,
        sent: Result<(), Failure>,
        context: &Context,
        client: &EmailClient,
        job: &StoredJob,
        stop: &mut StopSignal,
    ) -> Result<(), Failure> {
        if !self.wait || sent.as_ref().is_err_and(|failure| !is_result(failure)) {
            return sent;
        }

        let followed = context
            .caller
            .unless_stopped(stop, follow(context, client, job))
            .await;
        let followed = followed.map_err(|failure| match failure.kind() {
            Kind::CheckFailed => {
                let report = job.svc(context, "report");
                failure.hint(format!(
                    "list them: {report} --status bounced,failed,complained"
                ))
            }
            _ => {
                let again = job.svc(context, "resume");
                failure.hint(format!(
                    "the emails were sent; go on waiting: {again} --wait"
                ))
            }
        });
        match (sent, followed) {
            (Err(sent), Err(followed)) => {
                context.out.warning(&followed.message);
                Err(sent)
            }
            (sent, followed) => sent.and(followed),
        }
    }
}

/// Asks the service once for each accepted email of a job without a final status, and records those
/// that have one now. Returns how many still have none.
pub async fn refresh(
    context: &Context,
    client: &EmailClient,
    job: &StoredJob,
    failures: &mut FailureBudget,
) -> Result<u64, Failure> {
    let mut open = Vec::new();
    job.each_row(&[RowStatus::Accepted], |row| {
        let id = row.id.filter(|_| row.final_status.is_none());
        open.extend(id.map(|id| (row.number, id)));
        Ok(())
    })
    .await?;
    let all = open.len();
    let progress = context.out.progress("waiting for delivery");
    let mut found = Vec::new();
    let mut left = 0;
    let mut done = 0;
    let mut asked = stream::iter(open)
        .map(async |(row, id)| (client.emails().get(&id).await, row))
        .buffer_unordered(CONCURRENCY);
    while let Some((answer, row)) = asked.next().await {
        done += 1;
        let email = match answer {
            Ok(email) => email,
            Err(error) => {
                failures.with(context, Failure::from(error))?;
                left += 1;
                continue;
            }
        };
        *failures = FailureBudget::default();
        let Some(status) = &email.status else {
            let message = "the response contains no status, so svc cannot wait for the final one";
            return Err(Failure::other(message));
        };
        if status.is_final() {
            let status = status.to_string();
            let reason = follow::reason(&email);
            found.push((row, FinalStatus { status, reason }));
        } else {
            left += 1;
        }
        if found.len() >= RECORDED {
            job.ledger.set_final(job.id(), &found).await?;
            found.clear();
        }
        progress.set_text(format!(
            "waiting for delivery: {done} of {all} asked for, {left} in progress"
        ));
    }

    job.ledger.set_final(job.id(), &found).await?;
    Ok(left)
}

/// Asks for the accepted emails until each has a final status.
async fn follow(context: &Context, client: &EmailClient, job: &StoredJob) -> Result<(), Failure> {
    let deadline = Instant::now() + LIMIT;
    let mut pause = FIRST_PAUSE;
    let mut failures = FailureBudget::default();
    loop {
        let left = refresh(context, client, job, &mut failures).await?;
        if left == 0 {
            return verdict(context, job).await;
        }
        if Instant::now() + pause > deadline {
            let all = job.record.totals.accepted;
            let message =
                format!("{left} of {all} accepted emails have no final status after {LIMIT:?}");
            return Err(Failure::new(Kind::OutcomeUnknown, message).code("wait_timed_out"));
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Fails if an email was not delivered.
async fn verdict(context: &Context, job: &StoredJob) -> Result<(), Failure> {
    let mut counts = BTreeMap::<_, u64>::new();
    let mut failed = 0_u64;
    job.each_row(&[RowStatus::Accepted], |row| {
        if let Some(FinalStatus { status, .. }) = row.final_status {
            failed += u64::from(EmailStatus::from(status.as_str()).is_undelivered());
            *counts.entry(status).or_default() += 1;
        }
        Ok(())
    })
    .await?;
    let total = counts.values().sum::<u64>();
    let counts = counts
        .iter()
        .map(|(status, count)| format!("{count} {status}"));
    let counts = counts.collect::<Vec<_>>().join(", ");
    if failed > 0 {
        let message = format!("{failed} of {total} accepted emails were not delivered: {counts}");
        return Err(Failure::check(message).code("bulk_not_delivered"));
    }

    if total > 0 {
        context.out.note(&format!("delivery: {counts}"));
    }
    Ok(())
}
