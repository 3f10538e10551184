//! The background jobs in progress, recorded in a file next to the database, so that the next
//! server knows which jobs the process was working on when it ended.
//!
//! A job is recorded while the server computes, not while it waits for a network: a defect can
//! end the process only then, and a process that is killed is unlikely to be in the middle of
//! the same job several times. The file need not survive a failure of the machine.

use std::fs::File;
use std::future::poll_fn;
use std::io::{self, Read as _};
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock};
use std::task::ready;

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use super::data_dir::{self, JOBS_FILE};
use super::lock::lock;
use crate::model::error::{ApiError, Code};

/// A background job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) kind: Kind,
    /// Without white space.
    pub(crate) id: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A row of the table `due`.
    Due,
    /// Renders an email for the relay.
    Relay,
    /// Announces a message that stays on this server.
    Local,
    /// Writes the deliveries of a pending event.
    Event,
    /// Attempts a webhook delivery.
    Delivery,
    /// Reads a message received over SMTP. Its id is a digest of the message.
    Incoming,
}

impl Kind {
    const ALL: [Self; 6] =
        [Self::Due, Self::Relay, Self::Local, Self::Event, Self::Delivery, Self::Incoming];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Due => "due",
            Self::Relay => "relay",
            Self::Local => "local",
            Self::Event => "event",
            Self::Delivery => "delivery",
            Self::Incoming => "incoming",
        }
    }
}

impl Job {
    pub(crate) fn new(kind: Kind, id: impl Into<String>) -> Self {
        Self { kind, id: id.into() }
    }
}

/// The file consists of lines of this length, one for each job, or blank.
const LINE: usize = 160;
/// Longer files were not written by a server.
const MAX_FILE: u64 = 1 << 20;

#[derive(Default)]
pub(crate) struct InProgress {
    lines: Mutex<Lines>,
    /// The jobs that met a defect and have not been counted yet.
    failed: Mutex<Vec<Job>>,
    /// Set after a crash. From then on, the jobs are done one at a time, so that the one that
    /// ends the process is known.
    turns: OnceLock<Arc<AsyncMutex<()>>>,
}

#[derive(Default)]
struct Lines {
    /// `None` for a database in memory, and once the server has stopped.
    file: Option<File>,
    /// Whether each line is in use.
    used: Vec<bool>,
}

/// Jobs that are done one after the other, in one line of the file: a job stays recorded until
/// the next one begins or this is dropped.
pub(crate) struct Series<'a> {
    in_progress: &'a InProgress,
    mark: Option<Mark<'a>>,
}

/// A job in progress, until this is dropped.
struct Mark<'a> {
    in_progress: &'a InProgress,
    line: usize,
    job: Job,
    _turn: Option<OwnedMutexGuard<()>>,
}

impl InProgress {
    /// Opens the file. Also returns the jobs that were in progress when the last server ended.
    pub(super) fn open(directory: &Path) -> io::Result<(Self, Vec<Job>)> {
        let mut file = data_dir::open_private_file(&directory.join(JOBS_FILE))?;
        let mut text = Vec::new();
        (&mut file).take(MAX_FILE).read_to_end(&mut text)?;
        let text = String::from_utf8_lossy(&text);
        let jobs = text.lines().filter_map(|line| {
            let (kind, id) = line.trim().split_once(' ')?;
            let kind = Kind::ALL.into_iter().find(|known| known.as_str() == kind)?;
            Some(Job::new(kind, id))
        });
        let jobs = jobs.collect();
        let lines = Lines { file: Some(file), used: Vec::new() };
        Ok((Self { lines: Mutex::new(lines), ..Self::default() }, jobs))
    }

    /// Forgets the jobs of the last server, which have been counted.
    pub(crate) fn begin(&self, has_crashed: bool) {
        lock(&self.lines).clear();
        if has_crashed {
            self.turns.get_or_init(Arc::default);
        }
    }

    /// Forgets all jobs: the process may end.
    pub(super) fn close(&self) {
        let mut lines = lock(&self.lines);
        lines.clear();
        lines.file = None;
    }

    /// Whether [`InProgress::run`] may wait for other jobs. Do not call it on an async thread
    /// then.
    pub(crate) fn takes_turns(&self) -> bool {
        self.turns.get().is_some()
    }

    /// Does a part of a job that needs no network. If that panics or meets a defect of the
    /// server, the job is counted at the next `crashes::count_failed`.
    pub(crate) fn run<T>(
        &self,
        job: Job,
        work: impl FnOnce() -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        self.series().run(job, work)
    }

    /// For several jobs at once, of which each is done as by [`InProgress::run`].
    pub(crate) fn series(&self) -> Series<'_> {
        Series { in_progress: self, mark: None }
    }

    /// Like [`InProgress::run`], for a part of a job that waits for the network, too: the job is
    /// recorded only while it computes.
    pub(crate) async fn run_async<T>(&self, job: &Job, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let mut waiting = None;
        let computing = poll_fn(|cx| {
            let turn = match self.turns.get() {
                None => None,
                Some(turns) => {
                    let lock = || Box::pin(Arc::clone(turns).lock_owned());
                    let turn = ready!(waiting.get_or_insert_with(lock).as_mut().poll(cx));
                    waiting = None;
                    Some(turn)
                }
            };
            let _mark = self.mark(job.clone(), turn);
            work.as_mut().poll(cx)
        });
        computing.await
    }

    /// Notes the error of a job, if it is a defect of the server.
    pub(crate) fn note(&self, job: &Job, error: &ApiError) {
        let mut failed = lock(&self.failed);
        if error.code() == Code::Internal && !failed.contains(job) {
            failed.push(job.clone());
        }
    }

    /// Takes the jobs that met a defect.
    pub(super) fn take_failed(&self) -> Vec<Job> {
        std::mem::take(&mut lock(&self.failed))
    }

    fn mark(&self, job: Job, turn: Option<OwnedMutexGuard<()>>) -> Mark<'_> {
        let mut lines = lock(&self.lines);
        let line = lines.used.iter().position(|used| !used).unwrap_or(lines.used.len());
        if line == lines.used.len() {
            lines.used.push(false);
        }
        lines.used[line] = true;
        lines.write(line, Some(&job));
        drop(lines);
        Mark { in_progress: self, line, job, _turn: turn }
    }
}

impl Series<'_> {
    /// Does a job, or a part of one, as [`InProgress::run`] does.
    pub(crate) fn run<T>(
        &mut self,
        job: Job,
        work: impl FnOnce() -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let in_progress = self.in_progress;
        let mark = match &mut self.mark {
            Some(mark) => {
                mark.replace(job);
                mark
            }
            none => {
                let turns = in_progress.turns.get();
                let turn = turns.map(|turns| Arc::clone(turns).blocking_lock_owned());
                none.insert(in_progress.mark(job, turn))
            }
        };
        let result = work();
        if let Err(error) = &result {
            in_progress.note(&mark.job, error);
        }
        result
    }
}

impl Lines {
    /// An error is of no importance: the job is not counted if it ends the process.
    fn write(&mut self, line: usize, job: Option<&Job>) {
        let Some(file) = &self.file else { return };
        let mut bytes = [b' '; LINE];
        bytes[LINE - 1] = b'\n';
        if let Some(Job { kind, id }) = job {
            let text = [kind.as_str().as_bytes(), b" ", id.as_bytes()].concat();
            // A longer one is not recorded.
            if let Some(start) = bytes[..LINE - 1].get_mut(..text.len()) {
                start.copy_from_slice(&text);
            }
        }
        let _ = write_at(file, &bytes, (line * LINE) as u64);
    }

    fn clear(&mut self) {
        if let Some(file) = &self.file {
            let _ = file.set_len(0);
        }
    }
}

#[cfg(unix)]
fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

#[cfg(not(unix))]
fn write_at(mut file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    use std::io::{Seek as _, SeekFrom, Write as _};

    file.seek(SeekFrom::Start(offset))?;
    file.write_all(bytes)
}

impl Mark<'_> {
    fn replace(&mut self, job: Job) {
        lock(&self.in_progress.lines).write(self.line, Some(&job));
        self.job = job;
    }
}

impl Drop for Mark<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.in_progress.note(&self.job, &ApiError::internal("a background job panicked"));
        }
        let mut lines = lock(&self.in_progress.lines);
        lines.write(self.line, None);
        lines.used[self.line] = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(id: &str) -> Job {
        Job::new(Kind::Relay, id)
    }

    fn panics(in_progress: &InProgress, id: &str) {
        let run = || in_progress.run::<()>(job(id), || panic!("intentional panic of this test"));
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).expect_err("a panic");
    }

    #[test]
    fn the_next_server_finds_the_jobs_in_progress() {
        let directory = tempfile::tempdir().unwrap();
        let open = || InProgress::open(directory.path()).unwrap();
        let (first, found) = open();
        assert_eq!(found, []);
        first
            .run(job("outer"), || {
                first.run(job("done"), || Ok(()))?;
                first.run(job("inner"), || {
                    // As if the process ended here.
                    assert_eq!(open().1, [job("outer"), job("inner")]);
                    Ok(())
                })
            })
            .unwrap();
        assert_eq!(open().1, []);
        // A stop forgets what is still in progress.
        first
            .run(job("cut"), || {
                first.close();
                assert_eq!(open().1, []);
                Ok(())
            })
            .unwrap();
    }

    #[test]
    fn the_jobs_of_a_series_follow_each_other_in_one_line() {
        let directory = tempfile::tempdir().unwrap();
        let open = || InProgress::open(directory.path()).unwrap();
        let (in_progress, _) = open();
        let mut series = in_progress.series();
        for id in ["1", "a longer one", "3"] {
            let recorded = series.run(job(id), || Ok(open().1)).unwrap();
            assert_eq!(recorded, [job(id)]);
        }
        let defect = || Err(ApiError::new(Code::Internal, "failed"));
        series.run::<()>(job("defect"), defect).unwrap_err();
        // A line has no room for this one; the one before is not blamed for it.
        let long = "x".repeat(LINE);
        assert_eq!(series.run(job(&long), || Ok(open().1)).unwrap(), []);
        drop(series);
        assert_eq!(open().1, []);
        assert_eq!(in_progress.take_failed(), [job("defect")]);
    }

    #[tokio::test]
    async fn a_job_that_waits_is_in_progress_only_while_it_computes() {
        let directory = tempfile::tempdir().unwrap();
        let open = || InProgress::open(directory.path()).unwrap();
        let (in_progress, _) = open();
        for takes_turns in [false, true] {
            in_progress.begin(takes_turns);
            let (sender, receiver) = tokio::sync::oneshot::channel();
            let waits = job("waits");
            let work = in_progress.run_async(&waits, async {
                assert_eq!(open().1, [job("waits")]);
                receiver.await.unwrap();
                assert_eq!(open().1, [job("waits")]);
            });
            let other = async {
                assert_eq!(open().1, []);
                let other = job("other");
                // It can compute while the first one waits.
                let compute = async { assert_eq!(open().1, [job("other")]) };
                in_progress.run_async(&other, compute).await;
                sender.send(()).unwrap();
            };
            tokio::join!(work, other);
            assert_eq!(open().1, []);
        }
        let poison = job("poison");
        let panics =
            in_progress.run_async(&poison, async { panic!("intentional panic of this test") });
        let panicked = futures_util::FutureExt::catch_unwind(std::panic::AssertUnwindSafe(panics));
        panicked.await.expect_err("a panic");
        assert_eq!(in_progress.take_failed(), [job("poison")]);
    }

    #[test]
    fn only_defects_are_noted() {
        let in_progress = InProgress::default();
        let fail = |id, code| {
            in_progress.run::<()>(job(id), || Err(ApiError::new(code, "failed"))).unwrap_err();
        };
        fail("full", Code::StorageFull);
        fail("defect", Code::Internal);
        panics(&in_progress, "panic");
        assert_eq!(in_progress.take_failed(), [job("defect"), job("panic")]);
        assert_eq!(in_progress.take_failed(), []);
    }

    #[test]
    fn after_a_crash_jobs_are_done_one_at_a_time() {
        let in_progress = InProgress::default();
        in_progress.begin(true);
        panics(&in_progress, "panic");
        let running = Mutex::new(());
        std::thread::scope(|scope| {
            for number in 0..4 {
                let (in_progress, running) = (&in_progress, &running);
                scope.spawn(move || {
                    let run = || {
                        let _alone = running.try_lock().expect("no other job is running");
                        std::thread::yield_now();
                        Ok(())
                    };
                    for _ in 0..50 {
                        in_progress.run(job(&number.to_string()), run).unwrap();
                    }
                });
            }
        });
    }
}
