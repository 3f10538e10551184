//! Workers and Redis are killed and restarted, and workers are suspended for longer than their lease.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use svc_bulk::SendState;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use super::{Queued, TIME_LIMIT, TIMEOUT};
use crate::bulk::{Random, Receiver, faults, twice};

/// Rows of a job that is disturbed.
const ROWS: usize = 5_000;

/// The most disturbances of one job. Without idempotency keys, each may make two requests unknown.
const MAX_IN_JOB: u64 = 30;

/// How often each of the two tests below kills or suspends something. More in `.ci/databases`.
fn disturbances() -> u64 {
    std::env::var("SVC_BULK_DISTURBANCES")
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(6)
}

#[tokio::test]
async fn killed_workers_and_servers_send_nothing_twice_and_report_what_is_unknown() {
    let (mut random, mut left, mut unknown_in_all) = (Random(3), disturbances(), 0);
    while left > 0 {
        let Some(job) = DisturbedJob::run(false, &mut left, &mut random).await else {
            return;
        };
        let received = job.receiver.received().await;
        assert_eq!(twice(&received), BTreeSet::<&String>::new());
        let outcomes = job.outcomes().await;
        assert_eq!(outcomes.len(), ROWS, "each row has one outcome");
        let unknown = |address: &String| outcomes[address] == "unknown";
        let missing = outcomes.keys().filter(|each| !received.contains_key(*each));
        assert_eq!(
            missing.filter(|each| !unknown(each)).count(),
            0,
            "not received, not unknown"
        );
        let accepted = outcomes
            .values()
            .filter(|status| *status == "accepted")
            .count();
        assert!(
            accepted > ROWS / 20,
            "{accepted} of {ROWS} accepted: too many disturbances"
        );
        unknown_in_all += outcomes.keys().filter(|each| unknown(each)).count();
    }
    assert!(unknown_in_all > 0, "no disturbance had an effect");
}

#[tokio::test]
async fn with_idempotency_keys_killed_workers_and_servers_send_each_email_once() {
    let (mut random, mut left) = (Random(5), disturbances());
    while left > 0 {
        let Some(job) = DisturbedJob::run(true, &mut left, &mut random).await else {
            return;
        };
        let received = job.receiver.received().await;
        assert_eq!(twice(&received), BTreeSet::<&String>::new());
        let outcomes = job.outcomes().await;
        let others = outcomes.values().filter(|status| *status != "accepted");
        assert_eq!((others.count(), outcomes.len()), (0, ROWS));
        assert_eq!(received.len(), ROWS);
    }
}

/// A job of four workers that was disturbed until it was complete.
struct DisturbedJob {
    receiver: Receiver,
    job: Queued,
    id: String,
}

impl DisturbedJob {
    /// Takes as many of the disturbances that are left as one job can bear.
    async fn run(with_keys: bool, left: &mut u64, random: &mut Random) -> Option<Self> {
        let mut job = Queued::new(with_keys).await?;
        let receiver = job.receiver.clone();
        for fault in faults() {
            receiver.fault(&fault).await;
        }
        let slow = json!({"operation": "emails.send_batch", "latency": "400ms", "times": 1000});
        receiver.fault(&slow).await;
        let id = job.plan(ROWS, &[]).await;
        let mut workers: Vec<Child> = (0..4).map(|at| job.work(&id, Some(at), TIMEOUT)).collect();
        let mut suspended = [None::<Instant>; 4];
        let (end, here) = (Instant::now() + TIME_LIMIT, (*left).min(MAX_IN_JOB));
        let (mut done_before, mut next) = (0, 0);
        loop {
            let status = job.queue.status(&id).await.expect("a status");
            let done = status.totals.accepted + status.totals.unknown;
            if status.state == SendState::Complete {
                assert!(next > 0, "the job was not disturbed");
                break;
            }
            assert!(
                Instant::now() < end,
                "the job is not complete after 120 s: {status:?}"
            );
            for (at, worker) in workers.iter_mut().enumerate() {
                if suspended[at].is_some_and(|until| until < Instant::now()) {
                    resume(worker, &mut suspended[at]).await;
                }
                if worker.try_wait().expect("a status").is_some() {
                    *worker = job.work(&id, Some(at), TIMEOUT);
                }
            }
            // Each after some progress; then to the end.
            if next < here && done > done_before {
                (done_before, next) = (done, next + 1);
                let at = random.below(4);
                match next % 6 {
                    2 | 4 => job.redis.restart().await,
                    // Longer than the lease, so that others take over.
                    5 if suspended[at].is_none() => {
                        signal(workers[at].id().expect("it runs"), "STOP").await;
                        suspended[at] = Some(Instant::now() + Duration::from_secs(3));
                    }
                    _ => {
                        workers[at].kill().await.expect("killed");
                        suspended[at] = None;
                    }
                }
            }
            sleep(Duration::from_millis(20)).await;
        }
        for (at, worker) in workers.iter_mut().enumerate() {
            resume(worker, &mut suspended[at]).await;
            let ended = tokio::time::timeout(TIME_LIMIT, worker.wait()).await;
            ended.expect("the worker ends").expect("a status");
        }
        *left -= next;
        Some(Self { receiver, job, id })
    }

    /// The status of each address in the report.
    async fn outcomes(&self) -> BTreeMap<String, String> {
        let report = self.job.svc(&["bulk", "report", &self.id, "--json"]).await;
        let report = report.as_array().expect("a list");
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let outcomes = report
            .iter()
            .map(|row| (text(&row["address"]), text(&row["status"])));
        let outcomes = outcomes.collect::<BTreeMap<_, _>>();
        assert_eq!(outcomes.len(), report.len(), "a row is reported twice");
        outcomes
    }
}

/// Lets a suspended worker go on.
async fn resume(worker: &Child, suspended: &mut Option<Instant>) {
    if let (Some(_), Some(process)) = (suspended.take(), worker.id()) {
        signal(process, "CONT").await;
    }
}

async fn signal(process: u32, name: &str) {
    let sent = Command::new("kill")
        .args(["-s", name, &process.to_string()])
        .status()
        .await;
    assert!(sent.expect("a status").success());
}
