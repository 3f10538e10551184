//! A job where it is: in a folder of this machine, or in Redis, which workers on any number of
//! machines share.

use std::collections::HashSet;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use svc_bulk::{
    BulkRow, JobInfo, Journal, JournalState, QueueState, QueueStatus, RedisQueue, RowRefusal,
    Totals,
};

use super::jobs::{self, Jobs};
use super::outcomes::{FinalStatus, Outcome, left_out};
use super::plan::{ADDRESSES, LEFT_OUT, Plan, PreparedRow, attachment, hash_of, hashes, rows};
use crate::complete::Values;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::output::{Column, Show, View, timestamp};

/// Where the job is.
#[derive(Args, Debug)]
pub struct QueueOption {
    /// Redis server with the job, such as redis://:PASSWORD@HOST [env: SVC_BULK_QUEUE]
    ///
    /// rediss:// uses TLS; for Redis, --ca-bundle replaces the platform's certificates. Other users
    /// of this machine can read a password in a command line, but not in SVC_BULK_QUEUE, which
    /// --env-file may set, too.
    #[arg(long, value_name = "URL")]
    pub queue: Option<String>,
}

/// A job, by its id.
#[derive(Args, Debug)]
pub struct JobOption {
    /// Job id, or its start
    #[arg(add = Values::Job.candidates())]
    pub job: String,
    #[command(flatten)]
    pub queue: QueueOption,
}

impl QueueOption {
    /// Whether there is a Redis server.
    pub fn is_set(&self, context: &Context) -> bool {
        self.queue.is_some() || context.settings.bulk_queue.is_some()
    }

    pub async fn connect(&self, context: &Context) -> Result<RedisQueue, Failure> {
        let given = self.queue.as_ref().filter(|url| !url.is_empty());
        let (url, source) = match (given, &context.settings.bulk_queue) {
            (Some(url), _) => (url, "--queue"),
            (None, Some(url)) => (url, "SVC_BULK_QUEUE"),
            (None, None) => {
                return Err(Failure::usage("no Redis server is given")
                    .hint("add --queue redis://HOST, or set SVC_BULK_QUEUE"));
            }
        };
        let connected = match context.ca_bundle()? {
            Some(pem) => RedisQueue::connect_with_ca(url, pem).await,
            None => RedisQueue::connect(url).await,
        };
        connected.map_err(|error| match error.kind() {
            ErrorKind::InvalidInput | ErrorKind::Unsupported => {
                Failure::usage(format!("{source}: {error}"))
            }
            _ => Failure::new(Kind::Unavailable, format!("{source}: {error}"))
                .code("queue_unreachable")
                .hint("check the address and the password, and that Redis is running"),
        })
    }

    /// The option for a hint, without the URL.
    pub fn hint(&self) -> &'static str {
        if self.queue.is_some() { " --queue URL" } else { "" }
    }
}

/// A job, and how far it is.
pub struct StoredJob {
    pub info: JobInfo,
    pub plan: Plan,
    pub totals: Totals,
    pub state: JobState,
    /// Why the service refuses the emails of the job, if that has paused it.
    pub cause: Option<RowRefusal>,
    pub place: Place,
    /// When the journal was written last, or a job in Redis was created.
    changed: SystemTime,
}

/// Where a job is.
pub enum Place {
    Here { folder: PathBuf, is_running: bool, wish: QueueState },
    Redis { queue: RedisQueue, workers: usize, chunks: u64, lost: Vec<u64> },
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
    /// The job. One in Redis is meant if --queue is given, or none of this machine has the id.
    pub async fn find(&self, context: &Context) -> Result<StoredJob, Failure> {
        let here = Jobs::of(&context.settings).find(&self.job);
        if self.queue.queue.is_none() && (here.is_ok() || context.settings.bulk_queue.is_none()) {
            return StoredJob::here(&here?);
        }
        let queue = self.queue.connect(context).await?;
        let id = find_id(&queue, &self.job).await?;
        StoredJob::queued(&queue, &id).await
    }
}

/// The id of a job in Redis, of which this is the start.
pub async fn find_id(queue: &RedisQueue, start: &str) -> Result<String, Failure> {
    let missing = format!("no job in Redis has the id `{start}`");
    let hint = "list its jobs: svc bulk list --queue URL";
    jobs::only(&queue.jobs().await?, start, &missing, hint).cloned()
}

/// The jobs of this machine, if `is_here`, and of a queue. One that cannot be read is warned of.
pub async fn all(
    context: &Context,
    is_here: bool,
    queue: Option<&RedisQueue>,
) -> Result<Vec<StoredJob>, Failure> {
    let mut all = Vec::new();
    let mut add = |id: &str, job: Result<StoredJob, Failure>| match job {
        Ok(job) => all.push(job),
        Err(failure) => {
            let problem = &failure.details().message;
            context.out.warning(&format!("job {id} is left out: {problem}"));
        }
    };
    let folders = if is_here { Jobs::of(&context.settings).folders()? } else { Vec::new() };
    for folder in folders {
        add(&jobs::name(&folder), StoredJob::here(&folder));
    }
    let Some(queue) = queue else { return Ok(all) };
    for id in queue.jobs().await? {
        match StoredJob::queued(queue, &id).await {
            // Someone has deleted its keys.
            Err(failure) if failure.kind() == Kind::NotFound => {}
            job => add(&id, job),
        }
    }
    Ok(all)
}

impl StoredJob {
    /// The job in a folder of this machine.
    pub fn here(folder: &Path) -> Result<Self, Failure> {
        let path = jobs::journal(folder);
        let failed =
            |problem: &dyn Display| Failure::other(format!("{}: {problem}", path.display()));
        let is_running = Journal::is_open(&path).map_err(|error| failed(&error))?;
        let mut journal = Journal::read(&path).map_err(|error| failed(&error))?;
        let info = journal.info().clone();
        let plan = plan_of(&info).map_err(|other| failed(&other.details().message))?;
        let known = journal.state().map_err(|error| failed(&error))?;
        // Of a running job, what is in flight is not counted.
        let totals = if is_running { known.totals() } else { known.stopped().totals() };
        let wish = jobs::wish(folder);
        let state = match (is_running, wish, not_sent(&info, totals)) {
            (true, QueueState::Paused, _) => JobState::Paused,
            (true, ..) => JobState::Running,
            (_, QueueState::Cancelled, 1..) => JobState::Cancelled,
            (_, QueueState::Cancelled, _) if plan.email.scheduled_at.is_some() => {
                JobState::Cancelled
            }
            (.., 0) if totals.unknown > 0 => JobState::Unknown,
            (.., 0) => JobState::Complete,
            _ => JobState::Incomplete,
        };
        let changed = std::fs::metadata(&path).and_then(|found| found.modified());
        let changed = changed.unwrap_or_else(|_| SystemTime::now());
        let place = Place::Here { folder: folder.to_owned(), is_running, wish };
        Ok(Self { info, plan, totals, state, cause: None, place, changed })
    }

    /// The job in Redis with this id.
    pub async fn queued(queue: &RedisQueue, id: &str) -> Result<Self, Failure> {
        let status = queue.status(id).await.map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                Failure::new(Kind::NotFound, format!("no job in Redis has the id `{id}`"))
            }
            _ => Failure::from(error),
        })?;
        let state = match status.state {
            QueueState::Complete if status.totals.unknown > 0 => JobState::Unknown,
            QueueState::Complete => JobState::Complete,
            QueueState::Paused => JobState::Paused,
            QueueState::Cancelled => JobState::Cancelled,
            _ => JobState::Running,
        };
        let QueueStatus { info, totals, workers, chunks, lost, .. } = status;
        let workers = workers.iter().filter(|it| !it.has_left && it.silent < it.lease).count();
        let cause = status.cause.filter(|_| state == JobState::Paused);
        let place = Place::Redis { queue: queue.clone(), workers, chunks, lost };
        Ok(Self {
            plan: plan_of(&info)?,
            changed: info.at.into(),
            info,
            totals,
            state,
            cause,
            place,
        })
    }

    /// Reads the job again.
    async fn reload(&mut self) -> Result<(), Failure> {
        *self = match &self.place {
            Place::Here { folder, .. } => Self::here(folder)?,
            Place::Redis { queue, .. } => Self::queued(queue, &self.info.job).await?,
        };
        Ok(())
    }

    /// The number of emails.
    pub fn total(&self) -> u64 {
        self.info.rows.unwrap_or_default()
    }

    /// The rows that are neither settled nor unknown.
    pub fn not_sent(&self) -> u64 {
        not_sent(&self.info, self.totals)
    }

    /// Whether it is in a folder of this machine.
    pub fn is_here(&self) -> bool {
        matches!(self.place, Place::Here { .. })
    }

    /// Whether no more of its rows will be sent.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, JobState::Complete | JobState::Unknown | JobState::Cancelled)
    }

    /// The time since its last change.
    pub fn age(&self) -> Duration {
        SystemTime::now().duration_since(self.changed).unwrap_or_default()
    }

    /// Pauses, continues or cancels the job.
    pub async fn set(&mut self, wanted: QueueState) -> Result<(), Failure> {
        let cancelled = || {
            Failure::new(Kind::Refused, "the job was cancelled, which cannot be undone")
                .code("job_is_cancelled")
        };
        match &self.place {
            Place::Here { folder, is_running, wish } => {
                if *wish == QueueState::Cancelled && wanted != *wish {
                    return Err(cancelled());
                }
                if wanted == QueueState::Paused && !is_running {
                    return Err(Failure::new(Kind::Refused, "no process is sending the job")
                        .code("job_is_not_running"));
                }
                jobs::set_wish(folder, wanted)?;
            }
            Place::Redis { queue, .. } => {
                if queue.set_state(&self.info.job, wanted).await? != wanted {
                    return Err(cancelled());
                }
            }
        }
        self.reload().await
    }

    /// Settles unknown rows. Returns how many were sent, and how many will be sent again.
    pub async fn settle(&mut self, sent: &[u64], resend: &[u64]) -> Result<(u64, u64), Failure> {
        let count = match &self.place {
            Place::Here { .. } => self.open_journal()?.settle(sent, resend).await?,
            Place::Redis { queue, .. } => queue.settle(&self.info.job, sent, resend).await?,
        };
        self.reload().await?;
        Ok(count)
    }

    /// Deletes the job with the addresses that it holds.
    pub async fn remove(&self) -> Result<(), Failure> {
        match &self.place {
            Place::Here { folder, .. } => {
                // So that no process starts to send it meanwhile.
                drop(self.open_journal()?);
                Ok(std::fs::remove_dir_all(folder)?)
            }
            Place::Redis { queue, .. } => Ok(queue.remove(&self.info.job).await?),
        }
    }

    /// Opens the journal of a job that no process is sending.
    pub fn open_journal(&self) -> Result<Journal, Failure> {
        let Place::Here { folder, .. } = &self.place else {
            return Err(Failure::other("the job is in Redis"));
        };
        Journal::open(jobs::journal(folder), &self.info.source).map_err(|error| {
            match error.kind() {
                ErrorKind::WouldBlock => {
                    Failure::new(Kind::Refused, "another process is working on this job")
                        .code("job_is_running")
                }
                _ => Failure::other(format!("the journal cannot be opened: {error}")),
            }
        })
    }

    /// A file of the job.
    async fn file(&self, name: &str) -> Result<Box<dyn BufRead>, Failure> {
        Ok(match &self.place {
            Place::Here { folder, .. } => Box::new(BufReader::new(File::open(folder.join(name))?)),
            Place::Redis { queue, .. } => {
                Box::new(Cursor::new(queue.file(&self.info.job, name).await?))
            }
        })
    }

    /// The hashes of those who have got an email of this job, or will.
    pub async fn addresses(&self) -> Result<HashSet<u64>, Failure> {
        let mut addresses = HashSet::new();
        if !self.has_ended() {
            let mut bytes = Vec::new();
            self.file(ADDRESSES).await?.read_to_end(&mut bytes)?;
            addresses.extend(hashes(&bytes));
            return Ok(addresses);
        }
        self.report(|row| {
            if !["refused", "invalid", "left_out", "cancelled"].contains(&row.status.as_str()) {
                addresses.extend(hash_of(&row.address));
            }
            Ok(())
        })
        .await?;
        Ok(addresses)
    }

    /// Calls `each` for every row with an outcome, in their order.
    pub async fn report(
        &self,
        mut each: impl FnMut(Outcome) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut left_out = left_out(self.file(LEFT_OUT).await?, self.info.at).peekable();
        let mut tell = |row: Outcome| {
            let is_before = |left_out: &Result<Outcome, Failure>| {
                left_out.as_ref().map_or(true, |left_out| left_out.row < row.row)
            };
            while let Some(before) = left_out.next_if(is_before) {
                each(before?)?;
            }
            each(row)
        };
        let sent_to = |address: String| self.plan.only_to.clone().unwrap_or(address);
        match &self.place {
            Place::Here { folder, is_running, .. } => {
                let statuses = FinalStatus::read(folder)?;
                let failed = |error: io::Error| Failure::other(format!("the journal: {error}"));
                let mut state = JournalState::with_rows();
                for entry in Journal::read(jobs::journal(folder)).map_err(failed)? {
                    state.apply(&entry.map_err(failed)?);
                }
                let state = if *is_running { state } else { state.stopped() };
                for row in rows(folder)? {
                    let (number, PreparedRow(address, _)) = row?;
                    let Some(known) = state.row(number) else { continue };
                    let mut row = Outcome::new(number, sent_to(address), known);
                    if let Some(known) = statuses.get(&number).filter(|_| row.status == "accepted")
                    {
                        row.status.clone_from(&known.status);
                        row.message = known.reason.clone().or(row.message);
                    }
                    tell(row)?;
                }
            }
            Place::Redis { queue, chunks, lost, .. } => {
                for chunk in 0..*chunks {
                    let mut state = JournalState::with_rows();
                    let entries = queue.entries(&self.info.job, chunk).await?;
                    entries.iter().for_each(|entry| state.apply(entry));
                    let state = if lost.contains(&chunk) { state.stopped() } else { state };
                    for row in queue.rows::<PreparedRow>(&self.info.job, chunk).await? {
                        let Some(known) = state.row(row.number) else { continue };
                        tell(Outcome::new(row.number, sent_to(row.data.0), known))?;
                    }
                }
            }
        }
        left_out.try_for_each(|row| each(row?))
    }

    pub fn summary(&self) -> JobSummary {
        let (plan, totals) = (&self.plan, self.totals);
        let word = match self.state {
            JobState::Running => "running",
            JobState::Paused => "paused",
            JobState::Cancelled => "cancelled",
            JobState::Complete | JobState::Unknown => "complete",
            JobState::Incomplete => "incomplete",
        };
        let has_ended = matches!(self.state, JobState::Complete | JobState::Unknown);
        let counts =
            [(totals.refused, "refused"), (totals.invalid, "invalid"), (totals.unknown, "unknown")];
        let counts = counts.into_iter().filter(|(count, _)| has_ended && *count > 0);
        let counts = counts.map(|(count, what)| format!("{count} {what}")).collect::<Vec<_>>();
        let summary = match counts.is_empty() {
            true => word.to_owned(),
            false => format!("{word} with {}", counts.join(", ")),
        };
        let (journal, workers) = match &self.place {
            Place::Here { folder, .. } => (Some(jobs::journal(folder)), None),
            Place::Redis { workers, .. } => (None, Some(*workers)),
        };
        JobSummary {
            job: self.info.job.clone(),
            state: self.state,
            summary,
            total: self.total(),
            accepted: totals.accepted,
            refused: totals.refused,
            invalid: totals.invalid,
            unknown: totals.unknown,
            not_sent: self.not_sent(),
            left_out: plan.left_out.total(),
            left_out_invalid: plan.left_out.of("invalid"),
            created: timestamp(self.info.at),
            subject: plan.email.subject.clone(),
            file: plan.file.as_ref().map(|path| path.display().to_string()),
            audience: plan.audience.clone(),
            profile: plan.profile.clone(),
            service: plan.service.clone(),
            scheduled_at: plan.email.scheduled_at.as_ref().map(|at| at.as_str().to_owned()),
            journal,
            workers,
        }
    }
}

fn plan_of(info: &JobInfo) -> Result<Plan, Failure> {
    serde_json::from_value(info.settings.clone())
        .map_err(|_| Failure::other("not a job of this version of svc"))
}

fn not_sent(info: &JobInfo, totals: Totals) -> u64 {
    let Totals { accepted, refused, invalid, unknown, .. } = totals;
    info.rows.unwrap_or_default().saturating_sub(accepted + refused + invalid + unknown)
}

/// Stores a job in Redis.
pub async fn enqueue(
    queue: &RedisQueue,
    folder: &Path,
    plan: &Plan,
    info: &JobInfo,
) -> Result<StoredJob, Failure> {
    let names = [LEFT_OUT, ADDRESSES].map(str::to_owned).into_iter();
    let names = names.chain((0..plan.attachments.len()).map(attachment));
    let files = names.map(|name| Ok((std::fs::read(folder.join(&name))?, name)));
    let files = files.collect::<io::Result<Vec<_>>>()?;
    let files = files.iter().map(|(content, name)| (name.as_str(), content.as_slice()));
    let rows = rows(folder)?.map(|row| match row {
        Ok((number, row)) => Ok(BulkRow::new(number, row)),
        Err(failure) => Err(io::Error::other(failure.details().message.clone())),
    });
    let rate = plan.rate.unwrap_or_default();
    queue.create(info, rate, &files.collect::<Vec<_>>(), rows).await?;
    StoredJob::queued(queue, &info.job).await
}

/// Refuses a server that may lose what it has confirmed, and warns of weaker settings.
pub async fn check_durability(context: &Context, queue: &RedisQueue) -> Result<(), Failure> {
    let warnings = queue.check_durability().await.map_err(|error| match error.kind() {
        ErrorKind::Unsupported => Failure::input(error.to_string()).code("queue_not_durable"),
        _ => Failure::from(error),
    })?;
    warnings.iter().for_each(|warning| context.out.warning(warning));
    Ok(())
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
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    file: Option<String>,
    /// The audience that the rows were read from.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    audience: Option<String>,
    profile: String,
    /// The base URL of the service, or `sandbox`.
    service: String,
    /// When the service is to send the emails.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    scheduled_at: Option<String>,
    /// Of a job of this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PathBuf")]
    journal: Option<PathBuf>,
    /// How many workers send a job in Redis.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize")]
    workers: Option<usize>,
}

/// Table columns of a job.
pub const VIEW: View = View(&[
    Column::id("JOB", "/job"),
    Column::new("STATE", "/summary", Show::Status),
    Column::new("TOTAL", "/total", Show::Number),
    Column::new("ACCEPTED", "/accepted", Show::Number),
    Column::new("REFUSED", "/refused", Show::Number),
    Column::new("UNKNOWN", "/unknown", Show::Number),
    Column::new("NOT SENT", "/not_sent", Show::Number),
    Column::new("LEFT OUT", "/left_out", Show::Number),
    Column::new("WORKERS", "/workers", Show::Number).droppable(),
    Column::new("CREATED", "/created", Show::Time),
    Column::text("SUBJECT", "/subject").droppable(),
    Column::text("FILE", "/file").droppable(),
    Column::text("PROFILE", "/profile").droppable(),
]);
