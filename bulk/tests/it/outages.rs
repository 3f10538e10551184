//! PostgreSQL that stops and starts under four workers: nothing is sent twice, and nothing is lost.

use std::time::Duration;

use svc_bulk::{BulkSend, Ledger, NewRow, NewSend, RowStatus};
use svc_sdk::EmailClient;
use svc_sdk::email::Email;

use crate::databases::pool;
use crate::model::Oracle;
use crate::server::Server;

const ROWS: u64 = 600;

#[tokio::test(flavor = "multi_thread")]
async fn four_workers_outlive_stops_and_crashes_of_postgres() {
    let Some(mut server) = Server::own().await else {
        return;
    };
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
    for signal in ["INT", "QUIT", "INT"] {
        service.after(10).await;
        server.stop(signal).await;
        server.start_again().await;
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
