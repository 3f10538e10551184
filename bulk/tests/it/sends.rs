//! Single stories, where the histories of `model.rs` say only that nothing is lost.

use std::time::Duration;

use svc_bulk::{
    BulkSend, ErrorKind, Ledger, LedgerErrorKind, NewRow, NewSend, RowStatus, SendState,
};
use svc_sdk::EmailClient;
use svc_sdk::email::Email;
use tempfile::TempDir;

use crate::databases::{Databases, Sqlite};
use crate::model::{Act, Oracle};

fn rows(numbers: std::ops::RangeInclusive<u64>) -> impl Iterator<Item = NewRow> {
    numbers.map(|number| {
        let address = format!("p{number}@x.test");
        NewRow::new(number, &address, &address).unwrap()
    })
}

#[expect(clippy::ptr_arg, reason = "the rows are texts")]
fn render(to: &String) -> Result<Email, String> {
    if to.starts_with("p13@") {
        return Err("no thirteenth".to_owned());
    }
    Ok(Email::new("news@shop.test", to.as_str(), "News").text("Hello"))
}

fn sender(service: &Oracle) -> BulkSend {
    let client = EmailClient::builder(&service.url, "mk_test_0123456789").build();
    BulkSend::new(&client.unwrap())
}

#[tokio::test]
async fn a_cause_of_the_whole_send_pauses_it_and_spares_its_rows_whichever_worker_sent_them() {
    let service = Oracle::start(vec![Act::RefuseDomain; 60]).await;
    let ledger = Sqlite::new().ledger().await;
    let news = NewSend::new("news");
    ledger.create(&news, rows(101..=900)).await.unwrap();
    let workers = (0..3).map(|_| {
        sender(&service)
            .request_size(7)
            .run(&ledger, &news.id, render)
    });
    for result in futures_util::future::join_all(workers).await {
        let refused = result.expect_err("all workers stop");
        assert!(matches!(refused.kind, ErrorKind::Refused(_)), "{refused:?}");
    }

    let stored = ledger.send(&news.id).await.unwrap();
    assert_eq!(stored.state, SendState::Paused);

    let cause = stored.cause.expect("a cause").code;
    assert_eq!(cause.as_deref(), Some("domain_not_verified"));
    assert_eq!((stored.totals.not_sent, stored.totals.refused), (800, 0));

    service.seen.lock().unwrap().acts.clear();
    ledger
        .set_state(&news.id, SendState::Running)
        .await
        .unwrap();
    let totals = sender(&service)
        .run(&ledger, &news.id, render)
        .await
        .unwrap();
    assert_eq!((totals.accepted, totals.total()), (800, 800));
}

#[tokio::test]
async fn invalid_and_refused_rows_are_sent_again_only_on_request() {
    let service = Oracle::start(vec![Act::RefuseRow(0)]).await;
    let ledger = Sqlite::new().ledger().await;
    let news = NewSend::new("news");
    ledger.create(&news, rows(11..=15)).await.unwrap();
    let totals = sender(&service)
        .run(&ledger, &news.id, render)
        .await
        .unwrap();
    assert_eq!((totals.accepted, totals.refused, totals.invalid), (3, 1, 1));

    let totals = sender(&service)
        .run(&ledger, &news.id, render)
        .await
        .unwrap();
    assert_eq!((totals.refused, totals.invalid), (1, 1));

    let again = [RowStatus::Refused, RowStatus::Invalid];
    assert_eq!(ledger.reopen(&news.id, &again).await.unwrap(), 2);

    let any = |to: &String| Ok::<_, String>(Email::new("a@x.test", to.as_str(), "N").text("T"));
    let totals = sender(&service).run(&ledger, &news.id, any).await.unwrap();
    assert_eq!(totals.accepted, 5);
}

#[tokio::test]
async fn a_send_runs_in_a_task_of_its_own() {
    let service = Oracle::start(Vec::new()).await;
    let ledger = Sqlite::new().ledger().await;
    let news = NewSend::new("news");
    ledger.create(&news, rows(1..=3)).await.unwrap();
    let sender = sender(&service);
    let task = tokio::spawn(async move { sender.run(&ledger, &news.id, render).await });
    assert_eq!(task.await.unwrap().unwrap().accepted, 3);
}

#[tokio::test]
async fn a_send_that_is_aborted_in_the_middle_of_a_transaction_ends() {
    let service = Oracle::start(Vec::new()).await;
    let ledger = Sqlite::new().ledger().await;
    let news = NewSend::new("news");
    ledger.create(&news, rows(1..=900)).await.unwrap();
    for _ in 0..30 {
        let (abort, aborted) = tokio::sync::oneshot::channel::<()>();
        let sender = sender(&service)
            .request_size(3)
            .abort_when(async { drop(aborted.await) });
        let running = sender.run(&ledger, &news.id, render);
        let aborting = async {
            service.after(fastrand::usize(1..8)).await;
            drop(abort);
        };
        let both = futures_util::future::join(running, aborting);
        let ended = tokio::time::timeout(Duration::from_secs(10), both).await;
        ended.expect("it ends").0.unwrap();
    }
}

#[tokio::test]
async fn an_unknown_row_has_what_the_service_said() {
    let service = Oracle::start(vec![Act::Fail]).await;
    let ledger = Sqlite::new().ledger().await;
    let news = NewSend::new("news");
    ledger.create(&news, rows(1..=2)).await.unwrap();
    let sender = sender(&service).retries(0);
    let totals = sender.run(&ledger, &news.id, render).await.unwrap();
    assert_eq!(totals.unknown, 2);

    let unknown = [RowStatus::Unknown];
    for row in ledger.rows(&news.id, 0, &unknown).await.unwrap() {
        let told = (row.why.code.as_deref(), row.why.message.as_deref());
        assert_eq!(told, (Some("internal"), Some("no")));
    }
}

#[tokio::test]
async fn rows_that_are_settled_are_not_in_a_repeated_request() {
    let service = Oracle::start(vec![Act::LoseRequest; 2]).await;
    let ledger = Sqlite::new().ledger().await;
    let news = NewSend::new("news");
    ledger.create(&news, rows(1..=6)).await.unwrap();
    let sender = || {
        sender(&service)
            .request_size(3)
            .retries(0)
            .idempotency_key_life(Duration::from_secs(3600))
    };

    let totals = sender().run(&ledger, &news.id, render).await.unwrap();
    assert_eq!(totals.unknown, 6);
    // Of the first request one row was sent, and of all rows only those of the second are repeated.
    assert_eq!(ledger.settle(&news.id, &[2], &[3]).await.unwrap(), (1, 1));

    ledger
        .set_state(&news.id, SendState::Running)
        .await
        .unwrap();
    let totals = sender().run(&ledger, &news.id, render).await.unwrap();
    assert_eq!((totals.accepted, totals.unknown), (5, 1));

    let again = [RowStatus::Unknown];
    ledger.reopen(&news.id, &again).await.unwrap();
    let totals = sender().run(&ledger, &news.id, render).await.unwrap();
    assert_eq!((totals.accepted, totals.unknown), (6, 0));
}

#[tokio::test]
async fn the_longest_durations_are_no_reason_to_panic() {
    let service = Oracle::start(Vec::new()).await;
    let ledger = Sqlite::new().ledger().await.lease(Duration::MAX);
    let mut news = NewSend::new("news");
    news.rate = f64::MAX;
    ledger.create(&news, rows(1..=3)).await.unwrap();
    let sender = sender(&service)
        .timeout(Duration::MAX)
        .idempotency_key_life(Duration::MAX);
    assert_eq!(
        sender
            .run(&ledger, &news.id, render)
            .await
            .unwrap()
            .accepted,
        3
    );

    ledger.clean_up(Duration::MAX, Duration::MAX).await.unwrap();
}

#[tokio::test]
async fn who_has_got_an_email_is_remembered_after_its_rows_are_removed() {
    let service = Oracle::start(vec![Act::RefuseRow(1)]).await;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("bulk.db");
    let ledger = Ledger::sqlite(&path).await.unwrap();
    let first = NewSend::new("news");
    ledger.create(&first, rows(1..=3)).await.unwrap();
    sender(&service)
        .run(&ledger, &first.id, render)
        .await
        .unwrap();
    ledger.remove(&first.id).await.unwrap();
    let gone = ledger.send(&first.id).await.expect_err("removed");
    assert_eq!(gone.kind(), LedgerErrorKind::NotFound);

    // Another process, later.
    let ledger = Ledger::sqlite(&path).await.unwrap();
    assert_eq!(ledger.memory().await.unwrap()[0].people, 2);

    let second = NewSend::new("news");
    ledger.draft(&second).await.unwrap();
    let new = rows(1..=4).collect::<Vec<_>>();
    ledger.add(&second.id, &new).await.unwrap();
    assert_eq!(
        ledger.got_before(&second.id).await.unwrap().unwrap().people,
        2
    );
    assert_eq!(ledger.leave_out_sent(&second.id).await.unwrap(), 2);

    let waiting = ledger
        .rows(&second.id, 0, &[RowStatus::Waiting])
        .await
        .unwrap();
    let waiting = waiting.iter().map(|row| row.number).collect::<Vec<_>>();
    assert_eq!(waiting, [2, 4]);

    let other = NewSend::new("another email");
    ledger.draft(&other).await.unwrap();
    ledger.add(&other.id, &new).await.unwrap();
    assert!(ledger.got_before(&other.id).await.unwrap().is_none());
    assert_eq!(ledger.forget().await.unwrap(), 2);
    assert!(ledger.got_before(&second.id).await.unwrap().is_none());
}

#[tokio::test]
async fn the_rows_of_a_dead_worker_are_sent_while_others_work() {
    let service = Oracle::start(vec![Act::Hang, Act::Hang]).await;
    let ledger = Sqlite::new()
        .ledger()
        .await
        .lease(Duration::from_millis(100));
    let news = NewSend::new("news");
    ledger.create(&news, rows(101..=140)).await.unwrap();
    {
        let dead = sender(&service).request_size(10).concurrency(2);
        let mut dead = std::pin::pin!(dead.run(&ledger, &news.id, render));
        tokio::select! {
            _ = &mut dead => panic!("it waits for responses"),
            () = service.after_all(2) => {}
        }
    }
    let totals = sender(&service)
        .run(&ledger, &news.id, render)
        .await
        .unwrap();
    assert_eq!(
        (totals.accepted, totals.unknown, totals.not_sent),
        (20, 20, 0)
    );

    let unknown = ledger
        .rows(&news.id, 0, &[RowStatus::Unknown])
        .await
        .unwrap();
    assert!(
        unknown
            .iter()
            .all(|row| row.why.code.as_deref() == Some("interrupted"))
    );
}
