//! `--wait` of `svc bulk send` and `svc bulk resume`: asks the service for the status of the
//! accepted emails until each is final, and stores what it learns in the ledger, so that another
//! run goes on from there. `refresh` asks once, for `svc bulk report`. `Wait::after` keeps the
//! failure of sending, if there is one: it comes before a failed delivery. Short outages are
//! survived with the `FailureBudget` of `crate::wait`.

use std::collections::{BTreeMap, HashMap};
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

/// The final statuses of the accepted emails of a job, and the emails without one.
struct Deliveries {
    known: HashMap<u64, FinalStatus>,
    open: Vec<(u64, String)>,
}

impl Deliveries {
    async fn of(job: &StoredJob) -> Result<Self, Failure> {
        let mut known = HashMap::new();
        let mut open = Vec::new();
        job.each_row(&[RowStatus::Accepted], |row| {
            match (row.final_status, row.id) {
                (Some(status), _) => _ = known.insert(row.number, status),
                (None, Some(id)) => open.push((row.number, id)),
                (None, None) => {}
            }
            Ok(())
        })
        .await?;
        Ok(Self { known, open })
    }

    /// Asks for each email without a final status once.
    async fn ask(
        &mut self,
        context: &Context,
        client: &EmailClient,
        job: &StoredJob,
        failures: &mut FailureBudget,
    ) -> Result<(), Failure> {
        let progress = context.out.progress("waiting for delivery");
        let mut still_open = Vec::new();
        let mut found = Vec::new();
        let mut asked = stream::iter(std::mem::take(&mut self.open))
            .map(async |(row, id)| (client.emails().get(&id).await, row, id))
            .buffer_unordered(CONCURRENCY);
        while let Some((answer, row, id)) = asked.next().await {
            let email = match answer {
                Ok(email) => email,
                Err(error) => {
                    failures.with(context, Failure::from(error))?;
                    still_open.push((row, id));
                    continue;
                }
            };
            *failures = FailureBudget::default();
            let Some(status) = &email.status else {
                let message =
                    "the response contains no status, so svc cannot wait for the final one";
                return Err(Failure::other(message));
            };
            if status.is_final() {
                let status = FinalStatus {
                    status: status.to_string(),
                    reason: follow::reason(&email),
                };
                self.known.insert(row, status.clone());
                found.push((row, status));
            } else {
                still_open.push((row, id));
            }
            if found.len() >= RECORDED {
                job.ledger.set_final(job.id(), &found).await?;
                found.clear();
            }
            let (done, left) = (self.known.len(), still_open.len());
            progress.set_text(format!(
                "waiting for delivery: {done} final, {left} in progress"
            ));
        }
        drop(asked);
        job.ledger.set_final(job.id(), &found).await?;
        still_open.sort_unstable();
        self.open = still_open;
        Ok(())
    }
}

/// Asks the service once for the emails of a job without a final status. Returns how many still have
/// none.
pub async fn refresh(
    context: &Context,
    client: &EmailClient,
    job: &StoredJob,
) -> Result<usize, Failure> {
    let mut deliveries = Deliveries::of(job).await?;
    let mut failures = FailureBudget::default();
    deliveries.ask(context, client, job, &mut failures).await?;
    Ok(deliveries.open.len())
}

/// Asks for the accepted emails until each has a final status.
async fn follow(context: &Context, client: &EmailClient, job: &StoredJob) -> Result<(), Failure> {
    let mut deliveries = Deliveries::of(job).await?;
    let deadline = Instant::now() + LIMIT;
    let mut pause = FIRST_PAUSE;
    let mut failures = FailureBudget::default();
    loop {
        deliveries.ask(context, client, job, &mut failures).await?;
        if deliveries.open.is_empty() {
            return verdict(context, &deliveries.known);
        }
        if Instant::now() + pause > deadline {
            let left = deliveries.open.len();
            let all = left + deliveries.known.len();
            let message =
                format!("{left} of {all} accepted emails have no final status after {LIMIT:?}");
            return Err(Failure::new(Kind::OutcomeUnknown, message).code("wait_timed_out"));
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Fails if an email was not delivered.
fn verdict(context: &Context, known: &HashMap<u64, FinalStatus>) -> Result<(), Failure> {
    let (mut counts, mut failed) = (BTreeMap::<_, u64>::new(), 0_u64);
    for delivery in known.values() {
        *counts.entry(delivery.status.as_str()).or_default() += 1;
        let status = EmailStatus::from(delivery.status.as_str());
        failed += u64::from(status.is_undelivered());
    }
    let counts = counts
        .iter()
        .map(|(status, count)| format!("{count} {status}"));
    let counts = counts.collect::<Vec<_>>().join(", ");
    let total = known.len();
    if failed > 0 {
        let message = format!("{failed} of {total} accepted emails were not delivered: {counts}");
        return Err(Failure::check(message).code("bulk_not_delivered"));
    }
    if total > 0 {
        context.out.note(&format!("delivery: {counts}"));
    }
    Ok(())
}
