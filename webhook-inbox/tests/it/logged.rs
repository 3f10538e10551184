//! Log messages: what went wrong, and nothing confidential.

use std::io;
use std::process::Command;
use std::sync::{Arc, Mutex};

use crate::databases::SqliteBench;
use crate::support::{Bench as _, dead_letters, delivery, quick, stop};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// In a process of its own, because a subscriber is for a whole process.
#[test]
fn logs_what_failed_and_nothing_confidential() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "logged::logs_subprocess"])
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && stdout.contains("1 passed"),
        "{stdout}"
    );
}

#[tokio::test]
#[ignore = "run in a process of its own by the test above"]
async fn logs_subprocess() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .init();
    let bench = SqliteBench::start().await.unwrap();
    let inbox = bench.inbox();
    let failing = Arc::new(|job: &webhook_inbox::Job| {
        if job.scope() == Some("fine") {
            Ok(())
        } else {
            Err("hush: a detail".into())
        }
    });
    let worker = SqliteBench::run(quick(&inbox).max_attempts(2), failing);
    inbox.accept(&delivery("hush-id")).await.unwrap();
    inbox
        .scope("fine")
        .accept(&delivery("hush-id"))
        .await
        .unwrap();
    bench.wait_for(1).await;
    dead_letters(&inbox, 1).await;
    inbox
        .retry_now(&webhook_inbox::Select::all())
        .await
        .unwrap();
    stop(&inbox, worker).await;
    // A worker that ends is logged at once.
    bench
        .execute("UPDATE webhook_inbox_schema SET version = 7")
        .await;
    let inbox = bench.inbox();
    SqliteBench::run(quick(&inbox), Arc::new(|_| Ok(())))
        .await
        .unwrap()
        .unwrap_err();

    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    for expected in [
        "WARN webhook_delivery{id=1 attempt=1 tenant=\"\" event=\"email.bounced\"}: \
         webhook_inbox::worker: handling a webhook delivery failed counts=true retry_in=",
        "ERROR webhook_delivery{id=1 attempt=2 tenant=\"\" event=\"email.bounced\"}: \
         webhook_inbox::worker: a webhook delivery is a dead letter",
        "DEBUG webhook_delivery{id=2 attempt=1 tenant=\"fine\" event=\"email.bounced\"}: \
         webhook_inbox::worker: a webhook delivery was handled",
        "INFO webhook_inbox::operations: webhook deliveries are due at once count=1",
        "ERROR webhook_inbox::worker: the worker of the webhook inbox has ended cause=\"the tables belong to a newer version of the crate",
    ] {
        assert!(log.contains(expected), "{expected} is not in:\n{log}");
    }

    assert!(!log.contains("hush") && !log.contains("ada@"), "{log}");
}
