//! A mixed load with another client whose requests are timed, and a server that is killed
//! again and again: both count what was accepted and did not arrive.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::benchmarks::line;
use super::process::Process;
use super::traffic::{Client, Endpoint, KEY, Manner};

pub(super) const EMAIL: &str =
    r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s","text":"Hello"}"#;
/// The events of every delivered email.
pub(super) const EVENTS: [&str; 2] = ["email.sent", "email.delivered"];

/// The event and the ID of each delivery that must arrive.
pub(super) type Expected = Arc<Mutex<HashSet<(String, String)>>>;

pub(super) fn subscribe(
    client: &mut Client,
    endpoint: &Endpoint,
    events: &[&str],
    path: &str,
) -> String {
    let url = format!("http://{}/", endpoint.addr);
    let body = serde_json::json!({"url": url, "events": events}).to_string();
    let (status, webhook) = client.call(&format!("POST {path}"), &body).unwrap();
    assert_eq!(status, 201, "{webhook}");
    // The extraction service signs in another way.
    if let Some(secret) = webhook["signingSecret"].as_str() {
        endpoint.expect(secret);
    }
    webhook["id"].as_str().unwrap().to_owned()
}

/// Sends one email and notes its events once it is accepted. Returns the status.
pub(super) fn send(client: &mut Client, email: &str, expected: &Expected) -> std::io::Result<u16> {
    let (status, sent) = client.call("POST /api/v1/emails", email)?;
    if let (202, Some(id)) = (status, sent["id"].as_str()) {
        let events = EVENTS.map(|event| (event.to_owned(), id.to_owned()));
        expected.lock().unwrap().extend(events);
    }
    Ok(status)
}

/// Prints how many of the expected deliveries arrived, and for the first that did not what
/// the database knows about them.
pub(super) fn report_lost(expected: &Expected, endpoint: &Endpoint, directory: &Path) {
    let expected = expected.lock().unwrap();
    let arrived = endpoint.arrived();
    let lost: Vec<_> = expected.difference(&arrived).collect();
    line(
        "deliveries with a wrong signature",
        endpoint.forged() as f64,
        "",
        "",
    );
    line(
        "deliveries of what was accepted",
        expected.len() as f64,
        "",
        "",
    );
    line("lost", lost.len() as f64, "", "");
    if lost.is_empty() {
        return;
    }

    let database = Connection::open(directory.join("svc.db")).unwrap();
    for (event, id) in lost.into_iter().take(20) {
        let sql = "SELECT delivery.id, state, attempts FROM delivery JOIN delivery_body
                   ON delivery = delivery.id WHERE event = ?1 AND instr(body, ?2)";
        let known = database.query_row(sql, (event, id), |row| {
            let (delivery, state): (String, String) = (row.get(0)?, row.get(1)?);
            Ok(format!(
                "{delivery}: {state} after {} attempts",
                row.get::<_, i64>(2)?
            ))
        });
        println!(
            "  {event} {id}: {}",
            known.unwrap_or_else(|error| error.to_string())
        );
    }
}

/// Kills the server under load, and stops it every third time.
pub(crate) fn kill(time: Duration) {
    let directory = tempfile::tempdir().unwrap();
    // The connections that it closes must cost no attempt.
    let endpoint = Endpoint::start(Manner::Accept { responses: 7 });
    let expected = Expected::default();
    let started = Instant::now();
    let mut kills = 0;
    let mut stops = 0;
    let mut longest_stop = Duration::ZERO;
    for round in 0_u64.. {
        if round > 0 && started.elapsed() >= time {
            break;
        }
        let server = Process::start(directory.path());
        if round == 0 {
            let mut client = Client::new(server.addr, KEY);
            subscribe(&mut client, &endpoint, &EVENTS, "/api/v1/webhooks");
            let mut client = Client::new(server.addr, "sk_test_sandbox");
            subscribe(
                &mut client,
                &endpoint,
                &["extraction.completed"],
                "/v1/webhooks",
            );
        }
        let mut load: Vec<JoinHandle<()>> = Vec::new();
        for _ in 0..6 {
            let mut client = Client::new(server.addr, KEY);
            let expected = Arc::clone(&expected);
            load.push(std::thread::spawn(move || {
                while send(&mut client, EMAIL, &expected).is_ok_and(|status| status == 202) {}
            }));
        }
        let mut client = Client::new(server.addr, KEY);
        let events = Arc::clone(&expected);
        load.push(std::thread::spawn(move || {
            let body = r#"{"event":"extraction.completed"}"#;
            while let Ok((202, made)) = client.call("POST /_sandbox/extractions", body) {
                let id = made["id"].as_str().unwrap().to_owned();
                events
                    .lock()
                    .unwrap()
                    .insert(("extraction.completed".to_owned(), id));
            }
        }));
        // The moment differs between rounds, and is the same in every run.
        std::thread::sleep(Duration::from_millis(100 + round * 97 % 400));
        if round % 3 == 2 {
            longest_stop = longest_stop.max(server.terminate());
            stops += 1;
        } else {
            server.kill();
            kills += 1;
        }
        load.into_iter().for_each(|thread| thread.join().unwrap());
    }

    let server = Process::start(directory.path());
    server.call("POST", "/_sandbox/clock", r#"{"advance":"1h"}"#);
    server.settle();
    server.stop();
    line(
        "kills and stops under load",
        f64::from(kills + stops),
        "",
        &format!("{stops} stops"),
    );
    line(
        "longest end after SIGTERM",
        longest_stop.as_secs_f64() * 1e3,
        "ms",
        "",
    );
    report_lost(&expected, &endpoint, directory.path());
}

/// How long requests took.
#[derive(Default)]
pub(super) struct Latencies {
    times: Vec<Duration>,
    pub(super) failed: u64,
}

impl Latencies {
    pub(super) fn time<T>(&mut self, request: impl FnOnce() -> T) -> T {
        let sent = Instant::now();
        let response = request();
        self.times.push(sent.elapsed());
        response
    }

    /// The time, in milliseconds, within which this share of the requests was done.
    pub(super) fn at(&self, share: f64) -> f64 {
        let mut sorted = self.times.clone();
        sorted.sort_unstable();
        let index = (sorted.len() as f64 * share) as usize;
        sorted[index.min(sorted.len() - 1)].as_secs_f64() * 1e3
    }
}

impl std::fmt::Display for Latencies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count = self.times.len();
        let p99 = self.at(0.99);
        let longest = self.at(1.0);
        write!(
            f,
            "{count} requests, {} failed, p99 {p99:.1} ms, longest {longest:.1} ms",
            self.failed
        )
    }
}

/// The mixed load of one organization: the requests, and how many of them a thread makes in a
/// second.
struct Mix {
    addr: SocketAddr,
    is_over: Arc<AtomicBool>,
    requests: Arc<AtomicU64>,
    refused: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Mix {
    fn add(
        &mut self,
        per_second: u32,
        mut request: impl FnMut(&mut Client) -> std::io::Result<u16> + Send + 'static,
    ) {
        let mut client = Client::new(self.addr, KEY);
        let is_over = Arc::clone(&self.is_over);
        let requests = Arc::clone(&self.requests);
        let refused = Arc::clone(&self.refused);
        self.threads.push(std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                let next = Instant::now() + Duration::from_secs(1) / per_second;
                if !request(&mut client).is_ok_and(|status| status < 300) {
                    refused.fetch_add(1, Ordering::Relaxed);
                }
                requests.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(next.saturating_duration_since(Instant::now()));
            }
        }));
    }
}

/// One organization sends, reads and verifies, and has endpoints that never respond; another
/// one sends and reads an email from time to time.
pub(crate) fn mixed(time: Duration) {
    let directory = tempfile::tempdir().unwrap();
    let server = Process::start(directory.path());
    let addr = server.addr;
    let good = Endpoint::start(Manner::Accept { responses: 1000 });
    let hanging = Endpoint::start(Manner::Hang);
    let mut client = Client::new(addr, KEY);
    subscribe(&mut client, &good, &EVENTS, "/api/v1/webhooks");
    let hang = |_| {
        subscribe(
            &mut client,
            &hanging,
            &["email.delivered"],
            "/api/v1/webhooks",
        )
    };

    let hanging: Vec<String> = (0..5).map(hang).collect();
    let (_, domains) = client.call("GET /api/v1/domains", "").unwrap();
    let domain = domains[0]["id"].as_str().unwrap().to_owned();

    let expected = Expected::default();
    let mut mix = Mix {
        addr,
        is_over: Arc::default(),
        requests: Arc::default(),
        refused: Arc::default(),
        threads: Vec::new(),
    };
    let large = EMAIL.replace("Hello", &"x".repeat(1 << 20));
    let many: Vec<String> = (0..500).map(|number| format!("r{number}@x.test")).collect();
    let many = EMAIL.replace(r#""text""#, &format!(r#""bcc":{many:?},"text""#));
    for email in [
        EMAIL.to_owned(),
        EMAIL.to_owned(),
        EMAIL.to_owned(),
        EMAIL.to_owned(),
    ] {
        let expected = Arc::clone(&expected);
        mix.add(100, move |client| send(client, &email, &expected));
    }

    for (per_second, email) in [(2, large), (1, many)] {
        let expected = Arc::clone(&expected);
        mix.add(per_second, move |client| send(client, &email, &expected));
    }

    for get in [
        "/api/v1/audiences",
        "/api/v1/webhooks",
        "/_sandbox/messages?limit=50",
    ] {
        mix.add(50, move |client| {
            Ok(client.call(&format!("GET {get}"), "")?.0)
        });
    }

    let verify = format!("POST /api/v1/domains/{domain}/verify");
    mix.add(20, move |client| Ok(client.call(&verify, "")?.0));
    let batch = format!("[{}]", [EMAIL; 100].join(","));
    mix.add(2, move |client| {
        Ok(client.call("POST /api/v1/emails/batch", &batch)?.0)
    });

    let mut latencies = Latencies::default();
    let started = Instant::now();
    let other = server.call("POST", "/_sandbox/organizations", "{}");
    let mut other = Client::new(addr, other["email_key"].as_str().unwrap());
    while started.elapsed() < time {
        for line in ["POST /api/v1/audiences", "GET /api/v1/audiences"] {
            let body = if line.starts_with("POST") {
                r#"{"name":"x"}"#
            } else {
                ""
            };
            let (status, body) = latencies.time(|| other.call(line, body).unwrap());
            assert!(status < 300, "{line}: {body}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    mix.is_over.store(true, Ordering::Relaxed);
    mix.threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    let resident = server.resident_mib();
    let peak = server.peak_mib();
    let rate = mix.requests.load(Ordering::Relaxed) as f64 / time.as_secs_f64();
    let refused = mix.refused.load(Ordering::Relaxed);
    line(
        "mixed load",
        rate,
        "/s",
        &format!("{refused} requests failed"),
    );
    let tail = latencies.to_string();
    line(
        "request of another organization",
        latencies.at(0.5),
        "ms",
        &tail,
    );
    line("memory", resident, "MiB", &format!("at most {peak:.1} MiB"));
    // The server has closed the connection that was idle.
    let mut client = Client::new(addr, KEY);
    for webhook in hanging {
        client
            .call(&format!("DELETE /api/v1/webhooks/{webhook}"), "")
            .unwrap();
    }

    server.settle();
    server.stop();
    report_lost(&expected, &good, directory.path());
}
