//! The journal of a job: a file with a JSON object per line.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::entries::{counts, decisions};
use crate::{JobInfo, JournalEntry, JournalState};

/// What a job sends, recorded in a file with a JSON object per line.
///
/// The first line is the [`JobInfo`], each other one a [`JournalEntry`]. An intent is synced to
/// disk before its request is sent. The file holds the recipients' addresses, so on Unix only its
/// owner can read it. While a journal is open, `NAME.lock` beside it is locked against other
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
    /// Creates the journal of a new job, durably.
    ///
    /// # Errors
    ///
    /// If the file exists, or cannot be written.
    pub fn create(path: impl AsRef<Path>, info: &JobInfo) -> io::Result<Self> {
        let path = path.as_ref();
        if let Some(problem) = info.problem() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        let lock = lock(path)?;
        let mut file = private(OpenOptions::new().append(true).create_new(true)).open(path)?;
        file.write_all(&lines(&[info])?)?;
        file.sync_all()?;
        // Makes the name of the new file durable.
        if cfg!(unix) {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
        }
        Ok(Self::new(path, info.clone(), file, lock))
    }

    /// Opens the journal of a job to continue it.
    ///
    /// # Errors
    ///
    /// If another process has opened it ([`WouldBlock`](io::ErrorKind::WouldBlock)), it
    /// belongs to rows with another [`JobInfo::source`], or a line cannot be read.
    pub fn open(path: impl AsRef<Path>, source: &str) -> io::Result<Self> {
        let path = path.as_ref();
        let lock = lock(path)?;
        let file = OpenOptions::new().append(true).open(path)?;
        let mut reader = Self::read(path)?;
        if reader.info.source != source {
            return Err(invalid(
                "the rows or the settings have changed since the job was started; start a new job",
            ));
        }
        let state = reader.state()?;
        // Removes an incomplete last line.
        file.set_len(reader.position)?;
        Ok(Self { state: Some(state), ..Self::new(path, reader.info, file, lock) })
    }

    /// Opens the journal if the file exists, and creates it otherwise.
    ///
    /// # Errors
    ///
    /// As for [`open`](Self::open) and [`create`](Self::create).
    pub fn open_or_create(path: impl AsRef<Path>, info: &JobInfo) -> io::Result<Self> {
        let path = path.as_ref();
        if path.exists() { Self::open(path, &info.source) } else { Self::create(path, info) }
    }

    /// The first line of the file.
    pub fn info(&self) -> &JobInfo {
        &self.info
    }

    /// Reads the file of a journal, which another process may be writing.
    ///
    /// # Errors
    ///
    /// If the file or its first line cannot be read.
    pub fn read(path: impl AsRef<Path>) -> io::Result<JournalReader> {
        let mut reader = BufReader::with_capacity(64 * 1024, File::open(path)?);
        let mut buffer = Vec::new();
        reader.read_until(b'\n', &mut buffer)?;
        let info: JobInfo = serde_json::from_slice(&buffer)
            .map_err(|_| invalid("the first line is not that of a journal"))?;
        if let Some(problem) = info.problem() {
            return Err(invalid(&problem));
        }
        Ok(JournalReader { info, reader, position: buffer.len() as u64, number: 1, buffer })
    }

    /// Settles rows whose outcome is unknown: those that were `sent`, as someone has found out,
    /// count as accepted, and the next run sends those to `resend` again. Other rows are passed
    /// over. Returns how many of each there were.
    ///
    /// # Errors
    ///
    /// If the journal cannot be read or written.
    pub async fn settle(&mut self, sent: &[u64], resend: &[u64]) -> io::Result<(u64, u64)> {
        let mut state = self.load().await?.stopped();
        let entries = decisions(&state, sent, resend);
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
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn new(path: &Path, info: JobInfo, file: File, lock: File) -> Self {
        let file = Mutex::new(Appender { file, failed: false });
        Self { info, path: path.to_owned(), inner: Arc::new(Inner { file, lock }), state: None }
    }

    /// What the entries so far say.
    pub(crate) async fn load(&mut self) -> io::Result<JournalState> {
        match self.state.take() {
            Some(state) => Ok(state),
            None => {
                let path = self.path.clone();
                in_background(move || Self::read(path)?.state()).await
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
            inner.file.lock().unwrap_or_else(PoisonError::into_inner).append(&text, durable)
        })
        .await
    }
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("path", &self.path).finish_non_exhaustive()
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

/// The entries of a [`Journal`] on disk, in their order. An incomplete last line is left out.
#[derive(Debug)]
pub struct JournalReader {
    info: JobInfo,
    reader: BufReader<File>,
    /// The end of the last complete line.
    position: u64,
    number: u64,
    buffer: Vec<u8>,
}

impl JournalReader {
    /// The first line of the file.
    pub fn info(&self) -> &JobInfo {
        &self.info
    }

    /// What all entries together say that were not read yet.
    ///
    /// # Errors
    ///
    /// If a line cannot be read.
    pub fn state(&mut self) -> io::Result<JournalState> {
        let mut state = JournalState::default();
        for entry in self {
            state.apply(&entry?);
        }
        Ok(state)
    }
}

impl Iterator for JournalReader {
    type Item = io::Result<JournalEntry>;

    fn next(&mut self) -> Option<io::Result<JournalEntry>> {
        self.buffer.clear();
        self.number += 1;
        match self.reader.read_until(b'\n', &mut self.buffer) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(error) => return Some(Err(error)),
        }
        match serde_json::from_slice(&self.buffer) {
            Ok(entry) if self.buffer.ends_with(b"\n") => {
                self.position += self.buffer.len() as u64;
                Some(Ok(entry))
            }
            // After a crash of the machine, the end may hold anything.
            _ => match self.reader.fill_buf() {
                Ok([]) => None,
                Ok(_) => {
                    let number = self.number;
                    Some(Err(invalid(&format!("line {number} of the journal is damaged"))))
                }
                Err(error) => Some(Err(error)),
            },
        }
    }
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
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_is_unlocked_even_if_a_new_process_has_its_files_open() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("job.ndjson");
        let open = || Journal::open_or_create(&path, &JobInfo::new("list"));
        let first = open().expect("created");
        assert_eq!(open().expect_err("locked").kind(), io::ErrorKind::WouldBlock);
        // What a process inherits between `fork` and `exec`.
        let inherited = first.inner.lock.try_clone().expect("a descriptor");
        drop(first);
        open().expect("unlocked");
        drop(inherited);
    }
}
