//! A job where it is: in a folder of this machine, or in Redis, which workers on any number of
//! machines share.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use chrono::{DateTime, Utc};
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use svc_bulk::{
    JobInfo, Journal, JournalState, QueueStatus, RedisQueue, RowRefusal, SendState, Totals,
};

use super::jobs::{self, Jobs};
use super::message::Renderer;
use super::outcomes::{FinalStatus, Outcome};
use super::people::SHOWN;
use super::plan::{LEFT_OUT, Plan, PreparedRow, attachment, hash_of, lines, rows};
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
    /// The queue, if there is one.
    pub async fn if_set(&self, context: &Context) -> Result<Option<RedisQueue>, Failure> {
        match self.queue.is_some() || context.settings.bulk_queue.is_some() {
            true => self.connect(context).await.map(Some),
            false => Ok(None),
        }
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
        let pem = context.ca_bundle()?;
        // For `rediss`. It fails if there is one already, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        RedisQueue::connect(url, pem.as_deref())
            .await
            .map_err(|error| match error.kind() {
                ErrorKind::InvalidInput | ErrorKind::Unsupported => {
                    Failure::usage(format!("{source}: {error}"))
                }
                _ => Failure::new(Kind::Unavailable, format!("{source}: {error}"))
                    .code("queue_unreachable")
                    .hint("check the address and the password, and that Redis is running"),
            })
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
    /// When the journal was written last or a job in Redis was created; with --at, not before that time.
    changed: SystemTime,
}

/// Where a job is.
pub enum Place {
    Here {
        folder: PathBuf,
        is_running: bool,
    },
    Redis {
        queue: RedisQueue,
        workers: u64,
        chunks: u64,
        lost: Vec<u64>,
    },
}

/// Emails that are sent again.
#[derive(Clone, Copy, Default)]
pub struct Again {
    pub unknown: bool,
    pub refused: bool,
}

/// The rows of a job that are still to be sent.
#[derive(Default)]
pub struct Left {
    pub count: u64,
    /// The first of them.
    pub first: Vec<PreparedRow>,
    /// The hashes of their addresses.
    pub addresses: HashSet<u64>,
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

/// The jobs of this machine, if `is_here`, and of a queue. One that cannot be read is warned of, or
/// is a failure if all `are_needed`.
pub async fn all(
    context: &Context,
    is_here: bool,
    queue: Option<&RedisQueue>,
    are_needed: bool,
) -> Result<Vec<StoredJob>, Failure> {
    let mut all = Vec::new();
    let mut add = |id: &str, job: Result<StoredJob, Failure>| {
        let problem = match job {
            Ok(job) => {
                all.push(job);
                return Ok(());
            }
            Err(failure) => failure.details().message.clone(),
        };
        if are_needed {
            let remove = context.svc("bulk remove {}", &[id]);
            let message = format!("whom job {id} has sent to cannot be read: {problem}");
            return Err(Failure::input(message).code("sent_again").hint(format!(
                "send all the same: --again\nor delete it: {remove}"
            )));
        }
        context
            .out
            .warning(&format!("job {id} is left out: {problem}"));
        Ok(())
    };
    let folders = if is_here {
        Jobs::of(&context.settings).folders()?
    } else {
        Vec::new()
    };
    for folder in folders {
        add(&jobs::name(&folder), StoredJob::here(&folder))?;
    }
    let Some(queue) = queue else { return Ok(all) };
    for id in queue.jobs().await? {
        match StoredJob::queued(queue, &id).await {
            // Someone has deleted its keys.
            Err(failure) if failure.kind() == Kind::NotFound => {}
            job => add(&id, job)?,
        }
    }
    Ok(all)
}

impl StoredJob {
    /// The job in a folder of this machine.
    pub fn here(folder: &Path) -> Result<Self, Failure> {
        let path = jobs::journal(folder);
        let failed = |error: io::Error| Failure::other(format!("{}: {error}", path.display()));
        let is_running = Journal::is_open(&path).map_err(failed)?;
        let (info, known) = Journal::read(&path, JournalState::default()).map_err(failed)?;
        // Of a running job, what is in flight is not counted.
        let totals = if is_running {
            known.totals()
        } else {
            known.stopped().totals()
        };
        let changed = std::fs::metadata(&path).and_then(|found| found.modified());
        let changed = changed.unwrap_or_else(|_| SystemTime::now());
        let place = Place::Here {
            folder: folder.to_owned(),
            is_running,
        };
        let mut job = Self::new(info, totals, place, changed)?;
        let wish = jobs::wish(folder);
        job.state = match (job.state, wish) {
            (_, SendState::Paused) if is_running => JobState::Paused,
            _ if is_running => JobState::Running,
            (JobState::Incomplete, SendState::Cancelled) => JobState::Cancelled,
            (_, SendState::Cancelled) if job.plan.email.scheduled_at.is_some() => {
                JobState::Cancelled
            }
            (state, _) => state,
        };
        Ok(job)
    }

    /// The job in Redis with this id.
    pub async fn queued(queue: &RedisQueue, id: &str) -> Result<Self, Failure> {
        let status = queue.status(id).await.map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                Failure::new(Kind::NotFound, format!("no job in Redis has the id `{id}`"))
            }
            _ => Failure::from(error),
        })?;
        let QueueStatus {
            info,
            totals,
            workers,
            chunks,
            lost,
            state,
            cause,
            ..
        } = status;
        let changed = info.at.into();
        let place = Place::Redis {
            queue: queue.clone(),
            workers,
            chunks,
            lost,
        };
        let mut job = Self::new(info, totals, place, changed)?;
        job.state = match state {
            SendState::Complete => job.state,
            SendState::Paused => JobState::Paused,
            SendState::Cancelled => JobState::Cancelled,
            _ => JobState::Running,
        };
        job.cause = cause.filter(|_| job.state == JobState::Paused);
        Ok(job)
    }

    /// A job that no process sends.
    fn new(
        info: JobInfo,
        totals: Totals,
        place: Place,
        changed: SystemTime,
    ) -> Result<Self, Failure> {
        let plan: Plan = serde_json::from_value(info.settings.clone())
            .map_err(|_| Failure::other("not a job of this version of svc"))?;
        // With --at, the emails are sent later than they are accepted.
        let at = plan
            .email
            .scheduled_at
            .as_ref()
            .map(|at| at.as_str().parse::<DateTime<Utc>>());
        let changed = at
            .and_then(Result::ok)
            .map_or(changed, |at| changed.max(at.into()));
        let mut job = Self {
            info,
            plan,
            totals,
            state: JobState::Incomplete,
            cause: None,
            place,
            changed,
        };
        job.state = match job.not_sent() {
            0 if totals.unknown > 0 => JobState::Unknown,
            0 => JobState::Complete,
            _ => JobState::Incomplete,
        };
        Ok(job)
    }

    /// Reads the job again.
    pub async fn reload(&mut self) -> Result<(), Failure> {
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
        let Totals {
            accepted,
            refused,
            invalid,
            unknown,
            ..
        } = self.totals;
        self.total()
            .saturating_sub(accepted + refused + invalid + unknown)
    }

    /// The time for which the service keeps the emails of a complete job.
    pub fn waits_until(&self) -> Option<DateTime<Utc>> {
        let at = Some(DateTime::from(self.changed));
        at.filter(|at| self.state == JobState::Complete && *at > Utc::now())
    }

    /// A command about the job, as a command line.
    pub fn svc(&self, context: &Context, verb: &str) -> String {
        let is_found = self.is_here() || context.settings.bulk_queue.is_some();
        let queue = if is_found { "" } else { " --queue URL" };
        context.svc(&format!("bulk {verb} {{}}{queue}"), &[&self.info.job])
    }

    /// How to leave out those who have got an email of the job.
    pub fn without(&self, context: &Context) -> String {
        let report = self.svc(context, "report");
        format!(
            "leave out those who have got it: {report} --status accepted,unknown > got.csv, then add \
             --suppress got.csv to svc bulk send"
        )
    }

    /// Whether it is in a folder of this machine.
    pub fn is_here(&self) -> bool {
        self.folder().is_some()
    }

    /// Its folder on this machine.
    pub fn folder(&self) -> Option<&Path> {
        match &self.place {
            Place::Here { folder, .. } => Some(folder),
            Place::Redis { .. } => None,
        }
    }

    /// Whether no more of its rows will be sent.
    pub fn has_ended(&self) -> bool {
        matches!(
            self.state,
            JobState::Complete | JobState::Unknown | JobState::Cancelled
        )
    }

    /// The time since its last change.
    pub fn age(&self) -> Duration {
        SystemTime::now()
            .duration_since(self.changed)
            .unwrap_or_default()
    }

    /// Pauses, continues or cancels the job.
    pub async fn set(&mut self, wanted: SendState) -> Result<(), Failure> {
        let cancelled = || {
            Failure::new(
                Kind::Refused,
                "the job was cancelled, which cannot be undone",
            )
            .code("job_is_cancelled")
        };
        match &self.place {
            Place::Here { folder, is_running } => {
                let wish = jobs::wish(folder);
                if wish == SendState::Cancelled && wanted != wish {
                    return Err(cancelled());
                }
                if wanted == SendState::Paused && !is_running {
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

    /// Makes refused and unknown rows, as far as they are asked for, rows to send. Returns how many
    /// there are.
    pub async fn reopen(&mut self, again: Again) -> Result<u64, Failure> {
        let Again { refused, unknown } = again;
        let count = match &self.place {
            Place::Here { .. } => self.open_journal()?.reopen(refused, unknown).await?,
            Place::Redis { queue, .. } => queue.reopen(&self.info.job, refused, unknown).await?,
        };
        self.reload().await?;
        Ok(count)
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
        let folder = self.folder().unwrap_or(Path::new(""));
        Journal::open(jobs::journal(folder), &self.info).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => {
                Failure::new(Kind::Refused, "another process is working on this job")
                    .code("job_is_running")
                    .hint(format!(
                        "see how far it is: svc bulk status {}",
                        self.info.job
                    ))
            }
            _ => Failure::other(format!("the journal cannot be opened: {error}")),
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
            let mut add = |_, row: PreparedRow, _: &_| {
                addresses.extend(hash_of(&row.0));
                Ok(())
            };
            self.visit(JournalState::default, &mut add).await?;
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

    /// The rows that are still to be sent, in the same order.
    pub async fn left(&self, again: Again) -> Result<Left, Failure> {
        let mut left = Left::default();
        let mut add = |number, row: PreparedRow, known: &JournalState| {
            let is_again = match known.is_refused(number) {
                true => again.refused,
                false => again.unknown && known.is_unknown(number),
            };
            if is_again || !known.is_kept_back(number) {
                left.addresses.extend(hash_of(&row.0));
                left.count += 1;
                if left.first.len() < SHOWN {
                    left.first.push(row);
                }
            }
            Ok(())
        };
        self.visit(JournalState::default, &mut add).await?;
        Ok(left)
    }

    /// Calls `each` for every row of the job, in their order, with its number and what is known.
    async fn visit(
        &self,
        known: fn() -> JournalState,
        each: &mut impl FnMut(u64, PreparedRow, &JournalState) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let stopped = |known: JournalState, is: bool| if is { known.stopped() } else { known };
        match &self.place {
            Place::Here { folder, is_running } => {
                let (_, known) = Journal::read(jobs::journal(folder), known())
                    .map_err(|error| Failure::other(format!("the journal: {error}")))?;
                let known = stopped(known, !is_running);
                for (at, row) in rows(folder)?.enumerate() {
                    // So that Ctrl-C arrives.
                    if at % 1_000 == 0 {
                        tokio::task::yield_now().await;
                    }
                    let (number, row) = row?;
                    each(number, row, &known)?;
                }
            }
            Place::Redis {
                queue,
                chunks,
                lost,
                ..
            } => {
                for chunk in 0..*chunks {
                    let known = queue.read(&self.info.job, chunk, known()).await?;
                    let known = stopped(known, lost.contains(&chunk));
                    for (number, row) in queue.rows(&self.info.job, chunk).await? {
                        each(number, row, &known)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Calls `each` for every row with an outcome, in their order.
    pub async fn report(
        &self,
        mut each: impl FnMut(Outcome) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut left_out = lines::<Outcome>(self.file(LEFT_OUT).await?, LEFT_OUT).peekable();
        let statuses = FinalStatus::read(self.folder());
        let mut tell = |number, row: PreparedRow, known: &JournalState| {
            let Some(known) = known.row(number) else {
                return Ok(());
            };
            let is_before = |left_out: &io::Result<Outcome>| {
                left_out
                    .as_ref()
                    .map_or(true, |left_out| left_out.row < number)
            };
            while let Some(before) = left_out.next_if(is_before) {
                each(before?)?;
            }
            let address = self.plan.only_to.clone().unwrap_or(row.0);
            let mut row = Outcome::new(number, address, known);
            if let Some(known) = statuses.get(&number).filter(|_| row.status == "accepted") {
                row.status.clone_from(&known.status);
                row.message = known.reason.clone().or(row.message);
            }
            each(row)
        };
        self.visit(JournalState::with_rows, &mut tell).await?;
        left_out.try_for_each(|row| each(row?))
    }

    /// Renders the emails of the job.
    pub async fn renderer(&self) -> Result<Renderer, Failure> {
        let mut contents = Vec::new();
        for number in 0..self.plan.attachments.len() {
            let mut content = Vec::new();
            self.file(&attachment(number))
                .await?
                .read_to_end(&mut content)?;
            contents.push(content);
        }
        self.plan.renderer(contents)
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
        let counts = [
            (totals.refused, "refused"),
            (totals.invalid, "invalid"),
            (totals.unknown, "unknown"),
        ];
        let counts = counts
            .into_iter()
            .filter(|(count, _)| has_ended && *count > 0);
        let counts = counts
            .map(|(count, what)| format!("{count} {what}"))
            .collect::<Vec<_>>();
        let summary = match counts.is_empty() {
            true => match self.waits_until() {
                Some(at) => format!("scheduled for {}", at.format("%Y-%m-%d %H:%M UTC")),
                None => word.to_owned(),
            },
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
            // A run with --sandbox uses nothing of the profile but its guard.
            profile: if plan.service == "sandbox" {
                &plan.service
            } else {
                &plan.profile
            }
            .clone(),
            service: plan.service.clone(),
            scheduled_at: plan
                .email
                .scheduled_at
                .as_ref()
                .map(|at| at.as_str().to_owned()),
            journal: journal.map(|path| path.display().to_string()),
            workers,
        }
    }
}

/// Stores a job in Redis.
pub async fn enqueue(
    queue: &RedisQueue,
    folder: &Path,
    plan: &Plan,
    info: &JobInfo,
) -> Result<StoredJob, Failure> {
    let names = (0..plan.attachments.len())
        .map(attachment)
        .chain([LEFT_OUT.to_owned()]);
    let files = names.map(|name| Ok((std::fs::read(folder.join(&name))?, name)));
    let files = files.collect::<io::Result<Vec<_>>>()?;
    let files = files
        .iter()
        .map(|(content, name)| (name.as_str(), content.as_slice()));
    let rate = plan.rate.unwrap_or_default();
    queue
        .create(info, rate, &files.collect::<Vec<_>>(), rows(folder)?)
        .await?;
    StoredJob::queued(queue, &info.job).await
}

/// Refuses a server that may lose what it has confirmed, and warns of weaker settings.
pub async fn check_durability(context: &Context, queue: &RedisQueue) -> Result<(), Failure> {
    let warnings = queue
        .check_durability()
        .await
        .map_err(|error| match error.kind() {
            ErrorKind::Unsupported => Failure::input(error.to_string()).code("queue_not_durable"),
            _ => Failure::from(error),
        })?;
    warnings
        .iter()
        .for_each(|warning| context.out.warning(warning));
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
    file: Option<String>,
    /// The audience that the rows were read from.
    audience: Option<String>,
    profile: String,
    /// The base URL of the service, or `sandbox`.
    service: String,
    /// When the service is to send the emails.
    scheduled_at: Option<String>,
    /// Of a job of this machine.
    journal: Option<String>,
    /// How many workers send a job in Redis.
    workers: Option<u64>,
}

/// Table columns of a job.
pub const VIEW: View = View(&[
    Column::id("JOB", "/job"),
    Column::new("STATUS", "/summary", Show::Status),
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
