//! Connections to PostgreSQL: what handlers and time-outs leave in the server.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio_postgres::Transaction;
use webhook_inbox::{BoxError, ErrorKind, Job};

use crate::support::{
    Bench, PATIENCE, PostgresBench, SHORT_LEASE, always_ok, delivery, eventually, quick,
};

/// The first handler changes everything that a session has.
#[tokio::test]
async fn what_a_handler_leaves_in_its_session_is_reset() {
    const LEAVE: &str = "SET search_path = elsewhere; SET statement_timeout = 12345; \
        CREATE TEMP TABLE webhook_inbox (id bigint); CREATE TEMP TABLE scratch (id bigint); \
        LISTEN something; SELECT pg_advisory_lock(7); SELECT set_config('app.tenant', 'a', false); \
        DECLARE left_open CURSOR WITH HOLD FOR SELECT 1";
    const LEFT: &str = "SELECT current_setting('search_path'), \
        current_setting('statement_timeout'), current_setting('app.tenant', true), \
        current_user::text, (SELECT count(*) FROM pg_listening_channels())::text, \
        (SELECT count(*) FROM pg_cursors WHERE name = 'left_open')::text, \
        (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid())::text, \
        to_regclass('pg_temp.scratch')::text, pg_backend_pid()::text";
    let Some(bench) = PostgresBench::start().await else { return };
    bench.execute("CREATE SCHEMA elsewhere; CREATE ROLE tenant_of_sessions").await;
    let inbox = bench.inbox();
    let (sender, mut seen) = mpsc::unbounded_channel();
    let _worker = tokio::spawn(quick(&inbox).concurrency(1).run(
        async move |tx: &Transaction<'_>, _: &Job| {
            let row = tx.query_one(LEFT, &[]).await?;
            let left: Vec<Option<String>> = (0..row.len()).map(|at| row.get(at)).collect();
            tx.batch_execute(LEAVE).await?;
            // The role must be allowed to end the delivery.
            tx.batch_execute("GRANT ALL ON public.webhook_inbox TO tenant_of_sessions").await?;
            tx.batch_execute("SET ROLE tenant_of_sessions").await?;
            Ok::<_, BoxError>(sender.send(left)?)
        },
    ));
    inbox.accept(&delivery("1")).await.unwrap();
    let first = seen.recv().await.unwrap();
    assert_eq!(first[3].as_deref(), Some("svc"));
    // Also if the handler's connection was free, this uses another one.
    inbox.accept(&delivery("2")).await.unwrap();
    let second = seen.recv().await.unwrap();
    // PostgreSQL remembers that there is such a setting, without its value.
    let is_set = |value: &Option<String>| value.as_deref().is_some_and(|value| !value.is_empty());
    assert!(!is_set(&second[2]), "{second:?}");
    assert_eq!((&second[..2], &second[3..]), (&first[..2], &first[3..]));
    eventually("both are handled", async || {
        let done = "SELECT count(*) FROM webhook_inbox WHERE status = 'done'";
        (bench.count(done).await == 2).then_some(())
    })
    .await;
    inbox.stop();
}

/// A delivery does not end outside of the handler's transaction.
#[tokio::test]
async fn a_handler_that_ends_the_transaction_fails() {
    let Some(bench) = PostgresBench::start().await else { return };
    let inbox = bench.inbox();
    inbox.accept(&delivery("1")).await.unwrap();
    let _worker =
        tokio::spawn(quick(&inbox).max_attempts(2).run(async |tx: &Transaction<'_>, _: &Job| {
            Ok::<_, BoxError>(tx.batch_execute("ROLLBACK").await?)
        }));
    let letters = eventually("there is a dead letter", async || {
        Some(inbox.dead_letters().list(9).await.unwrap()).filter(|letters| !letters.is_empty())
    })
    .await;
    assert!(letters[0].error.contains("ended the worker's transaction"), "{letters:?}");
    inbox.stop();
}

/// Statements that the server executes for a connection that is closed.
const ABANDONED: &str = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
     AND pid <> pg_backend_pid() AND state <> 'idle' AND query ~ 'pg_sleep|INTO webhook_inbox'";

#[tokio::test]
async fn a_statement_that_was_given_up_is_canceled() {
    let Some(bench) = PostgresBench::start().await else { return };
    let (inbox, mut client) = (bench.inbox(), bench.connect().await);

    // It waits for a transaction that has stored the same delivery.
    let tx = client.transaction().await.unwrap();
    inbox.accept_in(&tx, &delivery("1")).await.unwrap();
    let error = inbox.accept(&delivery("1")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    // This transaction's own last statement stays visible.
    tx.batch_execute("SELECT").await.unwrap();
    let canceled = async || (bench.count(ABANDONED).await == 0).then_some(());
    eventually("what was given up is canceled", canceled).await;
    tx.commit().await.unwrap();

    // A handler that has lost its lease.
    let (sender, mut started) = mpsc::unbounded_channel();
    let worker = quick(&inbox).lease(SHORT_LEASE);
    let worker = tokio::spawn(worker.run(async move |tx: &Transaction<'_>, _: &Job| {
        sender.send(())?;
        Ok::<_, BoxError>(tx.batch_execute("SELECT pg_sleep(3600)").await?)
    }));
    started.recv().await.unwrap();
    let running = async || (bench.count(ABANDONED).await == 1).then_some(());
    eventually("the handler's statement runs", running).await;
    inbox.stop();
    bench.execute("UPDATE webhook_inbox SET token = token + 1").await;
    worker.await.unwrap().unwrap();
    eventually("the handler's statement is canceled", canceled).await;
}

/// The server ends a transaction whose worker has vanished, but not that of a handler that waits
/// for something else.
#[tokio::test]
async fn only_a_vanished_worker_loses_its_transaction() {
    let Some(bench) = PostgresBench::start().await else { return };
    let inbox = bench.inbox();
    inbox.accept(&delivery("1")).await.unwrap();
    let (sender, mut seen) = mpsc::unbounded_channel();
    // Renewed three times in each lease. A busy machine may take hundreds of milliseconds.
    let worker = quick(&inbox).max_attempts(1).lease(Duration::from_millis(1500));
    let _worker = tokio::spawn(worker.run(async move |tx: &Transaction<'_>, _: &Job| {
        let limit = "SELECT current_setting('idle_in_transaction_session_timeout')";
        sender.send(tx.query_one(limit, &[]).await?.get::<_, String>(0))?;
        tx.batch_execute("SET LOCAL idle_in_transaction_session_timeout = 1500").await?;
        tokio::time::sleep(Duration::from_secs(4)).await;
        tx.execute("INSERT INTO handled VALUES ('late')", &[]).await?;
        Ok::<_, BoxError>(())
    }));
    let limit = tokio::time::timeout(PATIENCE, seen.recv()).await;
    assert_eq!(limit.expect("the handler starts").as_deref(), Some("1min"));
    assert_eq!(bench.wait_for(1).await, ["late"]);
    inbox.stop();
}

/// There are no connections left for the handlers.
#[tokio::test]
async fn a_handler_without_a_connection_uses_no_attempt() {
    let Some(bench) = PostgresBench::start().await else { return };
    bench
        .execute(
            "CREATE ROLE narrow LOGIN CONNECTION LIMIT 1; \
             GRANT ALL ON webhook_inbox, handled TO narrow",
        )
        .await;
    let inbox = bench.inbox_as("narrow");
    let _worker = PostgresBench::run(quick(&inbox).max_attempts(1), always_ok());
    bench.inbox().accept(&delivery("1")).await.unwrap();
    eventually("the delivery is claimed several times", async || {
        (bench.count("SELECT token FROM webhook_inbox").await >= 3).then_some(())
    })
    .await;
    assert_eq!(bench.count("SELECT attempts::bigint FROM webhook_inbox").await, 0);
    bench.execute("ALTER ROLE narrow CONNECTION LIMIT 9").await;
    assert_eq!(bench.wait_for(1).await.len(), 1);
    assert!(inbox.dead_letters().list(1).await.unwrap().is_empty());
    inbox.stop();
}

/// What takes long has no transaction, and its result is committed exactly once.
#[tokio::test]
async fn prepare_needs_no_transaction_of_postgres() {
    let Some(bench) = PostgresBench::start().await else { return };
    let inbox = bench.inbox();
    inbox.accept(&delivery("1")).await.unwrap();
    let (sender, mut prepared) = mpsc::unbounded_channel::<oneshot::Sender<&str>>();
    let worker = tokio::spawn(quick(&inbox).run_prepared(
        move |job| {
            let (resume, resumed) = oneshot::channel();
            let sent = sender.send(resume);
            async move {
                sent?;
                if job.attempt() == 1 {
                    return Err("the first attempt fails".into());
                }
                Ok(resumed.await?)
            }
        },
        async |tx, _, prepared| {
            tx.execute("INSERT INTO handled VALUES ($1)", &[&prepared]).await?;
            Ok(())
        },
    ));
    drop(prepared.recv().await.unwrap());
    let resume = prepared.recv().await.unwrap();
    let open = "SELECT count(*) FROM pg_stat_activity \
                WHERE datname = current_database() AND state LIKE 'idle in transaction%'";
    assert_eq!(bench.count(open).await, 0);
    inbox.stop();
    resume.send("prepared").unwrap();
    worker.await.unwrap().unwrap();
    assert_eq!(bench.handled().await, ["prepared"]);
}
