//! The jobs on this machine: a folder each, with exactly what is sent and the journal.

use std::collections::HashSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use chrono::{DateTime, Utc};
use svc_bulk::{JobInfo, Journal, JournalEntry, RowOutcome, Totals};

use super::plan::{ADDRESSES, Plan, hash_of, hashes};
use crate::failure::{Failure, Kind};
use crate::private::create_dir as create_private_dir;
use crate::settings::Settings;

const JOURNAL: &str = "journal.ndjson";
/// Whether a job is paused or cancelled, in its folder.
const MARK: &str = "state";
/// The extension of the file that is locked until a job starts.
const DRAFT: &str = "draft";

/// The folder of all jobs.
pub struct Jobs {
    folder: PathBuf,
    /// How long jobs that have ended are kept.
    retention: Duration,
}

impl Jobs {
    pub fn of(settings: &Settings) -> Self {
        Self { folder: settings.state_dir.join("bulk"), retention: settings.bulk_retention }
    }

    /// Creates the folder of a job that may still be declined, and removes jobs that ended long ago.
    pub fn draft(&self, id: &str) -> Result<Draft, Failure> {
        let folder = self.folder.join(id);
        let failed = |error: std::io::Error| {
            Failure::other(format!(
                "cannot keep a record of the job in {}: {error}",
                self.folder.display()
            ))
            .hint("set HOME or XDG_STATE_HOME to a directory that can be written")
        };
        create_private_dir(&self.folder).and_then(|()| self.remove_old_drafts()).map_err(failed)?;
        self.remove_expired();
        // Locked before the folder exists, so that no other process takes it for an old draft.
        let mark = folder.with_extension(DRAFT);
        let lock = create_private(&mark)?;
        lock.lock()?;
        create_private_dir(&folder).and_then(|()| sync_folders(&folder)).map_err(failed)?;
        Ok(Draft { folder: Some(folder), mark, _lock: lock })
    }

    /// Removes what processes left behind that were killed before their job started. It holds
    /// addresses.
    fn remove_old_drafts(&self) -> std::io::Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let mark = entry?.path();
            if mark.extension().is_none_or(|extension| extension != DRAFT) {
                continue;
            }
            let Ok(file) = File::open(&mark) else { continue };
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

    /// Removes jobs that ended long ago: they hold addresses. One that cannot be removed stays.
    fn remove_expired(&self) {
        for folder in self.folders().unwrap_or_default() {
            let age = SystemTime::now().duration_since(last_change(&folder)).unwrap_or_default();
            if age > self.retention && LocalJob::read(&folder).is_ok_and(|job| job.has_ended()) {
                let _ = fs::remove_dir_all(&folder);
            }
        }
    }

    /// Held while a job is started, so that two processes cannot send to the same people.
    pub fn lock(&self) -> Result<File, Failure> {
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(self.folder.with_extension("lock"))?;
        file.lock()?;
        Ok(file)
    }

    /// The addresses that earlier jobs with the same email have, for a job that goes on after them.
    pub fn sent_before(&self, plan: &Plan) -> Result<HashSet<u64>, Failure> {
        let mut addresses = HashSet::new();
        for folder in self.folders()? {
            if let Ok(job) = LocalJob::read(&folder)
                && job.plan.only_to.is_none()
                && job.plan.service == plan.service
                && job.plan.message.is_same(&plan.message)
            {
                addresses.extend(job.addresses()?);
            }
        }
        Ok(addresses)
    }

    /// The folders of all jobs.
    pub fn folders(&self) -> Result<Vec<PathBuf>, Failure> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let folders =
            entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
        // A job that was declined or is being prepared has no journal.
        Ok(folders.into_iter().filter(|folder| journal(folder).is_file()).collect())
    }

    /// The folder of the job with this id, or with the only id that starts with it.
    pub fn find(&self, id: &str) -> Result<PathBuf, Failure> {
        let missing = || {
            Failure::new(Kind::NotFound, format!("no job has the id `{id}`"))
                .hint("list the jobs of this machine: svc bulk list")
        };
        if id.is_empty() || id.contains(['/', '\\']) {
            return Err(missing());
        }
        let folder = self.folder.join(id);
        if journal(&folder).is_file() {
            return Ok(folder);
        }
        let mut folders = self.folders()?;
        folders.retain(|folder| name(folder).starts_with(id));
        match folders.len() {
            1 => Ok(folders.remove(0)),
            0 => Err(missing()),
            count => Err(ambiguous(count, id)),
        }
    }
}

pub fn ambiguous(count: usize, id: &str) -> Failure {
    Failure::usage(format!("{count} jobs have an id that starts with `{id}`"))
        .hint("list them: svc bulk list")
}

/// The id of the job in this folder.
pub fn name(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The journal of the job in this folder.
pub fn journal(folder: &Path) -> PathBuf {
    folder.join(JOURNAL)
}

pub fn last_change(folder: &Path) -> SystemTime {
    let changed = fs::metadata(journal(folder)).and_then(|found| found.modified());
    changed.unwrap_or_else(|_| SystemTime::now())
}

/// Makes the name of a new job durable, and those of the folders above it, which may be new, too.
fn sync_folders(folder: &Path) -> std::io::Result<()> {
    if cfg!(unix) {
        for parent in folder.ancestors().skip(1).take(3) {
            File::open(parent)?.sync_all()?;
        }
    }
    Ok(())
}

/// Creates a file that only its owner can read.
pub fn create_private(path: &Path) -> Result<File, Failure> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map_err(|error| Failure::other(format!("{}: {error}", path.display())))
}

/// The folder of a job, removed when it is dropped.
pub struct Draft {
    folder: Option<PathBuf>,
    mark: PathBuf,
    _lock: File,
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

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
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

/// What someone wants of a job that a process is sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    Paused,
    Cancelled,
}

/// What someone wants of the job in this folder.
pub fn mark(folder: &Path) -> Option<Mark> {
    match fs::read(folder.join(MARK)).ok()?.as_slice() {
        b"paused" => Some(Mark::Paused),
        b"cancelled" => Some(Mark::Cancelled),
        _ => None,
    }
}

pub fn set_mark(folder: &Path, mark: Option<Mark>) -> Result<(), Failure> {
    let path = folder.join(MARK);
    let done = match mark {
        Some(Mark::Paused) => fs::write(path, "paused"),
        Some(Mark::Cancelled) => fs::write(path, "cancelled"),
        None if path.exists() => fs::remove_file(path),
        None => Ok(()),
    };
    Ok(done?)
}

/// A job as its journal tells.
pub struct LocalJob {
    pub folder: PathBuf,
    pub info: JobInfo,
    pub plan: Plan,
    pub totals: Totals,
    pub is_running: bool,
    pub mark: Option<Mark>,
}

/// The first line of the journal of a job.
pub fn read_info(folder: &Path) -> Result<(JobInfo, Plan), Failure> {
    let path = journal(folder);
    let records = Journal::read(&path)
        .map_err(|error| Failure::other(format!("{}: {error}", path.display())))?;
    let info = records.info().clone();
    let plan = serde_json::from_value(info.settings.clone()).map_err(|_| {
        Failure::other(format!("{}: not a job of this version of svc", path.display()))
    })?;
    Ok((info, plan))
}

impl LocalJob {
    pub fn read(folder: &Path) -> Result<Self, Failure> {
        let path = journal(folder);
        let failed = |error: std::io::Error| Failure::other(format!("{}: {error}", path.display()));
        let is_running = Journal::is_open(&path).map_err(failed)?;
        let (info, plan) = read_info(folder)?;
        let state = Journal::read(&path).and_then(|mut it| it.state()).map_err(failed)?;
        // Of a running job, what is in flight is not counted.
        let totals = if is_running { state.totals() } else { state.stopped().totals() };
        let (folder, mark) = (folder.to_owned(), mark(folder));
        Ok(Self { folder, info, plan, totals, is_running, mark })
    }

    /// The number of emails.
    pub fn total(&self) -> u64 {
        self.info.rows.unwrap_or_default()
    }

    pub fn state(&self) -> JobState {
        match (self.is_running, self.mark, not_sent(self.total(), self.totals)) {
            (true, Some(Mark::Paused), _) => JobState::Paused,
            (true, ..) => JobState::Running,
            (.., 0) if self.totals.unknown > 0 => JobState::Unknown,
            (.., 0) => JobState::Complete,
            (_, Some(Mark::Cancelled), _) => JobState::Cancelled,
            _ => JobState::Incomplete,
        }
    }

    /// Whether no more of its rows will be sent.
    pub fn has_ended(&self) -> bool {
        matches!(self.state(), JobState::Complete | JobState::Unknown | JobState::Cancelled)
    }

    /// The hashes of those who have got an email of this job, or will.
    pub fn addresses(&self) -> Result<Vec<u64>, Failure> {
        if !self.has_ended() {
            return Ok(hashes(&fs::read(self.folder.join(ADDRESSES))?).collect());
        }
        let mut sent = HashSet::new();
        let mut open = std::collections::HashMap::new();
        for entry in Journal::read(journal(&self.folder))? {
            match entry? {
                JournalEntry::Intent { request, to, .. } => drop(open.insert(request, to)),
                JournalEntry::NotSent { request, .. } => drop(open.remove(&request)),
                JournalEntry::Outcome { request, results, .. } => {
                    let to = open.remove(&request).unwrap_or_default().into_iter().zip(results);
                    let to = to.filter(|(_, it)| !matches!(it, RowOutcome::Refused(_)));
                    sent.extend(to.filter_map(|(to, _)| hash_of(&to)));
                }
                _ => {}
            }
        }
        sent.extend(open.values().flatten().filter_map(|to| hash_of(to)));
        Ok(sent.into_iter().collect())
    }

    /// When it was created.
    pub fn created(&self) -> DateTime<Utc> {
        self.info.at
    }
}

/// The rows that are neither settled nor unknown.
pub fn not_sent(total: u64, totals: Totals) -> u64 {
    let Totals { accepted, refused, invalid, unknown, .. } = totals;
    total.saturating_sub(accepted + refused + invalid + unknown)
}
