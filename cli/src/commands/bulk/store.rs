//! Where jobs are: in folders of this machine, or in Redis, which workers on any number of machines
//! share.

use std::io::ErrorKind;
use std::path::PathBuf;

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use svc_bulk::{
    JobInfo, Journal, JournalState, QueueState, QueueStatus, RedisQueue, RowRefusal, Totals,
    WorkerStatus,
};

use super::jobs::{self, JobState, Jobs, LocalJob, Mark, not_sent};
use super::outcomes::{FinalStatus, Outcome, Rows, left_out};
use super::plan::{LEFT_OUT, Plan};
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

/// A job where it is.
pub enum StoredJob {
    Here(Box<LocalJob>),
    Queued { queue: RedisQueue, status: Box<QueueStatus>, plan: Box<Plan> },
}

impl JobOption {
    /// The job. One in Redis is meant if --queue is given, or none of this machine has the id.
    pub async fn find(&self, context: &Context) -> Result<StoredJob, Failure> {
        let here = Jobs::of(&context.settings).find(&self.job);
        if self.queue.queue.is_none() && (here.is_ok() || context.settings.bulk_queue.is_none()) {
            return Ok(StoredJob::Here(Box::new(LocalJob::read(&here?)?)));
        }
        let queue = self.queue.connect(context).await?;
        let id = find_id(&queue, &self.job).await?;
        queued(queue, &id).await
    }
}

/// The id of a job in Redis, of which this is the start.
pub async fn find_id(queue: &RedisQueue, start: &str) -> Result<String, Failure> {
    let mut ids = queue.jobs().await?;
    ids.retain(|id| id.starts_with(start));
    match &ids[..] {
        [id] => Ok(id.clone()),
        [] => Err(Failure::new(Kind::NotFound, format!("no job in Redis has the id `{start}`"))),
        ids if ids.iter().any(|id| id == start) => Ok(start.to_owned()),
        ids => Err(jobs::ambiguous(ids.len(), start)),
    }
}

pub async fn queued(queue: RedisQueue, id: &str) -> Result<StoredJob, Failure> {
    let status = Box::new(status(&queue, id).await?);
    let plan = Box::new(plan_of(&status)?);
    Ok(StoredJob::Queued { queue, status, plan })
}

pub async fn status(queue: &RedisQueue, id: &str) -> Result<QueueStatus, Failure> {
    queue.status(id).await.map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            Failure::new(Kind::NotFound, format!("no job in Redis has the id `{id}`"))
        }
        _ => Failure::from(error),
    })
}

pub fn plan_of(status: &QueueStatus) -> Result<Plan, Failure> {
    serde_json::from_value(status.info.settings.clone())
        .map_err(|_| Failure::other("the job in Redis was not made by this version of svc"))
}

impl StoredJob {
    pub fn info(&self) -> &JobInfo {
        match self {
            Self::Here(job) => &job.info,
            Self::Queued { status, .. } => &status.info,
        }
    }

    pub fn plan(&self) -> &Plan {
        match self {
            Self::Here(job) => &job.plan,
            Self::Queued { plan, .. } => plan,
        }
    }

    pub fn state(&self) -> JobState {
        match self {
            Self::Here(job) => job.state(),
            Self::Queued { status, .. } => match status.state {
                QueueState::Complete if status.totals.unknown > 0 => JobState::Unknown,
                QueueState::Complete => JobState::Complete,
                QueueState::Paused => JobState::Paused,
                QueueState::Cancelled => JobState::Cancelled,
                _ => JobState::Running,
            },
        }
    }

    /// Why the service refuses the emails of the job, if that has paused it.
    pub fn cause(&self) -> Option<&RowRefusal> {
        match self {
            Self::Queued { status, .. } if status.state == QueueState::Paused => {
                status.cause.as_ref()
            }
            _ => None,
        }
    }

    pub fn summary(&self) -> JobSummary {
        let (totals, journal, workers) = match self {
            Self::Here(job) => (job.totals, Some(jobs::journal(&job.folder)), None),
            Self::Queued { status, .. } => {
                (status.totals, None, Some(status.workers.iter().map(worker).collect()))
            }
        };
        JobSummary::new(self.info(), self.plan(), totals, self.state(), journal, workers)
    }

    /// Pauses, continues or cancels the job.
    pub async fn set(&mut self, wanted: QueueState) -> Result<(), Failure> {
        let cancelled = || {
            Failure::new(Kind::Refused, "the job was cancelled, which cannot be undone")
                .code("job_is_cancelled")
        };
        match self {
            Self::Here(job) => {
                let is_cancelled = job.mark == Some(Mark::Cancelled);
                if is_cancelled && wanted != QueueState::Cancelled {
                    return Err(cancelled());
                }
                if wanted == QueueState::Paused && !job.is_running {
                    return Err(Failure::new(Kind::Refused, "no process is sending the job")
                        .code("job_is_not_running"));
                }
                let mark = match wanted {
                    QueueState::Paused => Some(Mark::Paused),
                    QueueState::Cancelled => Some(Mark::Cancelled),
                    _ => None,
                };
                jobs::set_mark(&job.folder, mark)?;
                job.mark = mark;
            }
            Self::Queued { queue, status, .. } => {
                let state = queue.set_state(&status.info.job, wanted).await?;
                if state != wanted {
                    return Err(cancelled());
                }
                **status = self::status(queue, &status.info.job).await?;
            }
        }
        Ok(())
    }

    /// Settles unknown rows. Returns how many were sent, and how many will be sent again.
    pub async fn settle(&mut self, sent: &[u64], resend: &[u64]) -> Result<(u64, u64), Failure> {
        match self {
            Self::Here(job) => {
                let mut journal = open_journal(job)?;
                let count = journal.settle(sent, resend).await?;
                drop(journal);
                **job = LocalJob::read(&job.folder)?;
                Ok(count)
            }
            Self::Queued { queue, status, .. } => {
                let count = queue.settle(&status.info.job, sent, resend).await?;
                **status = self::status(queue, &status.info.job).await?;
                Ok(count)
            }
        }
    }

    /// Deletes the job with the addresses that it holds.
    pub async fn remove(&self) -> Result<(), Failure> {
        match self {
            Self::Here(job) => {
                // So that no process starts to send it meanwhile.
                drop(open_journal(job)?);
                Ok(std::fs::remove_dir_all(&job.folder)?)
            }
            Self::Queued { queue, status, .. } => Ok(queue.remove(&status.info.job).await?),
        }
    }

    /// Calls `each` for every row with an outcome, in the order of the requests.
    pub async fn report(
        &self,
        mut each: impl FnMut(Outcome) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let (queue, status) = match self {
            Self::Here(job) => return report_of_journal(job, each),
            Self::Queued { queue, status, .. } => (queue, status),
        };
        let job = &status.info.job;
        for chunk in 0..status.chunks {
            let entries = queue.entries(job, chunk).await?;
            let mut state = JournalState::default();
            entries.iter().for_each(|entry| state.apply(entry));
            let missing = if status.lost.contains(&chunk) { "unknown" } else { "in_flight" };
            let mut rows = Rows::new(state, missing);
            for entry in entries {
                rows.take(entry).into_iter().try_for_each(&mut each)?;
            }
            rows.unfinished().into_iter().try_for_each(&mut each)?;
        }
        left_out(queue.file(job, LEFT_OUT).await?.as_slice(), status.info.at, each)
    }
}

/// Reads the journal twice, so that it need not be held in memory.
fn report_of_journal(
    job: &LocalJob,
    mut each: impl FnMut(Outcome) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let statuses = FinalStatus::read(&job.folder)?;
    let mut each = |mut row: Outcome| {
        if let Some(known) = statuses.get(&row.row).filter(|_| row.status == "accepted") {
            row.status.clone_from(&known.status);
            row.message = known.reason.clone().or(row.message);
        }
        each(row)
    };
    let failed = |error: std::io::Error| Failure::other(format!("the journal: {error}"));
    let records = || Journal::read(jobs::journal(&job.folder)).map_err(failed);
    let state = records()?.state().map_err(failed)?.stopped();
    let missing = if job.is_running { "in_flight" } else { "unknown" };
    let mut report = Rows::new(state, missing);
    for entry in records()? {
        report.take(entry.map_err(failed)?).into_iter().try_for_each(&mut each)?;
    }
    report.unfinished().into_iter().try_for_each(&mut each)?;
    let file = std::fs::File::open(job.folder.join(LEFT_OUT))?;
    left_out(std::io::BufReader::new(file), job.created(), each)
}

/// Opens the journal of a job that no process is sending.
pub fn open_journal(job: &LocalJob) -> Result<Journal, Failure> {
    Journal::open(jobs::journal(&job.folder), &job.info.source).map_err(|error| {
        match error.kind() {
            ErrorKind::WouldBlock => {
                Failure::new(Kind::Refused, "another process is working on this job")
                    .code("job_is_running")
            }
            _ => Failure::other(format!("the journal cannot be opened: {error}")),
        }
    })
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
    summary: String,
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
    /// Of a job in Redis.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<Worker>")]
    pub workers: Option<Vec<Worker>>,
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
    Column::new("CREATED", "/created", Show::Time),
    Column::text("SUBJECT", "/subject").droppable(),
    Column::text("FILE", "/file").droppable(),
    Column::text("PROFILE", "/profile").droppable(),
]);

/// Table columns of a worker.
pub const WORKERS: View = View(&[
    Column::id("WORKER", "/worker"),
    Column::new("STATE", "/state", Show::Status),
    Column::new("SEEN", "/seen", Show::Time),
    Column::new("REQUESTS", "/requests", Show::Number),
    Column::new("ACCEPTED", "/accepted", Show::Number),
    Column::new("REFUSED", "/refused", Show::Number),
    Column::new("UNKNOWN", "/unknown", Show::Number),
]);

impl JobSummary {
    /// The state in words.
    pub fn words(&self) -> &str {
        &self.summary
    }

    fn new(
        info: &JobInfo,
        plan: &Plan,
        totals: Totals,
        state: JobState,
        journal: Option<PathBuf>,
        workers: Option<Vec<Worker>>,
    ) -> Self {
        let total = info.rows.unwrap_or_default();
        let not_sent = not_sent(total, totals);
        let word = match state {
            JobState::Running => "running",
            JobState::Paused => "paused",
            JobState::Cancelled => "cancelled",
            JobState::Complete | JobState::Unknown => "complete",
            JobState::Incomplete => "incomplete",
        };
        let has_ended = matches!(state, JobState::Complete | JobState::Unknown);
        let counts =
            [(totals.refused, "refused"), (totals.invalid, "invalid"), (totals.unknown, "unknown")];
        let counts = counts.into_iter().filter(|(count, _)| has_ended && *count > 0);
        let counts = counts.map(|(count, what)| format!("{count} {what}")).collect::<Vec<_>>();
        let summary = match counts.is_empty() {
            true => word.to_owned(),
            false => format!("{word} with {}", counts.join(", ")),
        };
        Self {
            job: info.job.clone(),
            state,
            summary,
            total,
            accepted: totals.accepted,
            refused: totals.refused,
            invalid: totals.invalid,
            unknown: totals.unknown,
            not_sent,
            left_out: plan.left_out.total(),
            left_out_invalid: plan.left_out.invalid,
            created: timestamp(info.at),
            subject: plan.message.subject.clone(),
            file: plan.file.as_ref().map(|path| path.display().to_string()),
            audience: plan.audience.clone(),
            profile: plan.profile.clone(),
            service: plan.service.clone(),
            scheduled_at: plan.message.scheduled_at.clone(),
            journal,
            workers,
        }
    }
}

#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Worker {
    /// Its name, with a random suffix.
    worker: String,
    state: WorkerState,
    seen: String,
    requests: u64,
    accepted: u64,
    refused: u64,
    invalid: u64,
    unknown: u64,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum WorkerState {
    Sending,
    Waiting,
    Silent,
    Left,
}

fn worker(worker: &WorkerStatus) -> Worker {
    Worker {
        worker: worker.name.clone(),
        state: match worker {
            _ if worker.has_left => WorkerState::Left,
            _ if worker.silent >= worker.lease => WorkerState::Silent,
            _ if worker.chunks > 0 => WorkerState::Sending,
            _ => WorkerState::Waiting,
        },
        seen: timestamp(worker.seen),
        requests: worker.chunks,
        accepted: worker.totals.accepted,
        refused: worker.totals.refused,
        invalid: worker.totals.invalid,
        unknown: worker.totals.unknown,
    }
}
