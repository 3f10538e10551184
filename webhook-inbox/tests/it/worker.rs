//! Workers: attempts, leases, and stopping.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use webhook_inbox::{BoxError, ErrorKind, Job};

use crate::support::{
    Bench, PATIENCE, PostgresBench, SHORT_LEASE, SqliteBench, always_ok, delivery, eventually,
    quick, with_each_database,
};

with_each_database! {
    async fn a_failed_attempt_is_rolled_back_and_repeated(bench: B) {
        let inbox = bench.inbox();
        inbox.accept(&delivery("1")).await.unwrap();
        let worker = B::run(quick(&inbox), Arc::new(|job: &Job| match job.attempt() {
            1 => Err("the first attempt fails".into()),
            2 => panic!("the second attempt panics"),
            _ => Ok(()),
        }));
        bench.wait_for(1).await;
        inbox.stop();
        worker.await.unwrap().unwrap();
        assert_eq!(bench.handled().await.len(), 1, "writes of failed attempts are rolled back");
    }

    /// The handler takes twice as long as the lease, which a busy machine can renew in time.
    async fn a_lease_is_renewed_while_the_handler_runs(bench: B) {
        let lease = Duration::from_millis(1500);
        let (here, there) = (bench.inbox(), bench.inbox());
        let _ = here.accept(&delivery("1")).await.unwrap();
        let started = Arc::new(AtomicU32::new(0));
        let count = started.clone();
        let slow = Arc::new(move |_: &Job| {
            count.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(2 * lease);
            Ok(())
        });
        let workers = [
            B::run(quick(&here).lease(lease), slow.clone()),
            B::run(quick(&there).lease(lease), slow),
        ];
        bench.wait_for(1).await;
        here.stop();
        there.stop();
        for worker in workers {
            worker.await.unwrap().unwrap();
        }
        assert_eq!(started.load(Ordering::Relaxed), 1);
        assert_eq!(bench.handled().await.len(), 1);
    }

    /// A worker that stops finishes what it handles, and starts nothing else.
    async fn a_worker_stops_gracefully(bench: B) {
        let inbox = bench.inbox();
        // Before the worker starts: a handler's transaction locks the file of SQLite.
        for id in ["1", "2"] {
            inbox.accept(&delivery(id)).await.unwrap();
        }
        let (started, mut starts) = mpsc::unbounded_channel();
        let worker = B::run(quick(&inbox).concurrency(1), Arc::new(move |_: &Job| {
            let (proceed, wait) = std::sync::mpsc::channel();
            started.send(proceed)?;
            Ok(wait.recv_timeout(PATIENCE)?)
        }));
        let proceed = starts.recv().await.unwrap();
        inbox.stop();
        assert!(!worker.is_finished());
        proceed.send(()).unwrap();
        tokio::time::timeout(PATIENCE, worker).await.unwrap().unwrap().unwrap();
        assert_eq!(bench.handled().await.len(), 1);
        assert!(starts.recv().await.is_none(), "a second handler was started");

        // The other delivery is not lost.
        let next = bench.inbox();
        let _worker = B::run(quick(&next), always_ok());
        assert_eq!(bench.wait_for(2).await.len(), 2);
        next.stop();
    }

    /// The clock was wrong when the delivery was accepted, for example at the start of the machine.
    async fn a_delivery_from_a_wrong_clock_is_handled(bench: B) {
        for (count, due_at) in [(1, B::IN_2100), (2, B::IN_AN_HOUR)] {
            let inbox = bench.inbox();
            inbox.accept(&delivery(&count.to_string())).await.unwrap();
            let wrong = format!("UPDATE webhook_inbox SET due_at = {due_at} WHERE token = 0");
            bench.execute(&wrong).await;
            let _worker = B::run(quick(&inbox), always_ok());
            assert_eq!(bench.wait_for(count).await.len(), count);
            inbox.stop();
        }
    }

    /// A table that is missing for a moment, as during a restore, does not end a worker.
    async fn a_worker_survives_a_missing_table(bench: B) {
        let inbox = bench.inbox();
        let worker = B::run(quick(&inbox), always_ok());
        inbox.accept(&delivery("1")).await.unwrap();
        bench.wait_for(1).await;
        bench.execute("ALTER TABLE webhook_inbox RENAME TO elsewhere").await;
        assert_eq!(
            inbox.accept(&delivery("2")).await.unwrap_err().kind(),
            ErrorKind::NotMigrated
        );
        // Time for the worker to look at the table.
        for _ in 0..5 {
            inbox.wake();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        bench.execute("ALTER TABLE elsewhere RENAME TO webhook_inbox").await;
        inbox.accept(&delivery("2")).await.unwrap();
        bench.wait_for(2).await;
        inbox.stop();
        worker.await.unwrap().unwrap();
    }

    /// An attempt counts when it starts, so that a delivery that crashes the process does not
    /// crash it for ever.
    async fn an_abandoned_last_attempt_ends_as_a_dead_letter(bench: B) {
        let inbox = bench.inbox();
        inbox.accept(&delivery("1")).await.unwrap();
        // As a process leaves it that was killed during its second attempt.
        bench.execute("UPDATE webhook_inbox SET attempts = 2, token = 2").await;
        let worker = B::run(quick(&inbox).max_attempts(2), always_ok());
        let letters = eventually("there is a dead letter", async || {
            Some(inbox.dead_letters().list(9).await.unwrap()).filter(|letters| !letters.is_empty())
        })
        .await;
        assert!(letters[0].error.contains("stopped during the last attempt"), "{letters:?}");
        assert_eq!(bench.handled().await.len(), 0);
        inbox.stop();
        worker.await.unwrap().unwrap();
    }
}

/// What takes over a delivery, as another worker does when a lease has ended.
const TAKE_OVER: &str = "UPDATE webhook_inbox SET token = token + 1";

/// A worker that was paused, for example with its machine, cannot commit what another worker
/// has claimed in the meantime.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_lost_its_lease_commits_nothing_in_sqlite() {
    let bench = SqliteBench::start().await.unwrap();
    let inbox = bench.inbox();
    inbox.accept(&delivery("1")).await.unwrap();
    let (sender, mut paused) = mpsc::unbounded_channel::<oneshot::Sender<()>>();
    // With this lease, the loss is found at the commit.
    let worker = quick(&inbox).lease(Duration::from_secs(3600));
    let worker = tokio::spawn(worker.run_prepared(
        move |_| {
            let (resume, resumed) = oneshot::channel();
            let sent = sender.send(resume);
            async move {
                sent?;
                Ok(resumed.await?)
            }
        },
        |tx, _, ()| {
            tx.execute("INSERT INTO handled VALUES ('twice')", [])?;
            Ok(())
        },
    ));
    let resume = paused.recv().await.unwrap();
    bench.execute(TAKE_OVER).await;
    inbox.stop();
    resume.send(()).unwrap();
    worker.await.unwrap().unwrap();
    assert!(bench.handled().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_lost_its_lease_commits_nothing_in_postgres() {
    let Some(bench) = PostgresBench::start().await else { return };
    for lease in [Duration::from_secs(3600), SHORT_LEASE] {
        bench.execute("DELETE FROM webhook_inbox").await;
        let inbox = bench.inbox();
        inbox.accept(&delivery("1")).await.unwrap();
        let (sender, mut paused) = mpsc::unbounded_channel::<oneshot::Sender<()>>();
        let worker = tokio::spawn(quick(&inbox).lease(lease).run(
            async move |tx: &tokio_postgres::Transaction<'_>, _: &Job| {
                tx.execute("INSERT INTO handled VALUES ('twice')", &[]).await?;
                let (resume, resumed) = oneshot::channel();
                sender.send(resume)?;
                Ok::<_, BoxError>(resumed.await?)
            },
        ));
        let resume = paused.recv().await.unwrap();
        bench.execute(&format!("{TAKE_OVER}, due_at = now() + interval '1 hour'")).await;
        inbox.stop();
        if lease == SHORT_LEASE {
            // The renewal finds the loss, and the handler is dropped.
            let mut resume = resume;
            tokio::time::timeout(PATIENCE, resume.closed()).await.unwrap();
        } else {
            resume.send(()).unwrap();
        }
        worker.await.unwrap().unwrap();
        assert!(bench.handled().await.is_empty());
    }
}

/// What takes long runs outside of the transaction: deliveries are accepted meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prepare_does_not_lock_sqlite() {
    let bench = SqliteBench::start().await.unwrap();
    let inbox = bench.inbox();
    inbox.accept(&delivery("1")).await.unwrap();
    let (sender, mut prepared) = mpsc::unbounded_channel::<oneshot::Sender<&str>>();
    let worker = tokio::spawn(quick(&inbox).concurrency(1).run_prepared(
        move |_| {
            let (resume, resumed) = oneshot::channel();
            let sent = sender.send(resume);
            async move {
                sent?;
                Ok(resumed.await?)
            }
        },
        |tx, _, prepared| {
            tx.execute("INSERT INTO handled VALUES (?1)", [prepared])?;
            Ok(())
        },
    ));
    let resume = prepared.recv().await.unwrap();
    inbox.accept(&delivery("2")).await.unwrap();
    inbox.stop();
    resume.send("prepared").unwrap();
    worker.await.unwrap().unwrap();
    assert_eq!(bench.handled().await, ["prepared"]);
}
