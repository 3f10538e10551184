//! The benchmarks of plain loads, one function per name.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::process::{MEMORY, Process};
use super::receiver::Receiver;
use super::wrk::{self, Load};

const SEND: &str = "/api/v1/emails";
const BATCH: &str = "/api/v1/emails/batch";
const EMAIL: &str = r#"{"from":"hello@sandbox.test","to":"ada@example.test","subject":"Hello there","text":"Hello Ada, this is a message of some length, so that it looks like one.","html":"<p>Hello Ada, this is a message of some length, so that it looks like one.</p>"}"#;

fn batch() -> String {
    format!("[{}]", vec![EMAIL; 100].join(","))
}

/// A server with one webhook and its receiver.
pub(crate) struct Bench {
    pub(crate) server: Process,
    pub(crate) directory: TempDir,
    receiver: Receiver,
    webhook: String,
}

impl Bench {
    /// Starts a server on an empty data directory.
    pub(crate) fn start() -> Self {
        Self::on(tempfile::tempdir().unwrap())
    }

    /// Starts a server on an existing data directory.
    pub(crate) fn on(directory: TempDir) -> Self {
        let server = Process::start(directory.path());
        Self::with(server, directory)
    }

    fn in_memory() -> Self {
        Self::with(
            Process::start(Path::new(MEMORY)),
            tempfile::tempdir().unwrap(),
        )
    }

    fn with(server: Process, directory: TempDir) -> Self {
        let receiver = Receiver::start();
        let hook = format!(
            r#"{{"url":"http://{}/","events":["email.delivered"]}}"#,
            receiver.addr
        );
        let hook = server.call("POST", "/api/v1/webhooks", &hook);
        receiver.expect(hook["signingSecret"].as_str().unwrap());
        let webhook = hook["id"].as_str().unwrap().to_owned();
        Self {
            server,
            directory,
            receiver,
            webhook,
        }
    }

    /// Deletes the webhook, stops the server, and returns the data directory.
    pub(crate) fn close(self) -> TempDir {
        self.server
            .call("DELETE", &format!("/api/v1/webhooks/{}", self.webhook), "");
        self.server.stop();
        self.directory
    }

    pub(crate) fn singles(&self, time: Duration) -> Load {
        wrk::post(self.server.addr, SEND, EMAIL, time)
    }

    /// Sends this many emails in batches of 100.
    pub(crate) fn add(&self, emails: u64) {
        let batch = batch();
        for _ in 0..emails / 100 {
            self.server.call("POST", BATCH, &batch);
        }
    }
}

pub(crate) fn line(name: &str, value: f64, unit: &str, more: &str) {
    println!("  {name:<46}{value:>9.1} {unit:<5} {more}");
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

pub(crate) fn start(_: Duration) {
    let show = |name: &str, runs: Vec<(f64, f64)>| {
        let slowest = runs.iter().map(|run| run.0).fold(0.0, f64::max);
        let ready = median(runs.iter().map(|run| run.1).collect());
        let more = format!(
            "slowest of {} {slowest:.1}; as a process {ready:.1}",
            runs.len()
        );
        line(
            name,
            median(runs.iter().map(|run| run.0).collect()),
            "ms",
            &more,
        );
    };
    let run = |location: &Path| {
        let server = Process::start(location);
        let times = (server.start_ms, server.ready_ms);
        server.stop();
        times
    };

    let new = || run(tempfile::tempdir().unwrap().path());
    show("on disk, new", (0..20).map(|_| new()).collect());
    let directory = tempfile::tempdir().unwrap();
    run(directory.path());
    show(
        "on disk, again",
        (0..20).map(|_| run(directory.path())).collect(),
    );
    show(
        "in memory",
        (0..20).map(|_| run(Path::new(MEMORY))).collect(),
    );
    let server = Process::start(directory.path());
    line("memory idle", server.resident_mib(), "MiB", "");
    server.stop();
}

pub(crate) fn sends(time: Duration) {
    let directory = tempfile::tempdir().unwrap();
    let server = Process::start(directory.path());
    let load = wrk::post(server.addr, SEND, EMAIL, time);
    line(
        "durable single sends, no webhook",
        load.requests_per_second,
        "/s",
        &load.to_string(),
    );
    server.settle();
    server.stop();
    let bench = Bench::start();
    let load = bench.singles(time);
    line(
        "durable single sends, one webhook",
        load.requests_per_second,
        "/s",
        &load.to_string(),
    );
    bench.server.settle();
    bench.server.stop();
}

pub(crate) fn batches(time: Duration) {
    let bench = Bench::start();
    let load = wrk::post(bench.server.addr, BATCH, &batch(), time);
    let more = format!("{load} per batch");
    line(
        "emails in batches of 100",
        load.requests_per_second * 100.0,
        "/s",
        &more,
    );
    let started = Instant::now();
    bench.server.settle();
    line("settled after", started.elapsed().as_secs_f64(), "s", "");
    bench.server.stop();
}

/// Measures from the first request until the last delivery is recorded.
pub(crate) fn deliveries(_: Duration) {
    const EMAILS: u64 = 50_000;

    let bench = Bench::start();
    let started = Instant::now();
    bench.add(EMAILS);
    bench.server.settle();
    let rate = EMAILS as f64 / started.elapsed().as_secs_f64();
    assert_eq!(
        bench.receiver.received(),
        EMAILS,
        "every email is delivered once"
    );
    line(
        "emails accepted and delivered",
        rate,
        "/s",
        "all signatures checked",
    );
    bench.add(100_000 - EMAILS);
    bench.server.settle();
    line(
        "memory after 100 000 emails",
        bench.server.resident_mib(),
        "MiB",
        "",
    );
    bench.server.stop();
}

/// Single sends while many tasks are pending.
pub(crate) fn backlog(time: Duration) {
    let bench = Bench::start();
    let before = bench.singles(time);
    line(
        "single sends without a backlog",
        before.requests_per_second,
        "/s",
        &before.to_string(),
    );
    bench.server.settle();
    bench.add(200_000);
    line(
        "memory with a backlog",
        bench.server.resident_mib(),
        "MiB",
        "",
    );
    let during = bench.singles(time);
    line(
        "single sends with a backlog",
        during.requests_per_second,
        "/s",
        &during.to_string(),
    );
    bench.server.settle();
    bench.server.stop();
}

/// Deliveries next to an endpoint that refuses connections, and memory with many
/// pending retries.
pub(crate) fn dead(_: Duration) {
    const EMAILS: u64 = 100_000;

    let bench = Bench::start();
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let hook = format!(r#"{{"url":"http://{free}/","events":["email.delivered"]}}"#);
    bench.server.call("POST", "/api/v1/webhooks", &hook);
    // A frozen clock keeps its retries pending.
    bench
        .server
        .call("POST", "/_sandbox/clock", r#"{"freeze":true}"#);
    let started = Instant::now();
    bench.add(EMAILS);
    bench.server.settle();
    assert_eq!(
        bench.receiver.received(),
        EMAILS,
        "every email is delivered once"
    );
    let rate = EMAILS as f64 / started.elapsed().as_secs_f64();
    line("deliveries next to a dead endpoint", rate, "/s", "");
    let memory = bench.server.resident_mib();
    line("memory with 100 000 pending retries", memory, "MiB", "");
    bench.server.stop();
}

/// Memory of idle connections, each open after one request.
pub(crate) fn connections(_: Duration) {
    const CONNECTIONS: usize = 9_900;

    let directory = tempfile::tempdir().unwrap();
    let server = Process::start(directory.path());
    let before = server.resident_mib();
    let addr = server.addr;
    let request = format!(
        "GET /api/v1/audiences HTTP/1.1\r\nhost: {addr}\r\nauthorization: Bearer mk_test_sandbox\r\n\r\n"
    );
    let mut open = Vec::new();
    while open.len() < CONNECTIONS {
        let Ok(mut stream) = TcpStream::connect(addr) else {
            break;
        };
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut response = [0; 12];
        if stream.read_exact(&mut response).is_err() {
            println!("  the limit of open files is too low: ulimit -n 20000");
            break;
        }
        assert_eq!(&response, b"HTTP/1.1 200");
        open.push(stream);
    }

    let name = format!("memory with {} open connections", open.len());
    line(
        &name,
        server.resident_mib(),
        "MiB",
        &format!("{before:.1} without"),
    );
    let load = wrk::post(addr, SEND, EMAIL, Duration::from_secs(2));
    line(
        "single sends with these connections",
        load.requests_per_second,
        "/s",
        &load.to_string(),
    );
    drop(open);
    server.stop();
}

/// One advance of the clock over ten thousand emails, each scheduled at a different
/// time of one day and each with a delivery.
pub(crate) fn advance(_: Duration) {
    const EMAILS: u64 = 10_000;
    for (name, bench) in [
        ("on disk", Bench::start()),
        ("in memory", Bench::in_memory()),
    ] {
        let clock = bench
            .server
            .call("POST", "/_sandbox/clock", r#"{"freeze":true}"#);
        let year: u64 = clock["now"].as_str().unwrap()[..4].parse().unwrap();
        for first in (0..EMAILS).step_by(100) {
            let emails: Vec<String> = (first..first + 100)
                .map(|number| {
                    let second = number * 86_400 / EMAILS;
                    let hour = second / 3600;
                    let minute = second / 60 % 60;
                    let at = format!("2999-01-01T{hour:02}:{minute:02}:{:02}Z", second % 60);
                    EMAIL.replacen('{', &format!(r#"{{"scheduledAt":"{at}","#), 1)
                })
                .collect();
            bench
                .server
                .call("POST", BATCH, &format!("[{}]", emails.join(",")));
        }
        let started = Instant::now();
        let days = (2999 - year + 1) * 366;
        let change = format!(r#"{{"advance":"{days}d"}}"#);
        let state = bench.server.call("POST", "/_sandbox/clock", &change);
        assert_eq!(state["settled"], true, "{state}");
        assert_eq!(bench.receiver.received(), EMAILS);
        let name = format!("an advance over 10 000 deliveries, {name}");
        line(&name, started.elapsed().as_secs_f64(), "s", "");
        bench.server.stop();
    }
}
