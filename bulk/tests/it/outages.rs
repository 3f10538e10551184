//! PostgreSQL that stops, crashes and fails over under four workers: nothing is sent twice, and nothing
//! is lost.

use std::time::Duration;

use svc_bulk::{BulkSend, Ledger, NewRow, NewSend, RowStatus};
use svc_sdk::EmailClient;
use svc_sdk::email::Email;

use crate::databases::pool;
use crate::model::Oracle;
use crate::server::Server;

const ROWS: u64 = 600;

/// What happens to the server.
enum Outage {
    Stop,
    Crash,
    /// A standby takes its place.
    FailOver,
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL: SVC_TEST_POSTGRES=1 and --include-ignored"]
async fn four_workers_outlive_stops_and_crashes_of_postgres() {
    survive(&[Outage::Stop, Outage::Crash, Outage::Stop]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL: SVC_TEST_POSTGRES=1 and --include-ignored"]
async fn four_workers_outlive_a_failover_of_postgres() {
    survive(&[Outage::FailOver]).await;
}

async fn survive(outages: &[Outage]) {
    let mut server = Server::own().await.expect("SVC_TEST_POSTGRES=1");
    let service = Oracle::start(Vec::new()).await;
    let database = server.database().await;
    let ledger = Ledger::postgres(pool(database.clone())).await.unwrap();
    let mut news = NewSend::new("news");
    // Longer than the outages.
    news.rate = 100.0;
    let rows = (1..=ROWS).map(|number| {
        let address = format!("p{number}@x.test");
        NewRow::new(number, &address, &address).unwrap()
    });
    ledger.create(&news, rows).await.unwrap();

    let mut workers = Vec::new();
    for _ in 0..4 {
        let client = EmailClient::builder(&service.url, "mk_test_0123456789").build();
        let sender = BulkSend::new(&client.unwrap()).request_size(5);
        let ledger = Ledger::postgres(pool(database.clone())).await.unwrap();
        let id = news.id.clone();
        workers.push(tokio::spawn(async move {
            let render = |to: &String| {
                Ok::<_, String>(Email::new("news@shop.test", to.as_str(), "News").text("Hello"))
            };
            sender.run(&ledger, &id, render).await
        }));
    }

    let mut standby = None;
    for outage in outages {
        if matches!(outage, Outage::FailOver) {
            standby = Some(server.standby().await);
        }
        service.after(10).await;
        match outage {
            Outage::Stop => {
                server.stop("INT").await;
                server.start_again().await;
            }
            Outage::Crash => {
                server.stop("QUIT").await;
                server.start_again().await;
            }
            Outage::FailOver => {
                server.stop("QUIT").await;
                let standby = standby.as_ref().unwrap();
                standby.take_over_from(&server).await;
            }
        }
    }

    for worker in workers {
        let ended = tokio::time::timeout(Duration::from_secs(90), worker);
        ended
            .await
            .expect("it ends")
            .unwrap()
            .expect("it outlives the outages");
    }

    let totals = ledger.send(&news.id).await.unwrap().totals;
    assert_eq!((totals.not_sent, totals.in_flight), (0, 0), "{totals:?}");

    let rows = ledger.rows(&news.id, 0, &[]).await.unwrap();
    let seen = service.seen.lock().unwrap();
    for row in rows {
        let got = seen.emails.get(&row.address).copied().unwrap_or_default();
        assert!(got <= 1, "twice: {row:?}");
        match row.status {
            RowStatus::Accepted => assert_eq!(got, 1, "lost: {row:?}"),
            status => assert_eq!(status, RowStatus::Unknown, "{row:?}"),
        }
    }
}
