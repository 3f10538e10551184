//! PostgreSQL with tokio-postgres: transactions of the application, lost and scarce connections.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, NoTls};
use webhook_inbox::deadpool_postgres::Transaction;
use webhook_inbox::{Accepted, ErrorKind, Inbox, Isolation, Job};

use crate::databases::{PostgresBench, pool};
use crate::server::{Bouncer, Server};
use crate::support::{Bench, always_ok, dead_letters, delivery, eventually, quick, stop};

/// The transaction of the application decides whether the delivery is accepted.
#[tokio::test]
#[ignore = "needs PostgreSQL: SVC_TEST_POSTGRES=1 and --include-ignored"]
async fn accepts_in_a_transaction_of_postgres() {
    let bench = PostgresBench::start().await.expect("SVC_TEST_POSTGRES=1");
    let inbox = bench.inbox();
    let pool = bench.pool(1);
    let mut client = bench.connect().await;
    let worker = PostgresBench::run(quick(&inbox), always_ok());
    let tx = client.transaction().await.unwrap();
    assert_eq!(
        inbox.accept_in(&tx, &delivery("1")).await.unwrap(),
        Accepted::New
    );

    tx.rollback().await.unwrap();

    let mut client = pool.get().await.unwrap();
    let tx = client.transaction().await.unwrap();
    tx.execute("INSERT INTO handled VALUES ('written with it')", &[])
        .await
        .unwrap();
    assert_eq!(
        inbox.accept_in(&tx, &delivery("1")).await.unwrap(),
        Accepted::New
    );
    assert_eq!(
        inbox.accept_in(&tx, &delivery("1")).await.unwrap(),
        Accepted::Duplicate
    );

    tx.commit().await.unwrap();
    inbox.wake();
    assert_eq!(bench.wait_for(2).await.len(), 2);

    stop(&inbox, worker).await;
}

/// Every connection is opened again, and a worker continues.
#[tokio::test]
#[ignore = "needs PostgreSQL: SVC_TEST_POSTGRES=1 and --include-ignored"]
async fn survives_the_loss_of_its_connections_to_postgres() {
    let bench = PostgresBench::start().await.expect("SVC_TEST_POSTGRES=1");
    let inbox = bench.inbox();
    let worker = PostgresBench::run(quick(&inbox), always_ok());
    inbox.accept(&delivery("1")).await.unwrap();
    bench.wait_for(1).await;
    bench
        .execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE pid <> pg_backend_pid() AND datname = current_database()",
        )
        .await;
    eventually("the inbox accepts", async || {
        inbox.accept(&delivery("2")).await.ok()
    })
    .await;
    assert_eq!(bench.wait_for(2).await.len(), 2);

    stop(&inbox, worker).await;
}

#[tokio::test]
async fn an_unreachable_database_is_reported() {
    let mut config = tokio_postgres::Config::new();
    let file = tempfile::NamedTempFile::new().unwrap();
    config.host_path(file.path()).user("svc");
    let error = Inbox::new(pool(config, 1))
        .accept(&delivery("1"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);

    let error = Inbox::sqlite(file.path().join("app.db")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

/// Statements of the inbox that the server executes.
const RUNNING: &str = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
     AND pid <> pg_backend_pid() AND state = 'active' AND query ~ 'INTO webhook_inbox|pg_sleep'";

#[tokio::test]
#[ignore = "needs PostgreSQL: SVC_TEST_POSTGRES=1 and --include-ignored"]
async fn postgres_cancels_what_was_given_up() {
    let bench = PostgresBench::start().await.expect("SVC_TEST_POSTGRES=1");
    let inbox = bench.inbox();
    let mut client = bench.connect().await;

    // It waits for a transaction that has stored the same delivery.
    let tx = client.transaction().await.unwrap();
    inbox.accept_in(&tx, &delivery("1")).await.unwrap();
    let error = inbox.accept(&delivery("1")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);

    // This transaction's own last statement stays visible.
    tx.batch_execute("SELECT").await.unwrap();
    let canceled = async || (bench.count(RUNNING).await == 0).then_some(());
    eventually("what was given up is canceled", canceled).await;
    tx.commit().await.unwrap();

    // A handler at its time limit.
    let worker = quick(&inbox)
        .handler_timeout(Duration::from_secs(1))
        .max_attempts(1);
    let worker = PostgresBench::run_statement(worker, PostgresBench::ENDLESS);
    let running = async || (bench.count(RUNNING).await == 1).then_some(());
    eventually("the handler's statement runs", running).await;
    eventually("the handler's statement is canceled", canceled).await;
    inbox.until_idle().await.unwrap();
    stop(&inbox, worker).await;
}

/// Handlers leave a connection of the pool free.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: SVC_TEST_POSTGRES=1 and --include-ignored"]
async fn deliveries_are_accepted_while_all_handlers_use_postgres() {
    let bench = PostgresBench::start().await.expect("SVC_TEST_POSTGRES=1");
    let inbox = Inbox::new(bench.pool(3));
    for id in ["1", "2", "3"] {
        inbox.accept(&delivery(id)).await.unwrap();
    }

    let (sender, mut started) = mpsc::unbounded_channel();
    let (open, gate) = tokio::sync::watch::channel(false);
    let worker = quick(&inbox).concurrency(8);
    let worker = tokio::spawn(worker.run(async move |_, _: &Job| {
        sender.send(())?;
        gate.clone().wait_for(|open| *open).await?;
        Ok(())
    }));
    started.recv().await.unwrap();
    started.recv().await.unwrap();
    inbox.accept(&delivery("4")).await.unwrap();
    assert!(started.try_recv().is_err(), "a third handler was started");

    open.send(true).unwrap();
    inbox.until_idle().await.unwrap();
    stop(&inbox, worker).await;
}

/// The application uses all connections of the pool.
#[tokio::test]
#[ignore = "needs PostgreSQL: SVC_TEST_POSTGRES=1 and --include-ignored"]
async fn a_handler_without_a_connection_to_postgres_uses_no_attempt() {
    let bench = PostgresBench::start().await.expect("SVC_TEST_POSTGRES=1");
    let pool = bench.pool(2);
    let inbox = Inbox::new(pool.clone());
    inbox.accept(&delivery("1")).await.unwrap();
    let (sender, mut started) = mpsc::unbounded_channel::<tokio::sync::oneshot::Sender<()>>();
    let worker = PostgresBench::run_prepared(
        quick(&inbox).max_attempts(1),
        Box::new(move |job| {
            let (resume, resumed) = tokio::sync::oneshot::channel();
            let sent = sender.send(resume);
            Box::pin(async move {
                sent?;
                resumed.await?;
                Ok(format!("attempt {}", job.attempt()))
            })
        }),
    );
    let resume = started.recv().await.unwrap();
    let all = [pool.get().await.unwrap(), pool.get().await.unwrap()];
    resume.send(()).unwrap();
    // Longer than a handler waits for a connection.
    tokio::time::sleep(Duration::from_secs(6)).await;
    drop(all);
    started.recv().await.unwrap().send(()).unwrap();
    assert_eq!(bench.wait_for(1).await, ["attempt 1"]);

    stop(&inbox, worker).await;
}

/// What takes long has no transaction and no connection.
#[tokio::test]
#[ignore = "needs PostgreSQL: SVC_TEST_POSTGRES=1 and --include-ignored"]
async fn prepare_needs_no_transaction_of_postgres() {
    let bench = PostgresBench::start().await.expect("SVC_TEST_POSTGRES=1");
    let inbox = bench.inbox();
    inbox.accept(&delivery("1")).await.unwrap();
    let bench = Arc::new(bench);
    let (sender, mut started) = mpsc::unbounded_channel();
    let worker = PostgresBench::run_prepared(
        quick(&inbox),
        Box::new(move |_| {
            let sent = sender.send(());
            Box::pin(async move {
                sent?;
                std::future::pending().await
            })
        }),
    );
    started.recv().await.unwrap();
    let open = "SELECT count(*) FROM pg_stat_activity \
                WHERE datname = current_database() AND state LIKE 'idle in transaction%'";
    // The worker looks for other deliveries, in short transactions.
    let none = async || (bench.count(open).await == 0).then_some(());
    eventually("no transaction is open", none).await;
    inbox.stop(Duration::ZERO).await;
    worker.await.unwrap().unwrap();
}

/// With fewer connections to the server than workers have, so that each statement may meet another
/// server process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: SVC_TEST_POSTGRES=1 and --include-ignored"]
async fn works_behind_pgbouncer_in_transaction_mode() {
    let server = Server::shared().await.expect("SVC_TEST_POSTGRES=1");
    let direct = server.database().await;
    let bench = PostgresBench::on(direct.clone()).await;
    let bouncer = Bouncer::start(server);
    let mut config = tokio_postgres::Config::new();
    config.host_path(bouncer.directory.path()).user("svc");
    config
        .port(Bouncer::PORT)
        .dbname(direct.get_dbname().unwrap());
    let inboxes = [(); 3].map(|()| Inbox::new(pool(config.clone(), 6)));
    let workers = inboxes.each_ref().map(|inbox| {
        let handle = async |tx: &Transaction<'_>, job: &Job| {
            let insert = "INSERT INTO handled VALUES ($1)";
            let key = job.delivery().key();
            let text = tokio_postgres::types::Type::TEXT;
            tx.query_typed(insert, &[(&key, text)]).await?;
            Ok(())
        };
        tokio::spawn(quick(inbox).run(handle))
    });
    for id in 0..100 {
        let accepted = inboxes[id % 3].accept(&delivery(&id.to_string())).await;
        assert_eq!(accepted.unwrap(), Accepted::New);
    }

    bench.wait_for(100).await;
    for (inbox, worker) in inboxes.iter().zip(workers) {
        stop(inbox, worker).await;
    }

    assert_eq!(bench.handled().await.len(), 100);
}

/// Only what is new is worth a notification.
#[tokio::test]
#[ignore = "needs PostgreSQL: SVC_TEST_POSTGRES=1 and --include-ignored"]
async fn a_new_delivery_notifies_other_processes() {
    let bench = PostgresBench::start().await.expect("SVC_TEST_POSTGRES=1");
    let (client, mut connection) = bench.config().connect(NoTls).await.unwrap();
    let (sender, mut notified) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(notification) = message {
                sender.send(notification.channel().to_owned()).unwrap();
            }
        }
    });
    client.batch_execute("LISTEN webhook_inbox").await.unwrap();

    let inbox = bench.inbox().notify();
    for expected in [Accepted::New, Accepted::Duplicate] {
        let accepted = inbox.accept(&delivery("1")).await.unwrap();
        assert_eq!(accepted, expected);
    }

    assert_eq!(notified.recv().await.as_deref(), Some("webhook_inbox"));

    client.batch_execute("SELECT 1").await.unwrap();
    assert!(notified.try_recv().is_err(), "the duplicate was notified");
}

#[tokio::test]
#[ignore = "needs PostgreSQL: SVC_TEST_POSTGRES=1 and --include-ignored"]
async fn a_handler_has_the_isolation_that_its_worker_sets() {
    let bench = PostgresBench::start().await.expect("SVC_TEST_POSTGRES=1");
    let inbox = bench.inbox();
    inbox.accept(&delivery("1")).await.unwrap();
    let worker = quick(&inbox).isolation(Isolation::Serializable);
    let handle = async |tx: &Transaction<'_>, _: &Job| {
        let insert = "INSERT INTO handled VALUES (current_setting('transaction_isolation'))";
        tx.batch_execute(insert).await?;
        Ok(())
    };

    let worker = tokio::spawn(worker.run(handle));
    assert_eq!(bench.wait_for(1).await, ["serializable"]);

    stop(&inbox, worker).await;
}

const DISCONNECT: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
     WHERE pid <> pg_backend_pid() AND datname = current_database()";

/// A failover leaves connections to a server that is read-only. The worker says so, waits, and goes
/// on with others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: SVC_TEST_POSTGRES=1 and --include-ignored"]
async fn a_worker_outlives_what_an_operator_mends() {
    let bench = PostgresBench::start().await.expect("SVC_TEST_POSTGRES=1");
    let inbox = bench.inbox();
    let worker = PostgresBench::run(quick(&inbox), always_ok());
    let database = bench.name();
    let read_only = |on| {
        format!("ALTER DATABASE {database} SET default_transaction_read_only = {on}; {DISCONNECT}")
    };
    inbox.accept(&delivery("1")).await.unwrap();
    bench.wait_for(1).await;
    bench.execute(&read_only("on")).await;
    let error = eventually("the database refuses", async || {
        let error = inbox.accept(&delivery("2")).await.err()?;
        (error.kind() == ErrorKind::ReadOnly).then_some(error)
    })
    .await;
    assert!(error.to_string().contains("read-only"), "{error}");

    // Longer than a worker waits between two attempts.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!worker.is_finished());

    bench.execute(&read_only("off")).await;
    eventually("the inbox accepts", async || {
        inbox.accept(&delivery("2")).await.ok()
    })
    .await;
    bench.wait_for(2).await;
    stop(&inbox, worker).await;
}

/// PostgreSQL cannot store every character in it.
#[tokio::test]
#[ignore = "needs PostgreSQL: SVC_TEST_POSTGRES=1 and --include-ignored"]
async fn a_failure_fits_into_a_database_in_latin_1() {
    let server = Server::shared().await.expect("SVC_TEST_POSTGRES=1");
    let bench = PostgresBench::on(server.database_in("LATIN1").await).await;
    let inbox = bench.inbox();
    inbox.accept(&delivery("1")).await.unwrap();
    let worker = PostgresBench::run(
        quick(&inbox).max_attempts(2).concurrency(1),
        Arc::new(|job: &Job| match job.delivery().id() {
            Some("1") => Err("the “quota” is used up".into()),
            _ => Ok(()),
        }),
    );
    let letters = dead_letters(&inbox, 1).await;
    assert_eq!(letters[0].error, r"the \u{201c}quota\u{201d} is used up");

    inbox.accept(&delivery("2")).await.unwrap();
    bench.wait_for(1).await;
    stop(&inbox, worker).await;
}
