//! What an operator meets: crashes, floods, pauses, clocks, versions, and deliveries that are tried
//! again or removed by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use webhook_inbox::{Failed, Job, Select};

use crate::databases::with_each_database;
use crate::support::{
    Behavior, PATIENCE, Prepare, SHORT_LEASE, always_ok, body, dead_letters, delivery, eventually,
    quick, stop,
};

/// A `prepare` that takes a moment and knows how many run at the same time.
fn counting(most: Arc<AtomicUsize>) -> Prepare {
    let running = Arc::new(AtomicUsize::new(0));
    Box::new(move |job| {
        let running = running.clone();
        let most = most.clone();
        Box::pin(async move {
            let now = 1 + running.fetch_add(1, Ordering::SeqCst);
            most.fetch_max(now, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(20)).await;
            running.fetch_sub(1, Ordering::SeqCst);
            Ok(format!(
                "{}: attempt {}",
                job.delivery().key(),
                job.attempt()
            ))
        })
    })
}

/// Sends the key of each delivery that is handled.
fn reporting() -> (Behavior, mpsc::UnboundedReceiver<String>) {
    let (sender, handled) = mpsc::unbounded_channel();
    let report = move |job: &Job| Ok(sender.send(job.delivery().key().to_owned())?);
    (Arc::new(report), handled)
}

with_each_database! {
    /// As a process leaves them that was killed: all are tried alone, and no attempt counts.
    async fn deliveries_of_a_vanished_worker_are_tried_alone(bench: B) {
        let inbox = bench.inbox();
        for id in ["1", "2", "3"] {
            inbox.accept(&delivery(id)).await.unwrap();
        }

        bench.execute("UPDATE webhook_inbox SET owner = 7, attempts = 1, token = 1").await;
        bench.execute("INSERT INTO webhook_inbox_workers VALUES (7, 1, 100)").await;
        let most = Arc::new(AtomicUsize::new(0));
        let worker = quick(&inbox).lease(SHORT_LEASE).max_attempts(1);
        let worker = B::run_prepared(worker, counting(most.clone()));
        let handled = bench.wait_for(3).await;
        assert!(handled.iter().all(|key| key.ends_with("attempt 1")), "{handled:?}");
        assert_eq!(most.load(Ordering::SeqCst), 1, "each was alone");
        assert_eq!(bench.count("SELECT count(*) FROM webhook_inbox_workers WHERE id = 7").await, 0);

        // Its second worker vanished, too, when it was alone: this attempt counts.
        inbox.accept(&delivery("4")).await.unwrap();
        stop(&inbox, worker).await;
        bench.execute("DELETE FROM handled").await;
        bench.execute("UPDATE webhook_inbox SET status = 'pending', owner = 9, attempts = 1, crashes = 1, token = 5").await;
        let inbox = bench.inbox();
        let worker = quick(&inbox).lease(SHORT_LEASE).max_attempts(1);
        let worker = B::run_prepared(worker, counting(most));
        let letters = dead_letters(&inbox, 3).await;
        assert!(letters[0].error.contains("stopped during the last attempt"), "{letters:?}");

        stop(&inbox, worker).await;
    }

    async fn tenants_take_turns(bench: B) {
        let inbox = bench.inbox();
        for id in 0..200 {
            inbox.scope("flood").accept(&delivery(&id.to_string())).await.unwrap();
        }

        for tenant in ["a", "b"] {
            inbox.scope(tenant).accept(&delivery("1")).await.unwrap();
        }

        let (report, mut handled) = reporting();
        let worker = B::run(quick(&inbox).concurrency(2), report);
        // Far less than the flood: one of two slots may be slow with its first connection.
        let mut first = Vec::new();
        for _ in 0..40 {
            first.push(handled.recv().await.unwrap());
        }

        for tenant in ["a/", "b/"] {
            assert!(first.iter().any(|key| key.starts_with(tenant)), "{first:?}");
        }

        inbox.until_idle().await.unwrap();
        stop(&inbox, worker).await;
    }

    async fn a_retry_that_is_due_does_not_wait_behind_a_flood(bench: B) {
        let inbox = bench.inbox();
        for id in 0..400 {
            inbox.accept(&delivery(&format!("{id:03}"))).await.unwrap();
        }

        let handled = Arc::new(AtomicUsize::new(0));
        let (count, (sender, mut retried)) = (handled.clone(), mpsc::unbounded_channel());
        let worker = B::run(quick(&inbox).concurrency(1), Arc::new(move |job: &Job| {
            if job.delivery().id() == Some("000") {
                if job.attempt() == 1 {
                    return Err("not yet".into());
                }
                sender.send(count.load(Ordering::Relaxed))?;
            }
            count.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(1));
            Ok(())
        }));
        let before = retried.recv().await.unwrap();
        assert!(before < 300, "{before} were handled before it");

        inbox.until_idle().await.unwrap();
        stop(&inbox, worker).await;
    }

    async fn a_tenant_can_be_limited_and_paused(bench: B) {
        let inbox = bench.inbox();
        inbox.pause("paused").await.unwrap();
        for id in 0..6 {
            inbox.scope("limited").accept(&delivery(&id.to_string())).await.unwrap();
        }

        let most = Arc::new(AtomicUsize::new(0));
        let worker = quick(&inbox).tenant_limit(2);
        let worker = B::run_prepared(worker, counting(most.clone()));
        inbox.scope("paused").accept(&delivery("1")).await.unwrap();
        bench.wait_for(6).await;
        assert_eq!(most.load(Ordering::SeqCst), 2);

        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(bench.handled().await.len(), 6, "it is paused");

        let backlog = inbox.backlog().await.unwrap();
        assert_eq!((backlog[0].tenant.as_str(), backlog[0].pending), ("paused", 1));

        inbox.resume("paused").await.unwrap();
        bench.wait_for(7).await;
        stop(&inbox, worker).await;
    }

    /// Not when the lease has ended, which is in half a minute.
    async fn what_a_stopped_worker_did_not_finish_is_due_at_once(bench: B) {
        let inbox = bench.inbox();
        for id in ["1", "2", "3"] {
            inbox.accept(&delivery(id)).await.unwrap();
        }

        let (sender, mut started) = mpsc::unbounded_channel();
        let worker = B::run_prepared(quick(&inbox), Box::new(move |_| {
            let sent = sender.send(());
            Box::pin(async move {
                sent?;
                std::future::pending().await
            })
        }));
        for _ in 0..3 {
            started.recv().await.unwrap();
        }

        assert!(!inbox.stop(Duration::ZERO).await);

        worker.await.unwrap().unwrap();
        let held = "SELECT count(*) FROM webhook_inbox WHERE owner IS NOT NULL OR attempts > 0";
        assert_eq!(bench.count(held).await, 0);
        assert_eq!(bench.count("SELECT count(*) FROM webhook_inbox_workers").await, 0);

        let next = bench.inbox();
        let worker = B::run(quick(&next).max_attempts(1), always_ok());
        assert_eq!(bench.wait_for(3).await.len(), 3);

        stop(&next, worker).await;
    }

    async fn a_handler_says_for_good_or_when_again(bench: B) {
        let inbox = bench.inbox();
        for id in ["1", "2"] {
            inbox.accept(&delivery(id)).await.unwrap();
        }

        let hour = Duration::from_secs(3600);
        let refused = AtomicUsize::new(0);
        let worker = B::run(quick(&inbox), Arc::new(move |job: &Job| {
            match job.delivery().id() {
                Some("1") => Err(Failed::for_good("the “customer” has left").into()),
                _ if refused.fetch_add(1, Ordering::Relaxed) == 0 => Err(Failed::again_in(hour, "too many").into()),
                _ => Ok(()),
            }
        }));
        let letters = dead_letters(&inbox, 1).await;
        assert_eq!(letters[0].attempts, 1);
        assert_eq!(letters[0].error, r"the \u{201c}customer\u{201d} has left");

        let waits = "SELECT count(*) FROM webhook_inbox WHERE status = 'pending' AND owner IS NULL \
             AND delay = 3600000 AND error = 'too many'";
        eventually("it waits", async || (bench.count(waits).await == 1).then_some(())).await;
        assert_eq!(inbox.retry_now(&Select::all().event("email.sent")).await.unwrap(), 0);

        let pending = Select::all().event("email.bounced").id(2);
        assert_eq!(inbox.retry_now(&pending).await.unwrap(), 1);

        bench.wait_for(1).await;
        stop(&inbox, worker).await;
    }

    async fn many_retries_that_are_due_do_not_wait_for_the_next_poll(bench: B) {
        let inbox = bench.inbox();
        for id in 0..40 {
            inbox.accept(&delivery(&id.to_string())).await.unwrap();
        }

        bench.execute("UPDATE webhook_inbox SET attempts = 1, token = 1, delay = 5, due_at = 5").await;
        let hour = Duration::from_secs(3600);
        let worker = B::run(inbox.worker().poll_interval(hour), always_ok());
        bench.wait_for(40).await;
        stop(&inbox, worker).await;
    }

    async fn bodies_of_handled_deliveries_are_removed_unless_kept(bench: B) {
        for keeps in [false, true] {
            let inbox = bench.inbox();
            let scope = inbox.scope(format!("keeps {keeps}"));
            scope.accept(&delivery("1")).await.unwrap();
            let worker = quick(&inbox);
            let worker = if keeps { worker.keep_bodies() } else { worker };
            let worker = B::run(worker, always_ok());
            inbox.until_idle().await.unwrap();
            let kept = "SELECT count(*) FROM webhook_inbox WHERE length(body) > 0";
            assert_eq!(bench.count(kept).await, i64::from(keeps));
            let all = Select::all();
            assert_eq!(inbox.replay_handled(&all).await.unwrap(), u64::from(keeps));
            inbox.until_idle().await.unwrap();
            stop(&inbox, worker).await;
        }

        assert_eq!(bench.handled().await.len(), 3);

        let inbox = bench.inbox();
        assert_eq!(inbox.delete_tenant("keeps true").await.unwrap(), 1);
        assert_eq!(bench.count("SELECT count(*) FROM webhook_inbox").await, 1);
    }

    /// The clock of the database was an hour ahead when these were stored.
    async fn deliveries_and_retries_survive_a_clock_that_is_set_back(bench: B) {
        let inbox = bench.inbox();
        for id in ["1", "2"] {
            inbox.accept(&delivery(id)).await.unwrap();
        }

        bench.execute("UPDATE webhook_inbox SET due_at = due_at + 3600000").await;
        bench.execute("UPDATE webhook_inbox SET attempts = 1, due_at = due_at + 5000, delay = 5000 WHERE id = 2").await;
        let worker = B::run(quick(&inbox), always_ok());
        bench.wait_for(2).await;
        stop(&inbox, worker).await;
    }

    /// Programs of version 1 run on after the tables were expanded.
    async fn two_versions_share_the_tables(bench: B) {
        bench.execute("DROP TABLE webhook_inbox; DROP TABLE webhook_inbox_schema; DROP TABLE webhook_inbox_expanded").await;
        bench.execute(B::SCHEMA_1).await;
        let insert = |id: &str| {
            format!(
                "INSERT INTO webhook_inbox (key, scope, service, event, body, received_at) \
                 SELECT 'key {id}', NULL, 'email', 'email.bounced', {}, 1", B::bytes(&body(id))
            )
        };

        bench.execute(&insert("1")).await;
        // Handled by a program of version 1: claimed for an hour.
        bench.execute(&insert("2")).await;
        let claim = "UPDATE webhook_inbox SET due_at = 9000000000000, token = token + 1, attempts = attempts + 1 WHERE key = 'key 2'";
        bench.execute(claim).await;
        let inbox = bench.inbox();
        inbox.migrate().await.unwrap();
        inbox.migrate().await.unwrap();
        let (report, mut handled) = reporting();
        let worker = B::run(quick(&inbox), report);
        assert_eq!(handled.recv().await.unwrap(), "key 1");

        bench.execute(&insert("3")).await;
        assert_eq!(handled.recv().await.unwrap(), "key 3");

        // What it finishes and checks.
        let finish = "UPDATE webhook_inbox SET status = 'done', error = NULL, ended_at = 5 WHERE key = 'key 2' AND token = 1 AND status = 'pending'";
        bench.execute(finish).await;
        assert_eq!(bench.count("SELECT max(version) FROM webhook_inbox_schema").await, 1);

        tokio::time::timeout(PATIENCE, inbox.until_idle()).await.unwrap().unwrap();
        stop(&inbox, worker).await;
        assert!(handled.recv().await.is_none(), "what the other handled was handled again");
    }

    /// Its future is dropped, as by `select!`: nothing stays claimed.
    async fn a_worker_that_is_dropped_gives_back_what_it_holds(bench: B) {
        let inbox = bench.inbox();
        inbox.accept(&delivery("1")).await.unwrap();
        let (sender, mut started) = mpsc::unbounded_channel();
        let worker = B::run_prepared(quick(&inbox), Box::new(move |_| {
            let sent = sender.send(());
            Box::pin(async move {
                sent?;
                std::future::pending().await
            })
        }));
        started.recv().await.unwrap();
        worker.abort();
        let next = bench.inbox();
        let other = B::run(quick(&next).max_attempts(1), always_ok());
        bench.wait_for(1).await;
        stop(&next, other).await;
    }
}
