//! The measurements of a worker, through the crate `metrics`.

use std::collections::BTreeSet;
use std::time::Duration;

use metrics::{counter, gauge, histogram};

use crate::{Database, Inbox, Job};

/// Counts an attempt, and measures how long it took, and how long ago the delivery was accepted.
pub(crate) fn attempt(tenant: &str, is_handled: bool, took: Duration, job: &Job) {
    let outcome = if is_handled { "handled" } else { "failed" };
    let labels = [("tenant", tenant.to_owned()), ("outcome", outcome.into())];
    counter!("webhook_inbox_attempts_total", &labels).increment(1);
    histogram!("webhook_inbox_attempt_seconds", &labels).record(took);
    if is_handled {
        let latency = job.received_at.elapsed().unwrap_or_default();
        histogram!("webhook_inbox_latency_seconds", "tenant" => tenant.to_owned()).record(latency);
    }
}

/// Shows what waits. A tenant of whom nothing waits any more is shown as such.
pub(crate) async fn backlog<D: Database>(inbox: &Inbox<D>, known: &mut BTreeSet<String>) {
    let Ok(backlog) = inbox.backlog().await else {
        return;
    };
    for tenant in std::mem::take(known) {
        show(&tenant, 0, Duration::ZERO, 0);
    }
    for tenant in backlog {
        show(&tenant.tenant, tenant.pending, tenant.oldest, tenant.dead);
        known.insert(tenant.tenant);
    }
}

fn show(tenant: &str, pending: u64, oldest: Duration, dead: u64) {
    let labels = [("tenant", tenant.to_owned())];
    gauge!("webhook_inbox_pending", &labels).set(pending as f64);
    gauge!("webhook_inbox_oldest_seconds", &labels).set(oldest);
    gauge!("webhook_inbox_dead", &labels).set(dead as f64);
}
