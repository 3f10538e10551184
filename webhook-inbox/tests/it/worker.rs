//! Workers: attempts, leases, time limits, and stopping.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use webhook_inbox::{ErrorKind, Job};

use crate::databases::with_each_database;
use crate::support::{
    PATIENCE, Prepare, SHORT_LEASE, always_ok, dead_letters, delivery, quick, stop,
};

/// A `prepare` that reports its start, and ends when the test says so.
fn paused() -> (Prepare, mpsc::UnboundedReceiver<oneshot::Sender<String>>) {
    let (started, starts) = mpsc::unbounded_channel();
    let prepare: Prepare = Box::new(move |_| {
        let (resume, resumed) = oneshot::channel();
        let sent = started.send(resume);
        Box::pin(async move {
            sent?;
            Ok(resumed.await?)
        })
    });
    (prepare, starts)
}

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
        stop(&inbox, worker).await;
        assert_eq!(bench.handled().await.len(), 1, "writes of failed attempts are rolled back");
    }

    /// Some errors end the transaction, or let it fail: PostgreSQL then rolls back at the commit,
    /// and reports no error.
    async fn an_error_that_the_handler_ignores_does_not_end_the_delivery(bench: B) {
        bench.execute("CREATE TABLE once (id INTEGER PRIMARY KEY)").await;
        bench.execute("INSERT INTO once VALUES (1)").await;
        for (count, statement) in [(1, B::FATAL), (2, "ROLLBACK")] {
            let inbox = bench.inbox();
            inbox.accept(&delivery(statement)).await.unwrap();
            let worker = B::run_statement(quick(&inbox).max_attempts(2), statement);
            let letters = dead_letters(&inbox, count).await;
            let error = &letters[count - 1].error;
            assert!(error.contains("transaction"), "{statement}: {error}");
            assert_eq!(letters[count - 1].attempts, 2);
            assert!(bench.handled().await.is_empty(), "{statement}");
            stop(&inbox, worker).await;
        }
    }

    /// The handler takes twice as long as the lease.
    async fn a_handler_that_outlives_its_lease_is_not_started_twice(bench: B) {
        let here = bench.inbox();
        let there = bench.inbox();
        here.accept(&delivery("1")).await.unwrap();
        let started = Arc::new(AtomicU32::new(0));
        let count = started.clone();
        let slow = Arc::new(move |_: &Job| {
            count.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(2 * SHORT_LEASE);
            Ok(())
        });
        let workers = [
            B::run(quick(&here).lease(SHORT_LEASE), slow.clone()),
            B::run(quick(&there).lease(SHORT_LEASE), slow),
        ];
        bench.wait_for(1).await;
        for (inbox, worker) in [here, there].iter().zip(workers) {
            stop(inbox, worker).await;
        }

        assert_eq!((started.load(Ordering::Relaxed), bench.handled().await.len()), (1, 1));
    }

    /// What takes long runs outside of the transaction: deliveries are accepted meanwhile, and no
    /// other worker claims it. A busy machine can renew this lease in time.
    async fn prepare_renews_its_lease_and_locks_nothing(bench: B) {
        let lease = Duration::from_millis(1500);
        let here = bench.inbox();
        let there = bench.inbox();
        here.accept(&delivery("1")).await.unwrap();
        let (prepare, mut starts) = paused();
        let worker = B::run_prepared(quick(&here).lease(lease).concurrency(1), prepare);
        let resume = starts.recv().await.unwrap();
        let other = B::run(quick(&there), always_ok());
        there.accept(&delivery("2")).await.unwrap();
        bench.wait_for(1).await;
        tokio::time::sleep(2 * lease).await;
        resume.send("prepared".to_owned()).unwrap();
        assert_eq!(bench.wait_for(2).await, ["email:email.bounced:id:2", "prepared"]);

        stop(&here, worker).await;
        stop(&there, other).await;
    }

    /// A worker that was paused, for example with its machine, cannot commit what another worker
    /// has claimed in the meantime.
    async fn a_worker_that_lost_its_lease_commits_nothing(bench: B) {
        // The loss is found when the lease is renewed, or when the transaction begins.
        for lease in [SHORT_LEASE, Duration::from_secs(3600)] {
            let inbox = bench.inbox();
            let id = format!("{lease:?}");
            inbox.accept(&delivery(&id)).await.unwrap();
            let (prepare, mut starts) = paused();
            let worker = B::run_prepared(quick(&inbox).lease(lease), prepare);
            let mut resume = starts.recv().await.unwrap();
            // As another worker does when a lease has ended.
            let take_over = "DELETE FROM webhook_inbox_workers; UPDATE webhook_inbox \
                 SET token = token + 1, owner = NULL, delay = 9000000000000000, due_at = 9000000000000000";
            bench.execute(take_over).await;
            if lease == SHORT_LEASE {
                tokio::time::timeout(PATIENCE, resume.closed()).await.unwrap();
            } else {
                resume.send("twice".to_owned()).unwrap();
            }
            stop(&inbox, worker).await;
            assert!(bench.handled().await.is_empty());
        }
    }

    /// An attempt counts when it starts, so that a delivery that crashes the process does not
    /// crash it for ever.
    async fn an_abandoned_last_attempt_ends_as_a_dead_letter(bench: B) {
        let inbox = bench.inbox();
        inbox.accept(&delivery("1")).await.unwrap();
        // As a process leaves it that was killed during its second attempt.
        bench.execute("UPDATE webhook_inbox SET attempts = 2, token = 2").await;
        let worker = B::run(quick(&inbox).max_attempts(2), always_ok());
        let letters = dead_letters(&inbox, 1).await;
        assert!(letters[0].error.contains("stopped during the last attempt"), "{letters:?}");
        assert_eq!(bench.handled().await.len(), 0);

        stop(&inbox, worker).await;
    }

    async fn a_handler_that_never_ends_becomes_a_dead_letter(bench: B) {
        let inbox = bench.inbox();
        inbox.accept(&delivery("1")).await.unwrap();
        let limit = Duration::from_millis(200);
        let worker = quick(&inbox).handler_timeout(limit).max_attempts(2);
        let (sender, mut starts) = mpsc::unbounded_channel();
        let worker = B::run_prepared(worker, Box::new(move |job| {
            let sent = sender.send(job.attempt());
            Box::pin(async move {
                sent?;
                std::future::pending().await
            })
        }));
        let idle = tokio::time::timeout(PATIENCE, inbox.until_idle()).await;
        idle.expect("nothing waits or is handled").unwrap();
        let letters = inbox.dead_letters(0, 9).await.unwrap();
        assert_eq!(letters[0].error, "the handler exceeded its time limit of 200ms");
        assert_eq!((letters.len(), letters[0].attempts), (1, 2));

        stop(&inbox, worker).await;
        assert_eq!((starts.recv().await, starts.recv().await, starts.recv().await), (Some(1), Some(2), None));
    }

    /// The server ends the statement. Deliveries are accepted, before and after.
    async fn a_statement_that_never_ends_becomes_a_dead_letter(bench: B) {
        let inbox = bench.inbox();
        inbox.accept(&delivery("1")).await.unwrap();
        let limit = Duration::from_millis(300);
        let worker = quick(&inbox).handler_timeout(limit).max_attempts(2);
        let worker = B::run_statement(worker, B::ENDLESS);
        let letters = dead_letters(&inbox, 1).await;
        assert_eq!(letters[0].attempts, 2);
        assert_eq!(inbox.accept(&delivery("1")).await.unwrap(), webhook_inbox::Accepted::Duplicate);

        stop(&inbox, worker).await;
        assert!(bench.handled().await.is_empty());
    }

    /// It has lost its claim, although nothing can interrupt it.
    async fn a_handler_that_blocks_its_thread_cannot_commit_after_its_time_limit(bench: B) {
        let inbox = bench.inbox();
        inbox.accept(&delivery("1")).await.unwrap();
        let limit = Duration::from_secs(1);
        let worker = quick(&inbox).handler_timeout(limit).concurrency(1);
        let worker = B::run(worker, Arc::new(move |job: &Job| {
            if job.attempt() == 1 {
                std::thread::sleep(2 * limit);
            }
            assert!(job.attempt() < 3);
            Ok(())
        }));
        bench.wait_for(1).await;
        inbox.until_idle().await.unwrap();
        assert_eq!(bench.count("SELECT attempts FROM webhook_inbox").await, 2);

        stop(&inbox, worker).await;
        assert_eq!(bench.handled().await.len(), 1);
    }

    /// A worker that stops finishes what it handles, and starts nothing else.
    async fn a_worker_stops_gracefully(bench: B) {
        let inbox = bench.inbox();
        for id in ["1", "2"] {
            inbox.accept(&delivery(id)).await.unwrap();
        }

        let (prepare, mut starts) = paused();
        let worker = B::run_prepared(quick(&inbox).concurrency(1), prepare);
        let resume = starts.recv().await.unwrap();
        let mut stopping = std::pin::pin!(inbox.stop(PATIENCE));
        let early = tokio::time::timeout(Duration::from_millis(50), &mut stopping).await;
        assert!(early.is_err() && !worker.is_finished());

        resume.send("prepared".to_owned()).unwrap();
        assert!(stopping.await);

        worker.await.unwrap().unwrap();
        assert_eq!(bench.handled().await.len(), 1);
        assert!(starts.recv().await.is_none(), "a second handler was started");
        assert!(inbox.stop(Duration::ZERO).await, "it has stopped");

        // The other delivery is not lost.
        let next = bench.inbox();
        let worker = B::run(quick(&next), always_ok());
        assert_eq!(bench.wait_for(2).await.len(), 2);

        stop(&next, worker).await;
    }

    /// Whether the handler waits or blocks its thread.
    async fn stop_returns_within_its_limit(bench: B) {
        let limit = Duration::from_millis(300);
        for blocks in [false, true] {
            let inbox = bench.inbox();
            inbox.accept(&delivery(&blocks.to_string())).await.unwrap();
            let (started, mut starts) = mpsc::unbounded_channel();
            let worker = quick(&inbox).lease(SHORT_LEASE);
            let (release, blocked) = std::sync::mpsc::channel::<()>();
            let blocked = std::sync::Mutex::new(blocked);
            let mut worker = if blocks { B::run(worker, Arc::new(move |_: &Job| {
                started.send(())?;
                let _ = blocked.lock().unwrap().recv_timeout(PATIENCE);
                Ok(())
            })) } else { B::run_prepared(worker, Box::new(move |_| {
                let sent = started.send(());
                Box::pin(async move {
                    sent?;
                    std::future::pending().await
                })
            })) };
            starts.recv().await.unwrap();
            let since = Instant::now();
            assert!(!inbox.stop(limit).await);
            assert!((limit..10 * limit).contains(&since.elapsed()), "{:?}", since.elapsed());
            // A worker whose handler has a thread of its own ends before the handler goes on.
            let ended = tokio::time::timeout(Duration::from_secs(1), &mut worker).await;
            drop(release);
            let ended = match ended {
                Ok(ended) => ended,
                Err(_) => tokio::time::timeout(PATIENCE, worker).await.unwrap(),
            };
            ended.unwrap().unwrap();
            assert!(bench.handled().await.is_empty(), "it was rolled back");
            // Another process handles it when the lease has ended.
            let next = bench.inbox();
            let worker = B::run(quick(&next), always_ok());
            bench.wait_for(1).await;
            stop(&next, worker).await;
            bench.execute("DELETE FROM handled").await;
        }
    }

    /// Whatever an operator can mend does not end a worker, such as a table that is missing.
    async fn a_worker_waits_until_its_table_is_back(bench: B) {
        let inbox = bench.inbox();
        let worker = B::run(quick(&inbox).lease(SHORT_LEASE), always_ok());
        inbox.accept(&delivery("1")).await.unwrap();
        bench.wait_for(1).await;
        bench.execute("ALTER TABLE webhook_inbox RENAME TO elsewhere").await;
        let error = inbox.accept(&delivery("2")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotMigrated);

        tokio::time::sleep(2 * SHORT_LEASE).await;
        bench.execute("ALTER TABLE elsewhere RENAME TO webhook_inbox").await;
        inbox.accept(&delivery("2")).await.unwrap();
        bench.wait_for(2).await;
        stop(&inbox, worker).await;
    }

    async fn until_idle_waits_for_handlers_and_repeated_attempts(bench: B) {
        let inbox = bench.inbox();
        inbox.until_idle().await.unwrap();
        for id in ["1", "2", "3"] {
            inbox.accept(&delivery(id)).await.unwrap();
        }

        let idle = tokio::time::timeout(Duration::from_millis(100), inbox.until_idle()).await;
        assert!(idle.is_err(), "nothing is handled without a worker");

        let worker = B::run(quick(&inbox), Arc::new(|job: &Job| {
            if job.attempt() < 3 { Err("not yet".into()) } else { Ok(()) }
        }));
        inbox.until_idle().await.unwrap();
        assert_eq!(bench.handled().await.len(), 3);

        stop(&inbox, worker).await;
    }

    /// A commit by the application does not notify the workers.
    async fn a_delivery_of_another_process_is_found(bench: B) {
        let here = bench.inbox();
        let there = bench.inbox();
        let worker = B::run(quick(&here), always_ok());
        tokio::time::sleep(Duration::from_millis(100)).await;
        there.accept(&delivery("1")).await.unwrap();
        bench.wait_for(1).await;
        // Its next look would be in an hour.
        let hour = Duration::from_secs(3600);
        let woken = B::run(quick(&there).poll_interval(hour), always_ok());
        stop(&here, worker).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        there.accept(&delivery("2")).await.unwrap();
        bench.wait_for(2).await;
        // Accepted by another inbox, as in a transaction of the application.
        here.accept(&delivery("3")).await.unwrap();
        there.wake();
        bench.wait_for(3).await;
        stop(&there, woken).await;
    }
}
