//! The jobs on this machine: a folder each, with the journal and the rows that are left out.

use std::fs;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;
use svc_bulk::{JobInfo, Journal, Totals};

use super::plan::Plan;
use crate::failure::{Failure, Kind};
use crate::output::timestamp;
use crate::private::create_dir as create_private_dir;
use crate::settings::Settings;

const JOURNAL: &str = "journal.ndjson";
/// The extension of the file that is locked until a job starts.
const DRAFT: &str = "draft";

/// A job.
// `S` are its states, and `P` is what only jobs of its place have.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Shown<S, P> {
    job: String,
    state: S,
    /// The number of emails.
    total: u64,
    accepted: u64,
    refused: u64,
    unknown: u64,
    not_sent: u64,
    /// The number of rows that are not sent to.
    left_out: u64,
    /// How many of them are invalid.
    left_out_invalid: u64,
    created: String,
    subject: String,
    #[serde(flatten)]
    pub place: P,
}

impl<S, P> Shown<S, P> {
    pub fn new(info: &JobInfo, plan: &Plan, totals: Totals, state: S, place: P) -> Self {
        let total = info.rows.unwrap_or_default();
        Self {
            job: info.job.clone(),
            state,
            total,
            accepted: totals.accepted,
            refused: totals.refused + totals.invalid,
            unknown: totals.unknown,
            not_sent: not_sent(total, totals),
            left_out: plan.left_out.total(),
            left_out_invalid: plan.left_out.invalid,
            created: timestamp(info.at),
            subject: plan.message.subject.clone(),
            place,
        }
    }
}

/// A job of this machine.
pub type LocalJob = Shown<LocalState, InJournal>;

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LocalState {
    Running,
    Complete,
    Unknown,
    Incomplete,
}

#[derive(Serialize, JsonSchema)]
pub struct InJournal {
    journal: PathBuf,
}

/// A job whose journal, or whose description in Redis, cannot be read.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Damaged {
    job: String,
    #[schemars(extend("const" = "damaged"))]
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PathBuf")]
    journal: Option<PathBuf>,
}

impl Damaged {
    pub fn new(job: String, journal: Option<PathBuf>) -> Self {
        Self { job, state: "damaged", journal }
    }
}

/// The folder of all jobs.
pub struct Jobs(PathBuf);

impl Jobs {
    pub fn of(settings: &Settings) -> Self {
        Self(settings.state_dir.join("bulk"))
    }

    /// Creates the folder of a job that may still be declined.
    pub fn draft(&self, id: &str) -> Result<Draft, Failure> {
        let folder = self.0.join(id);
        create_private_dir(&self.0)
            .and_then(|()| self.remove_old_drafts())
            .map_err(|error| Failure::other(format!("{}: {error}", self.0.display())))?;
        // Locked before the folder exists, so that no other process takes it for an old draft.
        let mark = folder.with_extension(DRAFT);
        let lock = super::plan::create_private(&mark)?;
        lock.lock()?;
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder
            .create(&folder)
            .and_then(|()| sync_folders(&folder))
            .map_err(|error| Failure::other(format!("{}: {error}", folder.display())))?;
        Ok(Draft { folder: Some(folder), mark, _lock: lock })
    }

    /// Removes what processes left behind that were killed before their job started. It holds
    /// addresses.
    fn remove_old_drafts(&self) -> std::io::Result<()> {
        for entry in fs::read_dir(&self.0)? {
            let mark = entry?.path();
            if mark.extension().is_none_or(|extension| extension != DRAFT) {
                continue;
            }
            let Ok(file) = fs::File::open(&mark) else { continue };
            if file.try_lock().is_err() {
                continue;
            }
            let folder = mark.with_extension("");
            if !journal(&folder).exists() && folder.is_dir() {
                fs::remove_dir_all(&folder)?;
            }
            fs::remove_file(&mark)?;
        }
        Ok(())
    }

    /// The last job that sent the same emails to the same rows.
    pub fn with_same_emails(&self, source: &str, plan: &Plan) -> Result<Option<Job>, Failure> {
        let mut jobs = Vec::new();
        for folder in self.folders()? {
            let Ok(records) = Journal::read(journal(&folder)) else { continue };
            let info = records.info();
            if info.source != source {
                continue;
            }
            let earlier = serde_json::from_value::<Plan>(info.settings.clone());
            let is_same = |earlier: Plan| {
                let is_real = earlier.only_to.is_none() && plan.only_to.is_none();
                is_real && earlier.service == plan.service && earlier.message == plan.message
            };
            if earlier.is_ok_and(is_same) {
                jobs.push(Job::read(&folder)?);
            }
        }
        jobs.retain(|job| job.totals.accepted + job.totals.unknown > 0 || job.is_running);
        Ok(jobs.into_iter().max_by_key(|job| job.info.at))
    }

    /// The folders of all jobs.
    pub fn folders(&self) -> Result<Vec<PathBuf>, Failure> {
        let entries = match fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let mut folders = Vec::new();
        for entry in entries {
            let folder = entry?.path();
            // A job that was declined or is being prepared has no journal.
            if journal(&folder).is_file() {
                folders.push(folder);
            }
        }
        Ok(folders)
    }

    /// The job with this id, or with the only id that starts with it.
    pub fn find(&self, id: &str) -> Result<Job, Failure> {
        Job::read(&self.find_folder(id)?)
    }

    /// The folder of that job.
    pub fn find_folder(&self, id: &str) -> Result<PathBuf, Failure> {
        let missing = || {
            Failure::new(Kind::NotFound, format!("no job has the id `{id}`"))
                .hint("list the jobs of this machine: svc bulk list")
        };
        if id.is_empty() || id.contains(['/', '\\']) {
            return Err(missing());
        }
        let folder = self.0.join(id);
        if journal(&folder).is_file() {
            return Ok(folder);
        }
        let mut folders = self.folders()?;
        folders.retain(|folder| name(folder).starts_with(id));
        match folders.len() {
            1 => Ok(folders.remove(0)),
            0 => Err(missing()),
            count => {
                Err(Failure::usage(format!("{count} jobs have an id that starts with `{id}`"))
                    .hint("list them: svc bulk list"))
            }
        }
    }
}

/// The rows that are neither settled nor unknown.
pub fn not_sent(total: u64, totals: Totals) -> u64 {
    let Totals { accepted, refused, invalid, unknown, .. } = totals;
    total.saturating_sub(accepted + refused + invalid + unknown)
}

/// The id of the job in this folder.
pub fn name(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Makes the name of a new job durable, and those of the folders above it, which may be new, too.
fn sync_folders(folder: &Path) -> std::io::Result<()> {
    if cfg!(unix) {
        for parent in folder.ancestors().skip(1).take(3) {
            fs::File::open(parent)?.sync_all()?;
        }
    }
    Ok(())
}

/// The journal of the job in this folder.
pub fn journal(folder: &Path) -> PathBuf {
    folder.join(JOURNAL)
}

/// The folder of a job, removed when it is dropped.
pub struct Draft {
    folder: Option<PathBuf>,
    mark: PathBuf,
    _lock: fs::File,
}

impl Draft {
    pub fn folder(&self) -> &Path {
        self.folder.as_deref().unwrap_or(Path::new(""))
    }

    /// Makes the draft a job.
    pub fn start(mut self, info: &JobInfo) -> Result<(PathBuf, Journal), Failure> {
        let journal = Journal::create(journal(self.folder()), info)
            .map_err(|error| Failure::other(format!("cannot create the journal: {error}")))?;
        Ok((self.folder.take().unwrap_or_default(), journal))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            let _ = fs::remove_dir_all(folder);
        }
        let _ = fs::remove_file(&self.mark);
    }
}

/// A job as its journal tells.
pub struct Job {
    pub folder: PathBuf,
    pub info: JobInfo,
    pub plan: Plan,
    pub totals: Totals,
    pub is_running: bool,
}

/// The first line of the journal of a job.
pub fn read_info(folder: &Path) -> Result<(JobInfo, Plan), Failure> {
    let path = journal(folder);
    let records = Journal::read(&path)
        .map_err(|error| Failure::other(format!("{}: {error}", path.display())))?;
    let plan = plan_of(records.info(), &path)?;
    Ok((records.info().clone(), plan))
}

fn plan_of(info: &JobInfo, journal: &Path) -> Result<Plan, Failure> {
    serde_json::from_value(info.settings.clone()).map_err(|_| {
        Failure::other(format!("{}: not the journal of `svc bulk`", journal.display()))
    })
}

impl Job {
    pub fn read(folder: &Path) -> Result<Self, Failure> {
        let path = journal(folder);
        let failed = |error: std::io::Error| Failure::other(format!("{}: {error}", path.display()));
        let is_running = Journal::is_open(&path).map_err(failed)?;
        let mut records = Journal::read(&path).map_err(failed)?;
        let info = records.info().clone();
        let plan = plan_of(&info, &path)?;
        let state = records.state().map_err(failed)?;
        // Of a running job, what is in flight is not counted.
        let totals = if is_running { state.totals() } else { state.stopped().totals() };
        Ok(Self { folder: folder.to_owned(), info, plan, totals, is_running })
    }

    /// A job whose run has just ended.
    pub fn ended(folder: &Path, info: JobInfo, plan: &Plan, totals: Totals) -> Self {
        let (folder, plan) = (folder.to_owned(), plan.clone());
        Self { folder, info, plan, totals, is_running: false }
    }

    pub fn journal_path(&self) -> PathBuf {
        journal(&self.folder)
    }

    pub fn total(&self) -> u64 {
        self.info.rows.unwrap_or_default()
    }

    /// The rows that are neither settled nor unknown.
    pub fn not_sent(&self) -> u64 {
        not_sent(self.total(), self.totals)
    }

    pub fn shown(&self) -> LocalJob {
        let state = match (self.is_running, self.not_sent(), self.totals.unknown) {
            (true, ..) => LocalState::Running,
            (_, 0, 0) => LocalState::Complete,
            (_, 0, _) => LocalState::Unknown,
            _ => LocalState::Incomplete,
        };
        let place = InJournal { journal: self.journal_path() };
        Shown::new(&self.info, &self.plan, self.totals, state, place)
    }
}
