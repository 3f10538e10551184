//! The commands about stored jobs: `list`, `forget`, `status`, `report`, `pause`, `cancel`,
//! `remove` and `settle`. Each opens the ledger, finds its job (`JobOption::find`), changes it and
//! prints its summary. None of them sends an email. `cancel` also cancels what the service keeps
//! for a later time, and reports what was sent already. Over 500 lines, because each command stands
//! with its help; the rows are read in `outcomes.rs`, the states are in `ledger.rs`.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use futures_util::stream::{self, StreamExt as _};
use schemars::JsonSchema;
use serde::Serialize;
use svc_bulk::{FinalStatus, SendState};
use svc_sdk::Operation::{EmailsCancel, EmailsGet};

use super::again::clean_up;
use super::ledger::{JobOption, JobState, JobSummary, LedgerOption, StoredJob, VIEW, all};
use super::outcomes::Outcome;
use super::wait::refresh;
use crate::command_spec::{changes, local, removes};
use crate::context::{Context, Deleted};
use crate::failure::{Failure, Kind};
use crate::follow::FailureBudget;
use crate::input::columns::ColumnOptions;
use crate::input::email::check;
use crate::input::people::{PeopleFile, Person};
use crate::input::records::Records;
use crate::output::{Column, Items, View};
use crate::output_schema::of;
use crate::prepared::confirm;

/// List the jobs, newest first
///
/// With --all, also the emails of jobs that were removed: who has got them is remembered for 13
/// months, as a hash of each address (`bulk_memory`). `svc bulk forget` removes that.
#[derive(Args, Debug)]
#[command(add = local(of::<Vec<JobSummary>>))]
#[command(after_long_help = "\
  svc bulk list
  svc bulk list --jq '.[] | select(.state != \"complete\") | .job'
  svc bulk list --all")]
pub struct List {
    #[command(flatten)]
    ledger: LedgerOption,
    /// Name the emails of removed jobs, too
    #[arg(long)]
    all: bool,
}

impl List {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let ledger = self.ledger.open(context).await?;
        clean_up(context, &ledger, &self.ledger).await?;
        let mut jobs = all(context, &ledger, &self.ledger).await?;
        jobs.reverse();
        let jobs = jobs.iter().map(StoredJob::summary).collect::<Vec<_>>();
        if self.all {
            for email in ledger.memory().await? {
                let last = context.out.local_time(&email.last.to_rfc3339());
                context.out.note(&format!(
                    "remembered: {} people got \"{}\", the last one {last}",
                    email.people, email.label
                ));
            }
        }

        context
            .out
            .list(&jobs, VIEW, "no jobs; start one with `svc bulk send`")
    }
}

/// Forget who has got the emails of removed jobs
///
/// Of a job that was removed, a hash of each address is kept for 13 months (`bulk_memory`), so that
/// nobody gets the same email again. Jobs that are not removed stay.
#[derive(Args, Debug)]
#[command(add = removes(&[], of::<Forgotten>))]
#[command(after_long_help = "\
  svc bulk forget
  svc bulk forget --yes")]
pub struct Forget {
    #[command(flatten)]
    ledger: LedgerOption,
}

/// How much was forgotten.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Forgotten {
    forgotten: u64,
}

impl Forget {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let ledger = self.ledger.open(context).await?;
        let people = ledger
            .memory()
            .await?
            .iter()
            .map(|it| it.people)
            .sum::<u64>();
        let question = format!(
            "Forget {people} people who got emails of removed jobs? They may get them again."
        );
        confirm(context, &question).await?;
        if context.settings.dry_run {
            context.out.note(&format!("{people} would be forgotten"));
            return Ok(());
        }

        let forgotten = ledger.forget().await?;
        let sentence = format!("{forgotten} forgotten");
        context.out.done(&sentence, &Forgotten { forgotten })
    }
}

/// Show how far a job is
///
/// That of all processes together which send it.
#[derive(Args, Debug)]
#[command(add = local(of::<JobSummary>))]
#[command(after_long_help = "\
  svc bulk status 20261122-101500-1f3a9c02
  svc bulk status 20261122 --jq .unknown")]
pub struct Status {
    #[command(flatten)]
    job: JobOption,
}

impl Status {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        show(context, &self.job.find(context).await?)
    }
}

fn show(context: &Context, job: &StoredJob) -> Result<(), Failure> {
    if let Some(cause) = &job.record.cause {
        let reason = cause.message.as_ref().or(cause.code.as_ref());
        let reason = reason.map_or("no reason given", String::as_str);
        context.out.note(&format!(
            "paused, because the service refuses every email: {reason}"
        ));
    }
    context.out.one(&job.summary(), VIEW)
}

/// Show the outcome of every row of a job
///
/// CSV, unless --json or another --output selects another format. The status is accepted, refused,
/// invalid, unknown, left_out, not_sent or, while the job runs, in_flight; after --wait or --refresh,
/// the final status of the email, such as delivered or bounced. The code of an unknown row is
/// its cause, and the message of an accepted one tells if it was perhaps sent twice.
#[derive(Args, Debug)]
#[command(add = local(of::<Vec<Outcome>>).calling(&[EmailsGet]))]
#[command(after_long_help = "\
  svc bulk report 20261122-101500-1f3a9c02 > report.csv
  svc bulk report 20261122 --status unknown,refused -o ndjson --jq .address
  svc bulk report 20261122 --refresh --status bounced")]
pub struct Report {
    #[command(flatten)]
    job: JobOption,
    /// Only rows with this status, or left out for this reason; repeatable
    #[arg(long, value_name = "STATUS,…", value_delimiter = ',', hide_possible_values = true, value_parser = STATUSES)]
    status: Vec<String>,
    /// Ask the service for the final status of the accepted emails first
    #[arg(long)]
    refresh: bool,
}

/// The statuses of rows, the reasons why some are left out, and the final statuses of emails.
const STATUSES: [&str; 16] = [
    "accepted",
    "refused",
    "invalid",
    "unknown",
    "left_out",
    "in_flight",
    "not_sent",
    "unsubscribed",
    "suppressed",
    "duplicate",
    "sent_before",
    "delivered",
    "bounced",
    "failed",
    "complained",
    "cancelled",
];

const REPORT_VIEW: View = View(&[
    Column::number("ROW", "/row"),
    Column::text("ADDRESS", "/address"),
    Column::status("STATUS", "/status"),
    Column::id("ID", "/id").droppable(),
    Column::text("CODE", "/code"),
    Column::time("WHEN", "/when").droppable(),
    Column::prose("MESSAGE", "/message"),
]);

const COLUMNS: [&str; 7] = ["row", "address", "status", "id", "code", "when", "message"];

impl Report {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let job = self.job.find(context).await?;
        if self.refresh {
            job.plan.check_service(context)?;
            let client = context.clients.email_client().await?;
            let mut failures = FailureBudget::default();
            let open = refresh(context, &client, &job, &mut failures).await?;
            if open > 0 {
                context
                    .out
                    .note(&format!("{open} accepted emails have no final status yet"));
            }
        }

        let mut unchecked = 0_u64;
        let mut items = Items::new(&context.out, &COLUMNS).streamed();
        let is_asked_for = |row: &Outcome| {
            let reason = row.code.as_deref().filter(|_| row.status == "left_out");
            // Whatever has become of it since.
            let accepted = row.is_accepted().then_some("accepted");
            let mut words = [Some(row.status.as_str()), reason, accepted]
                .into_iter()
                .flatten();
            self.status.is_empty() || words.any(|word| self.status.iter().any(|it| it == word))
        };
        let each = |row: Outcome| {
            unchecked += u64::from(row.status == "accepted");
            if is_asked_for(&row) {
                items.push(&row)
            } else {
                Ok(())
            }
        };

        job.report(each).await?;
        if unchecked > 0 && !self.refresh {
            let refresh = job.svc(context, "report");
            context.out.note(&format!(
                "whether {unchecked} accepted emails were delivered is not checked yet: {refresh} --refresh"
            ));
        }

        if context.out.is_table() && !items.are_lines {
            context.out.list(items.document(), REPORT_VIEW, "no rows")
        } else {
            items.finish()
        }
    }
}

/// Let the senders of a job wait
///
/// All processes that send it wait within a second until `svc bulk resume`. Requests in flight are
/// completed.
#[derive(Args, Debug)]
#[command(add = local(of::<JobSummary>))]
#[command(after_long_help = "\
  svc bulk pause 20261122-101500-1f3a9c02")]
pub struct Pause {
    #[command(flatten)]
    job: JobOption,
}

impl Pause {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let mut job = self.job.find(context).await?;
        if matches!(job.state(), JobState::Complete | JobState::Unknown) {
            return Err(Failure::new(Kind::Refused, "the job is complete").code("job_is_complete"));
        }
        job.ledger.set_state(job.id(), SendState::Paused).await?;
        job.reload().await?;
        show(context, &job)
    }
}

/// Stop a job for good
///
/// Its other emails are not sent, also not by `svc bulk resume`. Those that the service keeps until
/// the time of --at are cancelled there.
#[derive(Args, Debug)]
#[command(add = changes(&[EmailsCancel], of::<JobSummary>))]
#[command(after_long_help = "\
  svc bulk cancel 20261122-101500-1f3a9c02")]
pub struct Cancel {
    #[command(flatten)]
    job: JobOption,
}

impl Cancel {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let mut job = self.job.find(context).await?;
        let is_scheduled = job.plan.email.scheduled_at.is_some();
        if job.state() == JobState::Complete && !is_scheduled {
            return Err(Failure::new(Kind::Refused, "the job is complete").code("job_is_complete"));
        }

        if is_scheduled {
            job.plan.check_service(context)?;
        }
        if context.settings.dry_run {
            context
                .out
                .note(&format!("job {} would be cancelled", job.id()));
            return Ok(());
        }

        if job.state() != JobState::Complete {
            job.ledger.set_state(job.id(), SendState::Cancelled).await?;
            job.reload().await?;
        }
        let late = if is_scheduled {
            cancel_scheduled(context, &mut job).await?
        } else {
            None
        };
        let unknown = if is_scheduled {
            job.record.totals.unknown
        } else {
            0
        };
        let late = late.or_else(|| (unknown > 0).then(|| still_unknown(context, &job, unknown)));
        show(context, &job)?;
        late.map_or(Ok(()), Err)
    }
}

/// The service may keep emails of which it has told no id.
fn still_unknown(context: &Context, job: &StoredJob, unknown: u64) -> Failure {
    let message = format!("{unknown} emails whose outcome is unknown may still be delivered");
    let list = job.svc(context, "report");
    Failure::new(Kind::OutcomeUnknown, message)
        .code("bulk_unknown")
        .hint(format!("list them: {list} --status unknown"))
}

/// Cancels the emails that the service keeps until their time. Returns the failure if some were sent
/// already. Those that are cancelled are recorded.
async fn cancel_scheduled(
    context: &Context,
    job: &mut StoredJob,
) -> Result<Option<Failure>, Failure> {
    let mut ids = Vec::new();
    let mut count = 0;
    job.report(|row| {
        count += u64::from(row.status == "cancelled");
        let number = row.row;
        ids.extend(row.accepted_id().map(|id| (number, id)));
        Ok(())
    })
    .await?;
    let client = context.clients.email_client().await?;
    let total = count + ids.len() as u64;
    let progress = context
        .out
        .progress(format!("cancelling {total} scheduled emails"));
    let mut cancelled = stream::iter(ids)
        .map(async |(row, id)| {
            (
                row,
                context.caller.perform(client.emails().cancel(&id)).await,
            )
        })
        .buffer_unordered(4);
    let mut failed = None;
    while let Some((row, result)) = cancelled.next().await {
        match result {
            Ok(_) => {
                count += 1;
                let status = FinalStatus {
                    status: "cancelled".to_owned(),
                    reason: None,
                };
                job.ledger.set_final(job.id(), &[(row, status)]).await?;
            }
            // It was sent already.
            Err(failure) if matches!(failure.kind(), Kind::Refused | Kind::NotFound) => {}
            Err(failure) => failed = Some(failure),
        }
    }

    drop(cancelled);
    drop(progress);
    let said = format!("{count} of {total} scheduled emails are cancelled");
    if let Some(mut failure) = failed {
        let message = &mut failure.message;
        *message = format!("{said}: {message}");
        return Err(failure.hint("cancel the job again"));
    }

    if count > 0 {
        job.ledger.set_state(job.id(), SendState::Cancelled).await?;
        job.reload().await?;
    }
    context.out.note(&said);
    let kind = if count == 0 {
        Kind::Refused
    } else {
        Kind::PartlyRefused
    };
    Ok((count < total).then(|| {
        Failure::new(
            kind,
            format!(
                "{} emails were sent before they could be cancelled",
                total - count
            ),
        )
        .code("sent_already")
    }))
}

/// Delete a job with the addresses that it holds
///
/// Jobs that have ended are deleted after 30 days, or the time in SVC_BULK_RETENTION.
#[derive(Args, Debug)]
#[command(add = removes(&[], of::<Deleted<'_>>))]
#[command(after_long_help = "\
  svc bulk remove 20261122-101500-1f3a9c02
  svc bulk remove 20261122-101500-1f3a9c02 --yes")]
pub struct Remove {
    #[command(flatten)]
    job: JobOption,
}

impl Remove {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let job = self.job.find(context).await?;
        let id = job.id().to_owned();
        if job.state() == JobState::Running {
            return Err(Failure::new(Kind::Refused, "the job is being sent")
                .code("job_is_running")
                .hint(format!("stop it first: {}", job.svc(context, "cancel"))));
        }

        let waits = match &job.plan.email.scheduled_at {
            Some(at) if job.state() != JobState::Cancelled => {
                let at = context.out.local_time(at.as_str());
                format!(" Emails that wait until {at} can then no longer be cancelled.")
            }
            _ => String::new(),
        };
        let question = format!(
            "Delete job {id} ({}) with its addresses? Who got the email is remembered.{waits}",
            job.summary().summary
        );
        confirm(context, &question).await?;
        if context.settings.dry_run {
            context.out.note(&format!("job {id} would be deleted"));
            return Ok(());
        }

        job.ledger.remove(&id).await?;
        context.deleted("job", &id, &id)
    }
}

/// Decide about emails whose outcome is unknown
///
/// A row is named by its number in the report, or by its address. A file has one of them per line,
/// or the columns of `svc bulk report`.
#[derive(Args, Debug)]
#[command(add = local(of::<JobSummary>))]
#[command(after_long_help = "\
  svc bulk settle 20261122-101500-1f3a9c02 --sent arrived.txt
  svc bulk settle 20261122-101500-1f3a9c02 --sent ada@example.com --resend 17
  svc bulk report 20261122 | grep ,unknown, | cut -d, -f1 \\
      | svc bulk settle 20261122 --resend -")]
pub struct Settle {
    #[command(flatten)]
    job: JobOption,
    /// Rows that were sent, as you have found out: a file, - for stdin, an address or a row
    #[arg(
        long,
        value_name = "FILE|ADDRESS|ROW",
        required_unless_present = "resend"
    )]
    sent: Vec<String>,
    /// Rows to send again: a file, - for stdin, an address or a row
    #[arg(long, value_name = "FILE|ADDRESS|ROW")]
    resend: Vec<String>,
}

impl Settle {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let mut job = self.job.find(context).await?;
        if job.state() == JobState::Cancelled && !self.resend.is_empty() {
            return Err(Failure::new(
                Kind::Refused,
                "the job was cancelled, which cannot be undone",
            )
            .code("job_is_cancelled"));
        }

        // As an address is compared, or any other text.
        let key = |text: &str| check(text).unwrap_or_else(|_| text.to_owned());
        // The rows, and for those that were accepted none.
        let mut known = HashMap::new();
        job.report(|row| {
            for name in [row.row.to_string(), key(&row.address)] {
                match row.status.as_str() {
                    "unknown" => _ = known.insert(name, Some(row.row)),
                    _ if row.is_accepted() => _ = known.entry(name).or_default(),
                    _ => {}
                }
            }
            Ok(())
        })
        .await?;
        let rows = |option: &str, names: &[String]| {
            let mut rows = Vec::new();
            for name in names {
                for each in entries(context, option, name)? {
                    match known.get(&key(&each)) {
                        Some(Some(row)) => rows.push(*row),
                        Some(None) if option == "--sent" => {}
                        _ => {
                            let problem = format!("{option}: no unknown row is `{each}`");
                            let list = format!("list them: svc bulk report {}", self.job.job);
                            return Err(Failure::input(problem).hint(list));
                        }
                    }
                }
            }
            Ok::<_, Failure>(rows)
        };

        let sent = rows("--sent", &self.sent)?;
        let resend = rows("--resend", &self.resend)?;
        if let Some(both) = sent.iter().find(|row| resend.contains(row)) {
            return Err(Failure::usage(format!(
                "row {both} is in both --sent and --resend"
            )));
        }

        let (sent, resend) = job.ledger.settle(job.id(), &sent, &resend).await?;
        job.reload().await?;
        context.out.note(&format!(
            "{sent} rows count as sent; {resend} will be sent again"
        ));
        if resend > 0 {
            context
                .out
                .hint(&format!("send them: {}", job.svc(context, "resume")));
        }

        show(context, &job)
    }
}

/// The entries of a file, or the address or row itself.
fn entries(context: &Context, option: &str, name: &str) -> Result<Vec<String>, Failure> {
    let is_file = name == "-" || context.settings.path(Path::new(name)).is_file();
    if !is_file && (name.contains('@') || name.parse::<u64>().is_ok()) {
        return Ok(vec![name.to_owned()]);
    }
    list(context, option, Path::new(name))
}

/// The entries of a file: those of its column of addresses, or else its lines.
pub fn list(context: &Context, option: &str, path: &Path) -> Result<Vec<String>, Failure> {
    let bytes = context.bytes(option, path)?;
    // Nobody to leave out is more likely a mistake.
    if bytes.trim_ascii().is_empty() && option != "--suppress" {
        return Ok(Vec::new());
    }

    let options = ColumnOptions::default();
    let records = Records::new(Box::new(std::io::Cursor::new(bytes.clone())), path)?;
    let has_addresses = |columns: &[Arc<str>]| {
        options
            .address(&columns.iter().map(AsRef::as_ref))
            .is_ok_and(|at| at.is_some())
    };

    if !records.columns().is_none_or(has_addresses) {
        let text = String::from_utf8_lossy(&bytes);
        let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
        return Ok(lines
            .filter(|line| !line.is_empty())
            .map(str::to_owned)
            .collect());
    }

    let mut people = PeopleFile::new(records, &options)?;
    let mut entries = Vec::new();
    while let Some(Person {
        record, address, ..
    }) = people.next()?
    {
        if address.is_none() {
            let problem = format!(
                "{option}: {}: entry {} has no",
                path.display(),
                record.number
            );
            return Err(Failure::input(format!("{problem} address"))
                .hint("write one address per line, or objects with the key `email`"));
        }
        let value = address.and_then(|at| record.fields.get(at)?.1.as_str());
        entries.extend(value.filter(|value| !value.is_empty()).map(str::to_owned));
    }

    Ok(entries)
}
