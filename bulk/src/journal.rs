//! The journal of a job: a file with a JSON object per line.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::entries::{JournalEntry, counts};
use crate::{JobInfo, JournalState};

/// What a job sends, recorded in a file with a JSON object per line.
///
/// The first line is the [`JobInfo`]. Each other one tells of rows that are about to be sent, which
/// is synced to disk before their request is sent, or of their outcomes. On Unix, only the owner of
/// the file can read it. While a journal is open, `NAME.lock` beside it is locked against other
/// processes.
///
/// If the last line is not complete, because the process was killed while it wrote, it is
/// removed when the journal is opened again. Any other unreadable line is an error.
///
/// The functions that open and read a journal block: they read the whole file, and wait up to 50 ms
/// for its lock. Call them in `tokio::task::spawn_blocking` where that matters.
pub struct Journal {
    info: JobInfo,
    path: PathBuf,
    inner: Arc<Inner>,
    /// What the entries say, until more are appended.
    state: Option<JournalState>,
}

struct Inner {
    file: Mutex<Appender>,
    /// Unlocked when the last write has ended.
    lock: File,
}

impl Drop for Inner {
    /// Closing the file would not do: a process that the application is just starting has it
    /// open, too, for a moment.
    fn drop(&mut self) {
        let _ = self.lock.unlock();
    }
}

struct Appender {
    file: File,
    /// After a failed write, the end of the file is unknown.
    failed: bool,
}

impl Journal {
    /// Opens the journal of a job to continue it or, if the file does not exist, creates it, durably.
    ///
    /// # Errors
    ///
    /// If another process has opened it ([`WouldBlock`](io::ErrorKind::WouldBlock)), it belongs to
    /// rows with another [`JobInfo::source`], a line cannot be read, or it cannot be written.
    pub fn open(path: impl AsRef<Path>, info: &JobInfo) -> io::Result<Self> {
        let path = path.as_ref();
        if let Some(problem) = info.problem() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        let lock = lock(path)?;
        let is_new = !path.exists();
        let mut file = private(OpenOptions::new().append(true).create(true)).open(path)?;
        if is_new {
            file.write_all(&lines(&[info])?)?;
            file.sync_all()?;
            // Makes the name of the new file durable.
            if cfg!(unix) {
                let folder = path
                    .parent()
                    .filter(|folder| !folder.as_os_str().is_empty());
                File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
            }
        }
        let (known, state, end) = replay(path, JournalState::default())?;
        if known.source != info.source {
            return Err(invalid(
                "the rows or the settings have changed since the job was started; start a new job",
            ));
        }
        // Removes an incomplete last line.
        file.set_len(end)?;
        let inner = Inner {
            file: Mutex::new(Appender {
                file,
                failed: false,
            }),
            lock,
        };
        let state = Some(state.stopped());
        Ok(Self {
            info: known,
            path: path.to_owned(),
            inner: Arc::new(inner),
            state,
        })
    }

    /// The first line of the file.
    pub fn info(&self) -> &JobInfo {
        &self.info
    }

    /// Reads the file of a journal, which another process may be writing: what the job is, and what
    /// is known about its rows. `known` is [`JournalState::with_rows`] or the default.
    ///
    /// # Errors
    ///
    /// If the file or a line cannot be read.
    pub fn read(
        path: impl AsRef<Path>,
        known: JournalState,
    ) -> io::Result<(JobInfo, JournalState)> {
        replay(path.as_ref(), known).map(|(info, state, _)| (info, state))
    }

    /// Settles rows whose outcome is unknown: those that were `sent`, as someone has found out,
    /// count as accepted, and the next run sends those to `resend` again. Other rows are passed
    /// over. Returns how many of each there were.
    ///
    /// # Errors
    ///
    /// If the journal cannot be read or written.
    pub async fn settle(&mut self, sent: &[u64], resend: &[u64]) -> io::Result<(u64, u64)> {
        self.amend(|state| state.decided(sent, resend)).await
    }

    /// Lets the next run send rows again: those that were `refused`, those that are `unknown`, of
    /// whom some may then get the email twice, or both. Returns how many there are.
    ///
    /// # Errors
    ///
    /// If the journal cannot be read or written.
    pub async fn reopen(&mut self, refused: bool, unknown: bool) -> io::Result<u64> {
        self.amend(|state| state.reopened(refused, unknown))
            .await
            .map(|(_, reopened)| reopened)
    }

    async fn amend(
        &mut self,
        amend: impl FnOnce(&JournalState) -> Vec<JournalEntry>,
    ) -> io::Result<(u64, u64)> {
        let mut state = self.load().await?;
        let entries = amend(&state);
        let count = counts(&entries);
        entries.iter().for_each(|entry| state.apply(entry));
        self.append(entries, true).await?;
        self.state = Some(state);
        Ok(count)
    }

    /// Whether a process has opened the journal.
    ///
    /// # Errors
    ///
    /// If the lock cannot be tried.
    pub fn is_open(path: impl AsRef<Path>) -> io::Result<bool> {
        let file = match File::open(lock_path(path.as_ref())) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        match file.try_lock_shared() {
            Ok(()) => file.unlock().map(|()| false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// What the entries so far say. Nothing is in flight, as no run has the journal.
    pub(crate) async fn load(&mut self) -> io::Result<JournalState> {
        match self.state.take() {
            Some(state) => Ok(state),
            None => {
                let path = self.path.clone();
                let read = in_background(move || replay(&path, JournalState::default())).await;
                read.map(|(_, state, _)| state.stopped())
            }
        }
    }

    /// Appends entries in this order. If `durable`, they survive a crash of the machine,
    /// otherwise only one of the process. After an error, all later calls fail.
    pub(crate) async fn append(&self, entries: Vec<JournalEntry>, durable: bool) -> io::Result<()> {
        // A dropped future does not stop the thread, so every line is written completely.
        let inner = Arc::clone(&self.inner);
        in_background(move || {
            let text = lines(&entries)?;
            inner
                .file
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .append(&text, durable)
        })
        .await
    }
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Appender {
    fn append(&mut self, text: &[u8], durable: bool) -> io::Result<()> {
        if self.failed {
            return Err(io::Error::other("an earlier write to the journal failed"));
        }
        self.failed = true;
        self.file.write_all(text)?;
        if durable {
            self.file.sync_data()?;
        }
        self.failed = false;
        Ok(())
    }
}

/// The first line of a file, what the others say, and where the last complete one ends.
fn replay(path: &Path, mut state: JournalState) -> io::Result<(JobInfo, JournalState, u64)> {
    let mut reader = BufReader::with_capacity(64 * 1024, File::open(path)?);
    let mut buffer = Vec::new();
    reader.read_until(b'\n', &mut buffer)?;
    let info: JobInfo = serde_json::from_slice(&buffer)
        .map_err(|_| invalid("the first line is not that of a journal"))?;
    if let Some(problem) = info.problem() {
        return Err(invalid(&problem));
    }
    let mut end = buffer.len() as u64;
    for number in 2.. {
        buffer.clear();
        if reader.read_until(b'\n', &mut buffer)? == 0 {
            break;
        }
        match serde_json::from_slice(&buffer) {
            Ok(entry) if buffer.ends_with(b"\n") => state.apply(&entry),
            // After a crash of the machine, the end may hold anything.
            _ if reader.fill_buf()?.is_empty() => break,
            _ => return Err(invalid(&format!("line {number} of the journal is damaged"))),
        }
        end += buffer.len() as u64;
    }
    Ok((info, state, end))
}

/// A line of JSON for each value.
pub(crate) fn lines(values: &[impl serde::Serialize]) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    for value in values {
        serde_json::to_writer(&mut text, value)?;
        text.push(b'\n');
    }
    Ok(text)
}

fn lock_path(journal: &Path) -> PathBuf {
    let mut name = journal.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

/// Locks a file beside the journal: on some systems, others cannot read a locked file.
fn lock(journal: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(false);
    let file = private(options).open(lock_path(journal))?;
    // A process that asks whether the job is running also holds the lock for a moment.
    for attempt in 0.. {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if attempt < 10 => {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            Err(TryLockError::WouldBlock) => {
                let problem = "another process is working on this job";
                return Err(io::Error::new(io::ErrorKind::WouldBlock, problem));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Ok(file)
}

fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

fn invalid(problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_is_unlocked_even_if_a_new_process_has_its_files_open() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("job.ndjson");
        let open = || Journal::open(&path, &JobInfo::new("list"));
        let first = open().expect("created");
        assert_eq!(
            open().expect_err("locked").kind(),
            io::ErrorKind::WouldBlock
        );
        // What a process inherits between `fork` and `exec`.
        let inherited = first.inner.lock.try_clone().expect("a descriptor");
        drop(first);
        open().expect("unlocked");
        drop(inherited);
    }
}
