//! Dead letters: listed, replayed and deleted.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use webhook_inbox::{Accepted, Job};

use crate::support::{delivery, eventually, quick, with_each_database};

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
        let handler = Arc::new(move |_: &Job| match ok.load(Ordering::Relaxed) {
            true => Ok(()),
            false => Err(Outer(std::io::Error::other("it is night")).into()),
        });
        let _worker = B::run(quick(&inbox).max_attempts(3), handler);
        for id in ["1", "2", "3"] {
            inbox.scope("tenant").accept(&delivery(id)).await.unwrap();
        }
        let dead_letters = inbox.dead_letters();
        let letters = eventually("all are dead letters", async || {
            Some(dead_letters.list(10).await.unwrap()).filter(|letters| letters.len() == 3)
        })
        .await;
        for letter in &letters {
            assert_eq!(letter.attempts, 3);
            assert_eq!(letter.error, "the ledger is closed\u{fffd}: it is night");
            assert_eq!(letter.scope.as_deref(), Some("tenant"));
            assert!(letter.failed_at >= letter.received_at, "{letter:?}");
        }
        // In pages.
        let page = dead_letters.list(2).await.unwrap();
        let next = dead_letters.list_after(page[1].id, 2).await.unwrap();
        let ids = |letters: &[webhook_inbox::DeadLetter]| -> Vec<i64> {
            letters.iter().map(|letter| letter.id).collect()
        };
        assert_eq!([ids(&page), ids(&next)].concat(), ids(&letters));

        // A dead letter is remembered, and not handled again by itself.
        let again = inbox.scope("tenant").accept(&delivery("1")).await.unwrap();
        assert_eq!(again, Accepted::Duplicate);

        repaired.store(true, Ordering::Relaxed);
        let find = |id: &str| {
            letters.iter().find(|letter| letter.delivery.id() == Some(id)).unwrap().id
        };
        assert!(dead_letters.replay(find("1")).await.unwrap());
        assert!(!dead_letters.replay(find("1")).await.unwrap(), "it is not a dead letter any more");
        assert_eq!(bench.wait_for(1).await, ["tenant/email:email.bounced:id:1"]);

        assert!(dead_letters.delete(find("2")).await.unwrap());
        assert!(!dead_letters.delete(find("1")).await.unwrap(), "only dead letters are deleted");
        assert_eq!(dead_letters.replay_all().await.unwrap(), 1);
        let handled = bench.wait_for(2).await;
        assert_eq!(handled[1], "tenant/email:email.bounced:id:3");
        assert!(dead_letters.list(10).await.unwrap().is_empty());
        let again = inbox.scope("tenant").accept(&delivery("2")).await.unwrap();
        assert_eq!(again, Accepted::New, "a deleted delivery is not remembered");
        inbox.stop();
    }
}
