//! The tests that are the same for each database, with sqlx and a real PostgreSQL.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../../../tests/it/accept.rs"]
mod accept;
mod databases;
#[path = "../../../tests/it/dead_letters.rs"]
mod dead_letters;
#[path = "../../../tests/it/production.rs"]
mod production;
#[expect(dead_code, reason = "other tests stop the server")]
#[path = "../../../tests/it/server.rs"]
mod server;
#[path = "../../../tests/it/support.rs"]
mod support;
#[path = "../../../tests/it/worker.rs"]
mod worker;

use webhook_inbox::Accepted;
use webhook_inbox::sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use webhook_inbox::{Inbox, Job, sqlx};

use crate::databases::SqlxBench;
use crate::server::{Bouncer, Server};
use crate::support::{Bench as _, always_ok, delivery, quick, stop};

/// The transaction of the application decides whether the delivery is accepted.
#[tokio::test]
async fn accepts_in_a_transaction() {
    let Some(bench) = SqlxBench::start().await else {
        return;
    };

    let inbox = bench.inbox();
    let mut tx = bench.pool.begin().await.unwrap();
    assert_eq!(
        inbox.accept_in(&mut tx, &delivery("1")).await.unwrap(),
        Accepted::New
    );

    tx.rollback().await.unwrap();

    let mut tx = bench.pool.begin().await.unwrap();
    assert_eq!(
        inbox.accept_in(&mut tx, &delivery("1")).await.unwrap(),
        Accepted::New
    );
    assert_eq!(
        inbox.accept_in(&mut tx, &delivery("1")).await.unwrap(),
        Accepted::Duplicate
    );

    tx.commit().await.unwrap();
    inbox.wake();

    let worker = SqlxBench::run(quick(&inbox), always_ok());
    assert_eq!(bench.wait_for(1).await.len(), 1);

    stop(&inbox, worker).await;
}

/// With fewer connections to the server than workers have, so that each statement may meet another
/// server process. The statements of the application must not be prepared by name, either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn works_behind_pgbouncer_in_transaction_mode() {
    let Some(bench) = SqlxBench::start().await else {
        return;
    };

    let server = Server::shared().await.unwrap();
    let bouncer = Bouncer::start(server);
    let name: String = sqlx::query_scalar("SELECT current_database()::text")
        .fetch_one(&bench.pool)
        .await
        .unwrap();
    let options = PgConnectOptions::new_without_pgpass()
        .socket(bouncer.directory.path())
        .port(Bouncer::PORT)
        .username("svc")
        .database(&name)
        .statement_cache_capacity(0);
    let inboxes = [(); 3].map(|()| {
        let pool = PgPoolOptions::new().max_connections(6);
        Inbox::new(pool.connect_lazy_with(options.clone()))
    });
    let workers = inboxes.each_ref().map(|inbox| {
        let handle = async |tx: &mut sqlx::Transaction<'_, sqlx::Postgres>, job: &Job| {
            let insert = sqlx::query("INSERT INTO handled VALUES ($1)").persistent(false);
            insert.bind(job.delivery().key()).execute(&mut **tx).await?;
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
