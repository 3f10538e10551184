//! The counters of `/metrics`. They contain no user data.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::StatusCode;
use svc_sdk::{Operation, Service};

/// Upper bounds of the request duration buckets, in seconds.
const BOUNDS: [f64; 9] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 10.0];
/// The status classes.
const CLASSES: [&str; 3] = ["2xx", "4xx", "5xx"];

#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// By operation, in the order of `Operation::ALL`, and by status class.
    requests: [[AtomicU64; 3]; Operation::ALL.len()],
    durations: [AtomicU64; 9],
    duration_micros: AtomicU64,
    emails: AtomicU64,
    /// Jobs that the server gave up because of a defect.
    set_aside: AtomicU64,
    /// By service (email, extraction) and outcome (delivered, failed).
    attempts: [[AtomicU64; 2]; 2],
}

impl Metrics {
    pub(crate) fn request(&self, operation: Operation, status: StatusCode, took: Duration) {
        let class = match status.as_u16() {
            ..400 => 0,
            400..500 => 1,
            500.. => 2,
        };
        self.requests[operation as usize][class].fetch_add(1, Ordering::Relaxed);
        let seconds = took.as_secs_f64();
        for (bound, count) in BOUNDS.iter().zip(&self.durations) {
            if seconds <= *bound {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.duration_micros.fetch_add(took.as_micros() as u64, Ordering::Relaxed);
    }

    pub(crate) fn emails(&self, accepted: u64) {
        self.emails.fetch_add(accepted, Ordering::Relaxed);
    }

    pub(crate) fn set_aside(&self) {
        self.set_aside.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of jobs that were set aside since the server started.
    pub(crate) fn count_set_aside(&self) -> u64 {
        self.set_aside.load(Ordering::Relaxed)
    }

    pub(crate) fn attempt(&self, service: Service, delivered: bool) {
        let service = usize::from(service == Service::Extraction);
        self.attempts[service][usize::from(!delivered)].fetch_add(1, Ordering::Relaxed);
    }

    /// Formats the metrics for Prometheus. `pending` is the number of pending deliveries,
    /// `due` that of waiting emails and recipients.
    pub(crate) fn text(&self, pending: i64, due: i64) -> String {
        let mut text = String::new();
        let mut family = |name: &str, kind: &str, help: &str, samples: &[(String, String)]| {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (labels, value) in samples {
                let _ = writeln!(text, "{name}{labels} {value}");
            }
        };
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let mut requests = Vec::new();
        let mut all = 0;
        for operation in Operation::ALL {
            for (class, counter) in CLASSES.iter().zip(&self.requests[*operation as usize]) {
                all += count(counter);
                if count(counter) > 0 {
                    let (service, name) = (operation.service(), operation.name());
                    let labels =
                        format!(r#"{{service="{service}",operation="{name}",status="{class}"}}"#);
                    requests.push((labels, count(counter).to_string()));
                }
            }
        }
        family(
            "svc_requests_total",
            "counter",
            "Requests to the documented operations.",
            &requests,
        );
        let name = "svc_request_duration_seconds";
        let mut durations = Vec::new();
        for (bound, counter) in BOUNDS.iter().zip(&self.durations) {
            durations.push((format!(r#"_bucket{{le="{bound}"}}"#), count(counter).to_string()));
        }
        durations.push((r#"_bucket{le="+Inf"}"#.to_owned(), all.to_string()));
        let seconds = count(&self.duration_micros) as f64 / 1e6;
        durations.push(("_sum".to_owned(), seconds.to_string()));
        durations.push(("_count".to_owned(), all.to_string()));
        family(name, "histogram", "Duration of requests, in real time.", &durations);
        let emails = [(String::new(), count(&self.emails).to_string())];
        family("svc_emails_accepted_total", "counter", "Emails accepted.", &emails);
        let mut attempts = Vec::new();
        for (service, counters) in ["email", "extraction"].iter().zip(&self.attempts) {
            for (outcome, counter) in ["delivered", "failed"].iter().zip(counters) {
                let labels = format!(r#"{{service="{service}",outcome="{outcome}"}}"#);
                attempts.push((labels, count(counter).to_string()));
            }
        }
        family("svc_delivery_attempts_total", "counter", "Webhook delivery attempts.", &attempts);
        let pending = [(String::new(), pending.to_string())];
        family(
            "svc_deliveries_pending",
            "gauge",
            "Webhook deliveries waiting for an attempt.",
            &pending,
        );
        let due = [(String::new(), due.to_string())];
        family("svc_due", "gauge", "Emails and recipients waiting for their next step.", &due);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_index_the_counters() {
        for (index, operation) in Operation::ALL.iter().copied().enumerate() {
            assert_eq!(operation as usize, index);
        }
    }

    #[test]
    fn formats_for_prometheus() {
        let metrics = Metrics::default();
        let took = Duration::from_millis(2);
        metrics.request(Operation::EmailsSend, StatusCode::ACCEPTED, took);
        metrics.request(Operation::EmailsSend, StatusCode::FORBIDDEN, took);
        metrics.emails(1);
        metrics.attempt(Service::Extraction, false);
        let text = metrics.text(3, 4);
        for line in [
            "# TYPE svc_requests_total counter",
            r#"svc_requests_total{service="email",operation="emails.send",status="2xx"} 1"#,
            r#"svc_requests_total{service="email",operation="emails.send",status="4xx"} 1"#,
            r#"svc_request_duration_seconds_bucket{le="0.001"} 0"#,
            r#"svc_request_duration_seconds_bucket{le="0.0025"} 2"#,
            r#"svc_request_duration_seconds_bucket{le="+Inf"} 2"#,
            "svc_request_duration_seconds_sum 0.004",
            "svc_request_duration_seconds_count 2",
            "svc_emails_accepted_total 1",
            r#"svc_delivery_attempts_total{service="extraction",outcome="failed"} 1"#,
            "svc_deliveries_pending 3",
            "svc_due 4",
        ] {
            assert!(text.lines().any(|known| known == line), "{line} in\n{text}");
        }
    }
}
