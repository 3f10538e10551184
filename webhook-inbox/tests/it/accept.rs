//! Accepting deliveries.

use std::time::Duration;

use tokio_postgres::NoTls;
use webhook_inbox::{Accepted, ErrorKind, Inbox};
use webhook_verify::Event;

use crate::support::{
    Bench, PostgresBench, SqliteBench, always_ok, delivery, eventually, quick, verified,
    with_each_database,
};

with_each_database! {
    async fn a_repeated_delivery_is_handled_once(bench: B) {
        let (here, there) = (bench.inbox(), bench.inbox());
        assert_eq!(here.accept(&delivery("1")).await.unwrap(), Accepted::New);
        assert_eq!(there.accept(&delivery("1")).await.unwrap(), Accepted::Duplicate);
        assert_eq!(there.accept(&delivery("2")).await.unwrap(), Accepted::New);
        let workers = [B::run(quick(&here), always_ok()), B::run(quick(&there), always_ok())];
        let handled = bench.wait_for(2).await;
        assert_eq!(handled, ["email:email.bounced:id:1", "email:email.bounced:id:2"]);
        // Handled deliveries are remembered.
        assert_eq!(here.accept(&delivery("1")).await.unwrap(), Accepted::Duplicate);
        here.stop();
        there.stop();
        for worker in workers {
            worker.await.unwrap().unwrap();
        }
        assert_eq!(bench.handled().await, handled);
    }

    async fn scopes_are_apart(bench: B) {
        let inbox = bench.inbox();
        for scope in ["a", "b"] {
            assert_eq!(inbox.scope(scope).accept(&delivery("1")).await.unwrap(), Accepted::New);
        }
        assert_eq!(inbox.accept(&delivery("1")).await.unwrap(), Accepted::New);
        let again = inbox.scope("a").scope("b").accept(&delivery("1")).await.unwrap();
        assert_eq!(again, Accepted::Duplicate);
        let check = std::sync::Arc::new(|job: &webhook_inbox::Job| {
            let expected = job.scope().map(|scope| format!("{scope}/email:email.bounced:id:1"));
            let expected = expected.unwrap_or_else(|| "email:email.bounced:id:1".to_owned());
            assert_eq!(job.delivery().key(), expected);
            Ok(())
        });
        let _worker = B::run(quick(&inbox), check);
        let handled = bench.wait_for(3).await;
        assert_eq!(handled.len(), 3, "{handled:?}");
        inbox.stop();
    }

    /// A sender may put anything into a field that is documented as a text.
    async fn unusual_deliveries_are_stored(bench: B) {
        let inbox = bench.inbox();
        let unusual = [
            "{\"event\":\"a\\u0000b\",\"id\":\"\\u0000\"}".to_owned(),
            format!("{{\"event\":\"email.sent\",\"id\":\"{}\"}}", "ü".repeat(100_000)),
            format!("{{\"event\":\"email.sent\",\"x\":\"{}\"}}", "y".repeat(1 << 20)),
        ];
        for body in &unusual {
            assert_eq!(inbox.accept(&verified(body)).await.unwrap(), Accepted::New);
            assert_eq!(inbox.accept(&verified(body)).await.unwrap(), Accepted::Duplicate);
        }
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        let send = std::sync::Arc::new(move |job: &webhook_inbox::Job| {
            sender.send(job.delivery().body().to_vec()).map_err(Into::into)
        });
        let _worker = B::run(quick(&inbox), send);
        bench.wait_for(3).await;
        let mut received: Vec<_> = (0..3).map(|_| receiver.try_recv().unwrap()).collect();
        received.sort_by_key(Vec::len);
        let mut sent = unusual.map(String::into_bytes);
        sent.sort_by_key(Vec::len);
        assert_eq!(received, sent);
        inbox.stop();
    }

    /// PostgreSQL does not store NUL.
    async fn texts_with_nul_are_not_confused(bench: B) {
        let inbox = bench.inbox();
        let ids = ["\\u0000", "\u{fffd}", "\u{fffd}0", "\u{fffd}\u{fffd}", "0"];
        for id in ids {
            let accepted = inbox.accept(&delivery(id)).await.unwrap();
            assert_eq!(accepted, Accepted::New, "{id:?}");
            let again = inbox.accept(&delivery(id)).await.unwrap();
            assert_eq!(again, Accepted::Duplicate, "{id:?}");
        }
        let scopes = ["\0", "\u{fffd}"];
        for scope in scopes {
            let accepted = inbox.scope(scope).accept(&delivery("1")).await.unwrap();
            assert_eq!(accepted, Accepted::New, "{scope:?}");
        }
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        let send = std::sync::Arc::new(move |job: &webhook_inbox::Job| {
            let scope = job.scope().map(ToOwned::to_owned);
            sender.send((scope, job.delivery().id().map(ToOwned::to_owned))).map_err(Into::into)
        });
        let _worker = B::run(quick(&inbox), send);
        let count = ids.len() + scopes.len();
        let keys = bench.wait_for(count).await;
        assert!(keys.windows(2).all(|keys| keys[0] != keys[1]), "{keys:?}");
        let mut seen: Vec<_> = (0..count).map(|_| receiver.try_recv().unwrap()).collect();
        let mut expected: Vec<_> = ids.map(|id| (None, Some(id.replace("\\u0000", "\0")))).into();
        expected.extend(scopes.map(|scope| (Some(scope.to_owned()), Some("1".to_owned()))));
        seen.sort();
        expected.sort();
        assert_eq!(seen, expected);
        inbox.stop();
    }

    /// As axum drops the future of a request whose sender hangs up.
    async fn an_accept_is_completed_although_its_future_is_dropped(bench: B) {
        let inbox = bench.inbox();
        let _worker = B::run(quick(&inbox), always_ok());
        for id in ["1", "2", "3"] {
            let delivery = delivery(id);
            let accept = inbox.accept(&delivery);
            tokio::select! {
                biased;
                _ = accept => panic!("no database is that fast"),
                () = std::future::ready(()) => {}
            }
        }
        assert_eq!(bench.wait_for(3).await.len(), 3);
        inbox.stop();
    }

    async fn a_missing_table_is_reported(bench: B) {
        bench.execute("DROP TABLE webhook_inbox").await;
        let inbox = bench.inbox();
        let error = inbox.accept(&delivery("1")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotMigrated);
        assert!(error.to_string().contains("Inbox::migrate"), "{error}");
        let error = B::run(quick(&inbox), always_ok()).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotMigrated);
        // Processes that start at the same time.
        let there = bench.inbox();
        let (one, two) = tokio::join!(inbox.migrate(), there.migrate());
        one.and(two).unwrap();
        assert_eq!(inbox.accept(&delivery("1")).await.unwrap(), Accepted::New);
    }

    async fn purge_forgets_what_was_handled(bench: B) {
        let inbox = bench.inbox();
        inbox.accept(&delivery("1")).await.unwrap();
        assert_eq!(inbox.purge(Duration::ZERO).await.unwrap(), 0, "it is not handled yet");
        let worker = B::run(quick(&inbox), always_ok());
        bench.wait_for(1).await;
        inbox.stop();
        worker.await.unwrap().unwrap();
        assert_eq!(inbox.purge(Duration::from_secs(3600)).await.unwrap(), 0, "it is too new");
        assert_eq!(inbox.purge(Duration::MAX).await.unwrap(), 0, "it is too new");
        assert_eq!(inbox.purge(Duration::ZERO).await.unwrap(), 1);
        assert_eq!(inbox.accept(&delivery("1")).await.unwrap(), Accepted::New);
    }

    /// What was deleted before an error stays deleted: no statement deletes everything.
    async fn purge_deletes_in_slices(bench: B) {
        let inbox = bench.inbox();
        // The times of the two deliveries are different.
        for (id, count) in [("1", 2500), ("2", 1)] {
            inbox.accept(&delivery(id)).await.unwrap();
            tokio::time::sleep(Duration::from_millis(2)).await;
            let handled = "INSERT INTO webhook_inbox \
                 (key, service, event, body, received_at, due_at, status, ended_at) \
                 SELECT key || i, service, event, body, received_at, due_at, 'done', received_at";
            bench
                .execute(&format!(
                    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count}) \
                     {handled} FROM webhook_inbox, n WHERE key = 'email:email.bounced:id:{id}'"
                ))
                .await;
        }
        bench
            .execute(
                "CREATE TABLE kept (id bigint REFERENCES webhook_inbox (id)); \
                 INSERT INTO kept SELECT max(id) FROM webhook_inbox WHERE status = 'done'",
            )
            .await;
        assert_eq!(inbox.purge(Duration::ZERO).await.unwrap_err().kind(), ErrorKind::Database);
        bench.execute("DROP TABLE kept").await;
        let rest = inbox.purge(Duration::ZERO).await.unwrap();
        assert!((1..=1000).contains(&rest), "{rest} were left");
        assert_eq!(inbox.accept(&delivery("1")).await.unwrap(), Accepted::Duplicate);
    }
}

/// The transaction of the application decides whether the delivery is accepted.
#[tokio::test]
async fn accepts_in_a_transaction_of_sqlite() {
    let bench = SqliteBench::start().await.unwrap();
    let (inbox, mut connection) = (bench.inbox(), bench.connection());
    let tx = connection.transaction().unwrap();
    assert_eq!(inbox.accept_in(&tx, &delivery("1")).unwrap(), Accepted::New);
    tx.rollback().unwrap();

    let tx = connection.transaction().unwrap();
    tx.execute("INSERT INTO handled VALUES ('written with it')", []).unwrap();
    assert_eq!(inbox.accept_in(&tx, &delivery("1")).unwrap(), Accepted::New);
    assert_eq!(inbox.accept_in(&tx, &delivery("1")).unwrap(), Accepted::Duplicate);
    tx.commit().unwrap();

    // Polling would take an hour.
    let _worker =
        SqliteBench::run(quick(&inbox).poll_interval(Duration::from_secs(3600)), always_ok());
    bench.wait_for(2).await;
    let tx = connection.transaction().unwrap();
    inbox.accept_in(&tx, &delivery("2")).unwrap();
    tx.commit().unwrap();
    inbox.wake();
    assert_eq!(bench.wait_for(3).await.len(), 3);
    inbox.stop();
}

#[tokio::test]
async fn accepts_in_a_transaction_of_postgres() {
    let Some(bench) = PostgresBench::start().await else { return };
    let (inbox, mut client) = (bench.inbox(), bench.connect().await);
    // Another process works, and is notified by the commit: polling would take an hour.
    let there = bench.inbox();
    let _worker =
        PostgresBench::run(quick(&there).poll_interval(Duration::from_secs(3600)), always_ok());
    let tx = client.transaction().await.unwrap();
    assert_eq!(inbox.accept_in(&tx, &delivery("1")).await.unwrap(), Accepted::New);
    tx.rollback().await.unwrap();

    let tx = client.transaction().await.unwrap();
    tx.execute("INSERT INTO handled VALUES ('written with it')", &[]).await.unwrap();
    assert_eq!(inbox.accept_in(&tx, &delivery("1")).await.unwrap(), Accepted::New);
    assert_eq!(inbox.accept_in(&tx, &delivery("1")).await.unwrap(), Accepted::Duplicate);
    tx.commit().await.unwrap();
    assert_eq!(bench.wait_for(2).await.len(), 2);
    // A client without a transaction commits at once.
    assert_eq!(inbox.accept_in(&client, &delivery("2")).await.unwrap(), Accepted::New);
    assert_eq!(bench.wait_for(3).await.len(), 3);
    there.stop();
}

/// Every connection is opened again, and a worker continues.
#[tokio::test]
async fn survives_the_loss_of_its_connections_to_postgres() {
    let Some(bench) = PostgresBench::start().await else { return };
    let inbox = bench.inbox();
    let _worker = PostgresBench::run(quick(&inbox), always_ok());
    inbox.accept(&delivery("1")).await.unwrap();
    bench.wait_for(1).await;
    bench
        .execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE pid <> pg_backend_pid() AND datname = current_database()",
        )
        .await;
    eventually("the inbox accepts", async || inbox.accept(&delivery("2")).await.ok()).await;
    assert_eq!(bench.wait_for(2).await.len(), 2);
    inbox.stop();
}

#[tokio::test]
async fn an_unreachable_database_is_reported() {
    let mut config = tokio_postgres::Config::new();
    let file = tempfile::NamedTempFile::new().unwrap();
    config.host_path(file.path()).user("svc");
    let error = Inbox::postgres(config, NoTls).accept(&delivery("1")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let error = Inbox::sqlite(file.path().join("app.db")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

/// Another process may hold the write lock for long.
#[tokio::test]
async fn a_locked_database_is_reported() {
    let bench = SqliteBench::start().await.unwrap();
    let (mut connection, other) = (bench.connection(), bench.connection());
    let tx = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate);
    other.busy_timeout(Duration::ZERO).unwrap();
    let error = bench.inbox().accept_in(&other, &delivery("1")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    drop(tx);
}

#[tokio::test]
async fn the_body_is_read_back_typed() {
    #[derive(Debug, PartialEq)]
    struct Seen(Event, Option<String>, u32);
    let bench = SqliteBench::start().await.unwrap();
    let inbox = bench.inbox();
    inbox.accept(&delivery("1")).await.unwrap();
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    let worker = inbox.worker().run(move |_, job| {
        let id = job.delivery().id().map(ToOwned::to_owned);
        Ok(sender.send(Seen(job.delivery().event().clone(), id, job.attempt()))?)
    });
    tokio::select! {
        ended = worker => panic!("{ended:?}"),
        seen = receiver.recv() => {
            let event = Event::EmailBounced;
            assert_eq!(seen, Some(Seen(event, Some("1".to_owned()), 1)));
        }
    }
}
