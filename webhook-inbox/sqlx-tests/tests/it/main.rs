//! The tests that are the same for each database, with sqlx and a real PostgreSQL.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../../../tests/it/accept.rs"]
mod accept;
mod databases;
#[path = "../../../tests/it/dead_letters.rs"]
mod dead_letters;
#[expect(dead_code, reason = "other tests stop the server")]
#[path = "../../../tests/it/server.rs"]
mod server;
#[path = "../../../tests/it/support.rs"]
mod support;
#[path = "../../../tests/it/worker.rs"]
mod worker;

use webhook_inbox::Accepted;

use crate::databases::SqlxBench;
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
