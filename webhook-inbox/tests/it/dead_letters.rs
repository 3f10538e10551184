//! Dead letters: listed, replayed and deleted.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use webhook_inbox::{Accepted, DeadLetter, Job, Select};

use crate::databases::with_each_database;
use crate::support::{dead_letters, delivery, quick, stop};

/// An error with a source, which a dead letter shows, too.
#[derive(Debug)]
struct Outer(std::io::Error);

impl fmt::Display for Outer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the ledger is closed\0")
    }
}

impl std::error::Error for Outer {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

with_each_database! {
    async fn the_last_failed_attempt_ends_as_a_dead_letter(bench: B) {
        let inbox = bench.inbox();
        let repaired = Arc::new(AtomicBool::new(false));
        let ok = repaired.clone();
        let worker = B::run(quick(&inbox).max_attempts(3), Arc::new(move |_: &Job| {
            if ok.load(Ordering::Relaxed) { Ok(()) } else { Err(Outer(std::io::Error::other("it is night")).into()) }
        }));
        for id in ["1", "2", "3"] {
            inbox.scope("tenant").accept(&delivery(id)).await.unwrap();
        }

        let letters = dead_letters(&inbox, 3).await;
        for letter in &letters {
            assert_eq!(letter.attempts, 3);
            assert_eq!(letter.error, "the ledger is closed\\u{0}: it is night");
            assert_eq!(letter.scope.as_deref(), Some("tenant"));
            assert!(letter.failed_at >= letter.received_at, "{letter:?}");
        }

        // In pages.
        let page = inbox.dead_letters(0, 2).await.unwrap();
        let next = inbox.dead_letters(page[1].id, 2).await.unwrap();
        let ids = |letters: &[DeadLetter]| -> Vec<i64> {
            letters.iter().map(|letter| letter.id).collect()
        };
        assert_eq!([ids(&page), ids(&next)].concat(), ids(&letters));

        let body = inbox.delivery(letters[0].id).await.unwrap().unwrap();
        assert_eq!(body.event().as_str(), "email.bounced");

        // A dead letter is remembered, and not handled again by itself.
        let again = inbox.scope("tenant").accept(&delivery("1")).await.unwrap();
        assert_eq!(again, Accepted::Duplicate);

        repaired.store(true, Ordering::Relaxed);
        let find = |id: &str| {
            letters.iter().find(|letter| letter.key.ends_with(id)).unwrap().id
        };
        let [one, two] = ["1", "2"].map(find);
        assert_eq!(inbox.retry_now(&Select::all().id(one).received_since(SystemTime::UNIX_EPOCH)).await.unwrap(), 1);
        assert_eq!(inbox.retry_now(&Select::all().id(one).received_before(SystemTime::UNIX_EPOCH)).await.unwrap(), 0);
        assert_eq!(inbox.retry_now(&Select::all().id(one)).await.unwrap(), 0, "it is not dead now");
        assert_eq!(bench.wait_for(1).await, ["tenant/email:email.bounced:id:1"]);

        assert_eq!(inbox.delete_dead_letters(&Select::all().id(two)).await.unwrap(), 1);
        assert_eq!(inbox.delete_dead_letters(&Select::all().id(one)).await.unwrap(), 0, "it was handled");
        assert_eq!(inbox.retry_now(&Select::all()).await.unwrap(), 1);

        let handled = bench.wait_for(2).await;
        assert_eq!(handled[1], "tenant/email:email.bounced:id:3");

        inbox.until_idle().await.unwrap();
        assert!(inbox.dead_letters(0, 10).await.unwrap().is_empty());

        let again = inbox.scope("tenant").accept(&delivery("2")).await.unwrap();
        assert_eq!(again, Accepted::New, "a deleted delivery is not remembered");

        stop(&inbox, worker).await;
    }

    /// More than one statement changes.
    async fn many_dead_letters_are_replayed_and_deleted(bench: B) {
        let inbox = bench.inbox();
        inbox.accept(&delivery("1")).await.unwrap();
        bench
            .execute(
                "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500) \
                 INSERT INTO webhook_inbox (key, service, event, body, received_at, status, ended_at) \
                 SELECT key || i, service, event, body, received_at, 'dead', 0 FROM webhook_inbox, n",
            )
            .await;
        assert_eq!(inbox.retry_now(&Select::all()).await.unwrap(), 2500);

        bench.execute("UPDATE webhook_inbox SET status = 'dead'").await;
        assert_eq!(inbox.delete_dead_letters(&Select::all()).await.unwrap(), 2501);
    }
}
