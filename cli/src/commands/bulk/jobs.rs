//! Where the jobs of this machine are: a folder each, with exactly what is sent and the journal.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use svc_bulk::{JobInfo, Journal, SendState};

use crate::failure::{Failure, Kind};
use crate::private;
use crate::settings::Settings;

const JOURNAL: &str = "journal.ndjson";
/// Whether a job is paused or cancelled, in its folder.
const WISH: &str = "state";
/// Locked in the folder of a job until it starts.
const DRAFT: &str = "draft";

/// The folder of all jobs.
pub struct Jobs(PathBuf);

impl Jobs {
    pub fn of(settings: &Settings) -> Self {
        Self(settings.state_dir.join("bulk"))
    }

    /// Creates the folder of a job that may still be declined.
    pub fn draft(&self, id: &str) -> Result<Draft, Failure> {
        let folder = self.0.join(id);
        let create = || {
            // No other process takes the folder for an old draft.
            let _lock = self.lock()?;
            private::create_dir(&self.0)?;
            self.remove_old_drafts()?;
            private::create_dir(&folder)?;
            let lock = private::create_new(&folder.join(DRAFT))?;
            lock.lock()?;
            sync_folders(&folder)?;
            Ok(lock)
        };
        let lock = create().map_err(|error: io::Error| {
            Failure::other(format!(
                "cannot keep a record of the job in {}: {error}",
                self.0.display()
            ))
            .code("no_state_directory")
            .hint("a job needs a record of what was sent; set HOME or XDG_STATE_HOME to a directory that can be written")
        })?;
        Ok(Draft {
            folder,
            lock: Some(lock),
        })
    }

    /// Removes what processes left behind that were killed before their job started. It holds
    /// addresses.
    fn remove_old_drafts(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.0)? {
            let folder = entry?.path();
            if let Ok(lock) = File::open(folder.join(DRAFT))
                && lock.try_lock().is_ok()
                && !journal(&folder).exists()
            {
                drop(lock);
                fs::remove_dir_all(&folder)?;
            }
        }
        Ok(())
    }

    /// Held while a job is started, so that two processes cannot send to the same people.
    pub fn lock(&self) -> io::Result<File> {
        private::lock(&self.0.with_extension("lock"))
    }

    /// The folders of all jobs.
    pub fn folders(&self) -> Result<Vec<PathBuf>, Failure> {
        let entries = match fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let folders = entries
            .map(|entry| Ok(entry?.path()))
            .collect::<io::Result<Vec<_>>>()?;
        // A job that was declined or is being prepared has no journal.
        Ok(folders
            .into_iter()
            .filter(|folder| journal(folder).is_file())
            .collect())
    }

    /// The folder of the job with this id, or with the only id that starts with it.
    pub fn find(&self, id: &str) -> Result<PathBuf, Failure> {
        let folders = self.folders()?;
        let ids = folders
            .iter()
            .map(|folder| name(folder))
            .collect::<Vec<_>>();
        let missing = format!("no job has the id `{id}`");
        let found = only(
            &ids,
            id,
            &missing,
            "list the jobs of this machine: svc bulk list",
        )?;
        Ok(self.0.join(found))
    }
}

/// The id that is this text, or the only one that starts with it.
pub fn only<'a>(
    ids: &'a [String],
    start: &str,
    missing: &str,
    hint: &str,
) -> Result<&'a String, Failure> {
    if let Some(exactly) = ids.iter().find(|id| *id == start) {
        return Ok(exactly);
    }
    let found = ids
        .iter()
        .filter(|id| !start.is_empty() && id.starts_with(start));
    match found.collect::<Vec<_>>()[..] {
        [only] => Ok(only),
        [] => Err(Failure::new(Kind::NotFound, missing).hint(hint)),
        ref several => {
            let count = several.len();
            Err(Failure::usage(format!(
                "{count} jobs have an id that starts with `{start}`"
            ))
            .hint("list them: svc bulk list"))
        }
    }
}

/// The id of the job in this folder.
pub fn name(folder: &Path) -> String {
    folder
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// The journal of the job in this folder.
pub fn journal(folder: &Path) -> PathBuf {
    folder.join(JOURNAL)
}

/// Makes the name of a new job durable, and those of the folders above it, which may be new, too.
fn sync_folders(folder: &Path) -> io::Result<()> {
    if cfg!(unix) {
        for parent in folder.ancestors().skip(1).take(3) {
            File::open(parent)?.sync_all()?;
        }
    }
    Ok(())
}

/// The folder of a job, removed when it is dropped before the job has started.
pub struct Draft {
    pub folder: PathBuf,
    lock: Option<File>,
}

impl Draft {
    /// Makes the draft a job.
    pub fn start(&mut self, info: &JobInfo) -> Result<(), Failure> {
        Journal::open(journal(&self.folder), info)
            .map_err(|error| Failure::other(format!("cannot create the journal: {error}")))?;
        let _ = fs::remove_file(self.folder.join(DRAFT));
        self.lock = None;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if self.lock.take().is_some() {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// What someone wants of the job in this folder.
pub fn wish(folder: &Path) -> SendState {
    let word = fs::read_to_string(folder.join(WISH)).unwrap_or_default();
    serde_json::from_value(word.into()).unwrap_or(SendState::Running)
}

pub fn set_wish(folder: &Path, wish: SendState) -> Result<(), Failure> {
    let word = serde_json::to_value(wish).map_err(io::Error::from)?;
    Ok(fs::write(
        folder.join(WISH),
        word.as_str().unwrap_or_default(),
    )?)
}
