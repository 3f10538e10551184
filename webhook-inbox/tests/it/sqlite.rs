//! SQLite: a full disk, a lock that is held for long, and transactions that end early.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::TransactionBehavior;
use tokio::sync::{mpsc, oneshot, watch};
use webhook_inbox::{Accepted, ErrorKind, Inbox, Job};

use crate::databases::SqliteBench;
use crate::support::{Bench, PATIENCE, always_ok, delivery, quick, stop, verified};

/// A page limit stands for the disk. Handlers set it, because it belongs to the connection: the one
/// that removes it is claimed before the disk is full.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_deliveries_and_loses_none() {
    let bench = SqliteBench::start().await.unwrap();
    let inbox = bench.inbox();
    let (free, is_free) = watch::channel(false);
    let prepare = move |job: Job| {
        let mut is_free = is_free.clone();
        async move {
            if job.delivery().id() == Some("free") {
                is_free.wait_for(|free| *free).await?;
            }
            Ok(())
        }
    };

    let worker = tokio::spawn(quick(&inbox).run_prepared(prepare, |tx, job, ()| {
        let pages: i64 = tx.query_row("PRAGMA page_count", [], |row| row.get(0))?;
        match job.delivery().id() {
            Some("fill") => tx.pragma_update(None, "max_page_count", pages + 40)?,
            Some("free") => tx.pragma_update(None, "max_page_count", 1_000_000)?,
            _ => {}
        }
        tx.execute("INSERT INTO handled VALUES (?1)", [job.delivery().key()])?;
        Ok(())
    }));
    inbox.accept(&delivery("free")).await.unwrap();
    inbox.accept(&delivery("fill")).await.unwrap();
    bench.wait_for(1).await;
    let large = |id: usize| {
        let filler = "x".repeat(20_000);
        verified(&format!(
            r#"{{"event":"email.sent","id":"{id:03}","data":"{filler}"}}"#
        ))
    };

    let mut accepted = 0;
    let error = loop {
        match inbox.accept(&large(accepted)).await {
            Ok(_) => accepted += 1,
            Err(error) => break error,
        }
        assert!(accepted < 100, "the disk never filled up");
    };
    assert_eq!(error.kind(), ErrorKind::DiskFull, "{error:?}");

    free.send(true).unwrap();
    bench.wait_for(2 + accepted).await;
    assert_eq!(inbox.accept(&large(accepted)).await.unwrap(), Accepted::New);

    bench.wait_for(3 + accepted).await;
    stop(&inbox, worker).await;
}

/// The transaction of the application decides whether the delivery is accepted.
#[tokio::test]
async fn accepts_in_a_transaction_of_sqlite() {
    let bench = SqliteBench::start().await.unwrap();
    let inbox = bench.inbox();
    let mut connection = bench.connection();
    let tx = connection.transaction().unwrap();
    assert_eq!(inbox.accept_in(&tx, &delivery("1")).unwrap(), Accepted::New);

    tx.rollback().unwrap();

    let tx = connection.transaction().unwrap();
    tx.execute("INSERT INTO handled VALUES ('written with it')", [])
        .unwrap();
    assert_eq!(inbox.accept_in(&tx, &delivery("1")).unwrap(), Accepted::New);
    assert_eq!(
        inbox.accept_in(&tx, &delivery("1")).unwrap(),
        Accepted::Duplicate
    );

    tx.commit().unwrap();

    let worker = SqliteBench::run(quick(&inbox), always_ok());
    assert_eq!(bench.wait_for(2).await.len(), 2);

    stop(&inbox, worker).await;
}

/// Another process may hold the write lock for long.
#[tokio::test]
async fn a_locked_database_is_reported() {
    let bench = SqliteBench::start().await.unwrap();
    let mut connection = bench.connection();
    let other = bench.connection();
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate);
    other.busy_timeout(Duration::ZERO).unwrap();
    let error = bench.inbox().accept_in(&other, &delivery("1")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
    drop(tx);
}

/// Another process holds the write lock for longer than a handler waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_database_uses_no_attempt() {
    let bench = SqliteBench::start().await.unwrap();
    let inbox = bench.inbox();
    let (sender, mut prepared) = mpsc::unbounded_channel::<oneshot::Sender<()>>();
    let mut prepared = async || {
        let started = tokio::time::timeout(PATIENCE, prepared.recv());
        started.await.expect("`prepare` starts").unwrap()
    };

    let worker = quick(&inbox)
        .max_attempts(1)
        .lease(Duration::from_secs(3600));
    let worker = tokio::spawn(worker.run_prepared(
        move |_| {
            let (resume, resumed) = oneshot::channel();
            let sent = sender.send(resume);
            async move {
                sent?;
                Ok(resumed.await?)
            }
        },
        |tx, job, ()| {
            // The next handlers do not wait for the lock.
            tx.busy_timeout(Duration::ZERO)?;
            tx.execute("INSERT INTO handled VALUES (?1)", [job.delivery().key()])?;
            Ok(())
        },
    ));
    inbox.accept(&delivery("1")).await.unwrap();
    prepared().await.send(()).unwrap();
    bench.wait_for(1).await;

    inbox.accept(&delivery("2")).await.unwrap();
    let resume = prepared().await;
    let mut other = bench.connection();
    let lock = other
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .unwrap();
    resume.send(()).unwrap();
    // The delivery cannot be given back before the lock is free.
    tokio::time::sleep(Duration::from_millis(300)).await;
    drop(lock);
    prepared().await.send(()).unwrap();
    assert_eq!(bench.wait_for(2).await.len(), 2);
    assert!(inbox.dead_letters(0, 1).await.unwrap().is_empty());

    stop(&inbox, worker).await;
}

/// As processes that start at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_file_is_opened_by_several_at_once() {
    for round in 0..5 {
        let directory = tempfile::tempdir().unwrap();
        let path = Arc::new(directory.path().join("app.db"));
        let barrier = Arc::new(std::sync::Barrier::new(8));
        let starts = [0; 8].map(|_| {
            let path = path.clone();
            let barrier = barrier.clone();
            tokio::task::spawn_blocking(move || {
                barrier.wait();
                Inbox::sqlite(&*path)
            })
        });
        for start in starts {
            let inbox = start.await.unwrap();
            let inbox = inbox.unwrap_or_else(|error| panic!("round {round}: {error:?}"));
            inbox.migrate().await.unwrap();
            let _: Accepted = inbox.accept(&delivery("1")).await.unwrap();
        }
    }
}
