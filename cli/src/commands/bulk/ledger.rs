//! Where jobs are recorded: in `bulk.db` in the state directory, or in a PostgreSQL server that
//! several machines share.

use std::error::Error;

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use svc_bulk::deadpool_postgres::Pool;
use svc_bulk::{
    Ledger, LedgerError, LedgerErrorKind, RowRecord, RowStatus, SendRecord, SendState, Totals,
};

use super::message::Renderer;
use super::outcomes::Outcome;
use super::plan::{Plan, attachment, is_sandbox};
use super::postgres;
use crate::complete::Values;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::output::{Column, View, timestamp};
use crate::private_files;

/// Where the jobs are.
#[derive(Args, Debug)]
pub struct LedgerOption {
    /// PostgreSQL database with the jobs, such as postgres://USER@HOST/DB [env: SVC_BULK_LEDGER]
    ///
    /// Several machines share it. Without it, jobs are recorded on this machine. Other users of
    /// this machine can read a password in a command line, but not in SVC_BULK_LEDGER, which
    /// --env-file may set, too.
    #[arg(long, hide_short_help = true, value_name = "URL")]
    pub ledger: Option<String>,
}

/// A job, by its id.
#[derive(Args, Debug)]
pub struct JobOption {
    /// Job id, or its start
    #[arg(add = Values::Job.candidates())]
    pub job: String,
    #[command(flatten)]
    pub ledger: LedgerOption,
}

impl LedgerOption {
    /// Opens the ledger, and removes what was kept for long enough.
    pub async fn open(&self, context: &Context) -> Result<Ledger, Failure> {
        let settings = &context.settings;
        let ledger = match self.ledger.as_ref().or(settings.bulk_ledger.as_ref()) {
            Some(url) => {
                let pool: Pool = postgres::pool(context, url)?;
                Ledger::postgres(pool).await.map_err(|error| {
                    let kind = match error.kind() {
                        LedgerErrorKind::Unavailable => Kind::Unavailable,
                        _ => Kind::Other,
                    };
                    Failure::new(kind, format!("--ledger: {}", describe(&error)))
                        .code("ledger_unreachable")
                        .hint("check the address and the password, and that PostgreSQL is running")
                })?
            }
            None => Self::open_here(context).await?,
        };
        Ok(ledger)
    }

    async fn open_here(context: &Context) -> Result<Ledger, Failure> {
        let folder = &context.settings.state_dir;
        let path = folder.join("bulk.db");
        let failed = |error: &dyn std::fmt::Display| {
            let problem = format!(
                "cannot keep a record of jobs in {}: {error}",
                path.display()
            );
            Failure::other(problem).code("no_state_directory").hint(
                "a job needs a record of what was sent; set HOME or XDG_STATE_HOME to a directory \
                 that can be written",
            )
        };

        private_files::create_dir(folder).map_err(|error| failed(&error))?;
        if !path.exists() {
            // Private, as SQLite's other files then are, too. Another process may be as fast.
            drop(private_files::append(&path).map_err(|error| failed(&error))?);
        }
        Ledger::sqlite(&path).await.map_err(|error| failed(&error))
    }

    /// Whether jobs are in another place than this machine's ledger by an option alone.
    pub fn as_option(&self, context: &Context) -> &'static str {
        let is_found = self.ledger.is_none() || context.settings.bulk_ledger.is_some();
        if is_found { "" } else { " --ledger URL" }
    }
}

/// A job, and how far it is.
pub struct StoredJob {
    pub ledger: Ledger,
    pub record: SendRecord,
    pub plan: Plan,
    /// How a command line names the ledger.
    option: &'static str,
}

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    Running,
    Paused,
    Cancelled,
    Complete,
    /// Complete, except for rows whose outcome is unknown.
    Unknown,
    /// Not complete, and no process is sending it.
    Incomplete,
}

impl JobOption {
    /// The job with the id, or with the only id that starts so.
    pub async fn find(&self, context: &Context) -> Result<StoredJob, Failure> {
        let ledger = self.ledger.open(context).await?;
        let option = self.ledger.as_option(context);
        let id = only(&ledger.ids().await?, &self.job)?;
        StoredJob::read(&ledger, &id, option).await
    }
}

/// The id that is this text, or the only one that starts with it.
fn only(ids: &[String], start: &str) -> Result<String, Failure> {
    if let Some(exactly) = ids.iter().find(|id| *id == start) {
        return Ok(exactly.clone());
    }
    let mut found = ids
        .iter()
        .filter(|id| !start.is_empty() && id.starts_with(start));
    match (found.next(), found.count()) {
        (Some(only), 0) => Ok(only.clone()),
        (None, _) => {
            let missing = format!("no job has the id `{start}`");
            Err(Failure::new(Kind::NotFound, missing).hint("list the jobs: svc bulk list"))
        }
        (Some(_), others) => {
            let count = others + 1;
            let problem = format!("{count} jobs have an id that starts with `{start}`");
            Err(Failure::usage(problem).hint("list them: svc bulk list"))
        }
    }
}

/// All jobs of a ledger, the oldest first. One of another version is warned of.
pub async fn all(
    context: &Context,
    ledger: &Ledger,
    option: &LedgerOption,
) -> Result<Vec<StoredJob>, Failure> {
    let option = option.as_option(context);
    let mut jobs = Vec::new();
    for record in ledger.sends().await? {
        let id = record.id.clone();
        match StoredJob::new(ledger, record, option) {
            Ok(job) => jobs.push(job),
            Err(failure) => {
                let problem = &failure.message;
                context
                    .out
                    .warning(&format!("job {id} is left out: {problem}"));
            }
        }
    }
    Ok(jobs)
}

impl StoredJob {
    pub async fn read(ledger: &Ledger, id: &str, option: &'static str) -> Result<Self, Failure> {
        Self::new(ledger, ledger.send(id).await?, option)
    }

    fn new(ledger: &Ledger, record: SendRecord, option: &'static str) -> Result<Self, Failure> {
        let plan = serde_json::from_value(record.settings.clone())
            .map_err(|_| Failure::other("not a job of this version of svc"))?;
        Ok(Self {
            ledger: ledger.clone(),
            record,
            plan,
            option,
        })
    }

    /// Reads the job again.
    pub async fn reload(&mut self) -> Result<(), Failure> {
        self.record = self.ledger.send(&self.record.id).await?;
        Ok(())
    }

    pub fn id(&self) -> &str {
        &self.record.id
    }

    pub fn state(&self) -> JobState {
        let record = &self.record;
        match record.state {
            SendState::Cancelled if !self.is_done() || self.plan.email.scheduled_at.is_some() => {
                JobState::Cancelled
            }
            _ if self.is_done() && record.totals.unknown > 0 => JobState::Unknown,
            _ if self.is_done() => JobState::Complete,
            SendState::Paused => JobState::Paused,
            _ if record.workers > 0 => JobState::Running,
            _ => JobState::Incomplete,
        }
    }

    fn is_done(&self) -> bool {
        self.record.is_complete()
    }

    /// Whether no more of its rows will be sent.
    pub fn has_ended(&self) -> bool {
        matches!(
            self.state(),
            JobState::Complete | JobState::Unknown | JobState::Cancelled
        )
    }

    /// The rows that are neither settled nor unknown.
    pub fn not_sent(&self) -> u64 {
        self.record.totals.not_sent + self.record.totals.in_flight
    }

    /// When its emails are sent or were sent last.
    pub fn sent_at(&self) -> chrono::DateTime<chrono::Utc> {
        let changed_at = self.plan.time(self.record.changed_at);
        self.plan
            .scheduled_at()
            .map_or(changed_at, |at| at.max(changed_at))
    }

    /// A command about the job, as a command line.
    pub fn svc(&self, context: &Context, verb: &str) -> String {
        let command = format!("bulk {verb} {{}}{}", self.option);
        context.svc(&command, &[self.id()])
    }

    /// How to leave out those who have got an email of the job.
    pub fn without(&self, context: &Context) -> String {
        let report = self.svc(context, "report");
        format!(
            "leave out those who have got it: {report} --status accepted,unknown > got.csv, then add \
             --suppress got.csv to svc bulk send"
        )
    }

    /// Calls `each` for every row with one of these states, in their order.
    pub async fn each_row(
        &self,
        statuses: &[RowStatus],
        mut each: impl FnMut(RowRecord) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut last = 0;
        loop {
            let rows = self.ledger.rows(self.id(), last, statuses).await?;
            let Some(end) = rows.last() else {
                return Ok(());
            };
            last = end.number;
            for row in rows {
                each(row)?;
            }
        }
    }

    /// Calls `each` for every row of the report, in their order.
    pub async fn report(
        &self,
        mut each: impl FnMut(Outcome) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let only_to = self.plan.only_to.as_deref();
        self.each_row(&[], |mut row| {
            if let Some(only_to) = only_to.filter(|_| row.status != RowStatus::LeftOut) {
                row.address = only_to.to_owned();
            }
            each(Outcome::new(row))
        })
        .await
    }

    /// Renders the emails of the job.
    pub async fn renderer(&self) -> Result<Renderer, Failure> {
        let mut contents = Vec::new();
        for number in 0..self.plan.attachments.len() {
            contents.push(self.ledger.file(self.id(), &attachment(number)).await?);
        }
        self.plan.renderer(contents)
    }

    pub fn summary(&self) -> JobSummary {
        let plan = &self.plan;
        let record = &self.record;
        let state = self.state();
        let totals = record.totals;
        // A run with --sandbox uses nothing of the profile but its guard.
        let is_sandbox = is_sandbox(&plan.service);
        let profile = if is_sandbox { "sandbox" } else { &plan.profile };
        JobSummary {
            job: record.id.clone(),
            state,
            summary: self.sentence(state),
            total: totals.total(),
            accepted: totals.accepted,
            refused: totals.refused,
            invalid: totals.invalid,
            unknown: totals.unknown,
            not_sent: self.not_sent(),
            left_out: totals.left_out,
            left_out_invalid: plan.left_out.of("invalid"),
            created: timestamp(record.created_at),
            subject: plan.email.subject.clone(),
            file: plan.file.clone(),
            audience: plan.audience.clone(),
            profile: profile.to_owned(),
            service: if is_sandbox { "sandbox" } else { &plan.service }.to_owned(),
            scheduled_at: plan.scheduled_at().map(timestamp),
            workers: record.workers,
        }
    }

    /// The state in words, such as `complete with 3 refused`.
    fn sentence(&self, state: JobState) -> String {
        let Totals {
            refused,
            invalid,
            unknown,
            ..
        } = self.record.totals;
        let word = match state {
            JobState::Running => "running",
            JobState::Paused => "paused",
            JobState::Cancelled => "cancelled",
            JobState::Complete | JobState::Unknown => "complete",
            JobState::Incomplete => "incomplete",
        };
        let counts = [
            (refused, "refused"),
            (invalid, "invalid"),
            (unknown, "unknown"),
        ];
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        let counts = counts.map(|(count, what)| format!("{count} {what}"));
        let counts = counts.collect::<Vec<_>>().join(", ");
        if word == "complete" && !counts.is_empty() {
            return format!("{word} with {counts}");
        }

        match self.plan.scheduled_at() {
            Some(at) if state == JobState::Complete && at > chrono::Utc::now() => {
                format!("scheduled for {}", at.format("%Y-%m-%d %H:%M UTC"))
            }
            _ => word.to_owned(),
        }
    }
}

/// The error with its causes, without which one of PostgreSQL says little.
fn describe(error: &LedgerError) -> String {
    let mut text = error.to_string();
    // The first cause is in the text.
    let mut cause = error.source().and_then(Error::source);
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

impl From<LedgerError> for Failure {
    fn from(error: LedgerError) -> Self {
        match error.kind() {
            LedgerErrorKind::Unavailable => {
                Self::new(Kind::Unavailable, describe(&error)).code("ledger_unreachable")
            }
            LedgerErrorKind::NotFound => Self::new(Kind::NotFound, "the job was removed meanwhile"),
            LedgerErrorKind::Cancelled => Self::new(
                Kind::Refused,
                "the job was cancelled, which cannot be undone",
            )
            .code("job_is_cancelled"),
            _ => Self::other(describe(&error)).code("ledger_failed"),
        }
    }
}

/// A job and how far it is.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct JobSummary {
    job: String,
    state: JobState,
    /// The state in words, such as `complete with 301 refused`.
    pub summary: String,
    /// The number of emails.
    total: u64,
    accepted: u64,
    refused: u64,
    /// Rows of which no valid email could be made when they were to be sent.
    invalid: u64,
    unknown: u64,
    not_sent: u64,
    /// The number of rows that are not sent to.
    left_out: u64,
    /// How many of them are invalid.
    left_out_invalid: u64,
    created: String,
    subject: String,
    /// The file that the rows were read from.
    file: Option<String>,
    /// The audience that the rows were read from.
    audience: Option<String>,
    profile: String,
    /// The base URL of the service, or `sandbox`.
    service: String,
    /// When the service is to send the emails.
    scheduled_at: Option<String>,
    /// How many processes send it.
    workers: u64,
}

/// Table columns of a job. The status names those that are refused or unknown.
pub const VIEW: View = View(&[
    Column::id("JOB", "/job"),
    Column::status("STATUS", "/summary"),
    Column::number("TOTAL", "/total"),
    Column::number("ACCEPTED", "/accepted"),
    Column::number("NOT SENT", "/not_sent"),
    Column::text("SUBJECT", "/subject"),
    Column::time("CREATED", "/created").droppable(),
    Column::number("REFUSED", "/refused").droppable(),
    Column::number("UNKNOWN", "/unknown").droppable(),
    Column::number("LEFT OUT", "/left_out").droppable(),
    Column::number("WORKERS", "/workers").droppable(),
    Column::text("FILE", "/file").droppable(),
    Column::text("PROFILE", "/profile").droppable(),
]);
