//! Copies the write-ahead log into the database file on a thread of its own, so that no write waits
//! for that. The writer itself copies only what was written in the meantime, which is little: then
//! nothing of the log is needed any more, and the next write begins it anew.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use rusqlite::Connection;

use super::lock::lock;
use super::open::{self, OpenError};

/// Pages in the log from which it is copied: 16 MiB. A copy costs two more syncs.
const COPY: i64 = 4_000;
/// The writer copies up to this many pages itself: 4 MiB.
const REST: i64 = 1_000;
/// From this many pages on, the writer does not go on before the log is copied: 128 MiB.
const MAX: i64 = 32_000;

pub(super) struct Checkpoints {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
    database: Arc<File>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    Copying,
    Closed,
}

impl Checkpoints {
    /// Starts the thread, and ends the copies that SQLite makes within commits.
    pub(super) fn start(writer: &Connection, path: &Path) -> Result<Self, OpenError> {
        let connection = open::copier(path)?;
        let file = OpenOptions::new().read(true).write(true).open(path);
        let read = |source| OpenError::Read { path: path.to_owned(), source };
        let file = Arc::new(file.map_err(read)?);
        let shared = Arc::<Shared>::default();
        let (copier, database) = (Arc::clone(&shared), Arc::clone(&file));
        let thread = std::thread::Builder::new().name("svc-checkpoint".to_owned());
        let thread = thread.spawn(move || run(&connection, &database, &copier));
        writer.pragma_update(None, "wal_autocheckpoint", 0)?;
        Ok(Self { shared, thread: thread.map_err(OpenError::Start)?, database: file })
    }

    /// Has the log copied, if it is time for that. Call it after each commit.
    pub(super) fn after_commit(&self, writer: &Connection) {
        // What the log has, and what of it was copied.
        let counted = writer.prepare_cached("PRAGMA wal_checkpoint(NOOP)").and_then(|mut count| {
            count.query_row([], |row| Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?)))
        });
        let Ok((pages, copied)) = counted else { return };
        if pages < COPY || pages == copied {
            return;
        }
        let mut state = lock(&self.shared.state);
        while *state == State::Copying {
            if pages < MAX {
                return;
            }
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if pages >= MAX || pages - copied <= REST {
            drop(state);
            copy(writer);
        } else {
            *state = State::Copying;
            drop(state);
            self.shared.changed.notify_all();
        }
    }

    /// Ends the thread. Close what this returns after all connections: on Unix, closing the file
    /// releases the locks that SQLite has on it.
    pub(super) fn stop(self) -> Arc<File> {
        *lock(&self.shared.state) = State::Closed;
        self.shared.changed.notify_all();
        if self.thread.join().is_err() {
            tracing::error!("the thread that copies the write-ahead log panicked");
        }
        self.database
    }
}

fn run(connection: &Connection, database: &File, shared: &Shared) {
    loop {
        let mut state = lock(&shared.state);
        while *state == State::Idle {
            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if *state == State::Closed {
            return;
        }
        drop(state);
        copy(connection);
        // SQLite syncs the database only when the last page of the log is copied, and the writer
        // does that.
        if let Err(error) = database.sync_data() {
            tracing::warn!(%error, "cannot sync the database");
        }
        let mut state = lock(&shared.state);
        if *state == State::Copying {
            *state = State::Idle;
        }
        drop(state);
        shared.changed.notify_all();
    }
}

fn copy(connection: &Connection) {
    let copied = connection.prepare_cached("PRAGMA wal_checkpoint(PASSIVE)");
    if let Err(error) = copied.and_then(|mut copy| copy.query_row([], |_| Ok(()))) {
        tracing::warn!(%error, "cannot copy the write-ahead log into the database");
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn the_log_is_copied_by_another_thread_and_begun_anew() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("svc.db");
        let writer = open::file(&path).unwrap();
        let checkpoints = Checkpoints::start(&writer, &path).unwrap();
        let write = |bytes: i64| {
            let sql = "INSERT INTO piece SELECT COUNT(*), 0, zeroblob(?1) FROM piece";
            writer.execute(sql, [bytes]).unwrap();
        };
        let log = || {
            let read = |row: &rusqlite::Row<'_>| Ok((row.get(1)?, row.get(2)?));
            writer.query_row("PRAGMA wal_checkpoint(NOOP)", [], read).unwrap()
        };
        write(COPY * 4096);
        let (pages, copied): (i64, i64) = log();
        assert!(pages >= COPY);
        assert_eq!(copied, 0, "not by the commit");
        checkpoints.after_commit(&writer);
        // A write goes on in the meantime. What it adds is left to the writer.
        write(1);
        let started = Instant::now();
        while log().0 >= COPY {
            assert!(
                started.elapsed() < Duration::from_secs(60),
                "the log is not copied: {:?}",
                log()
            );
            checkpoints.after_commit(&writer);
            write(1);
        }
        let locks = checkpoints.stop();
        drop(writer);
        drop(locks);
        assert!(!directory.path().join("svc.db-wal").exists());
    }
}
