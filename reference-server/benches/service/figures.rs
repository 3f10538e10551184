//! The figures, one function for each name.

use std::path::Path;
use std::time::{Duration, Instant};

use super::process::{MEMORY, Process};
use super::receiver::Receiver;
use super::wrk::{self, Load};

type Measure = fn(Duration);

pub(crate) const ALL: [(&str, Measure); 6] = [
    ("start", start),
    ("sends", sends),
    ("batches", batches),
    ("deliveries", deliveries),
    ("backlog", backlog),
    ("growth", growth),
];

const SEND: &str = "/api/v1/emails";
const BATCH: &str = "/api/v1/emails/batch";
const EMAIL: &str = r#"{"from":"hello@sandbox.test","to":"ada@example.test","subject":"Hello there","text":"Hello Ada, this is a message of some length, so that it looks like one.","html":"<p>Hello Ada, this is a message of some length, so that it looks like one.</p>"}"#;

fn batch() -> String {
    format!("[{}]", vec![EMAIL; 100].join(","))
}

/// A server on disk with one webhook, and its receiver.
struct Bench {
    server: Process,
    receiver: Receiver,
    directory: tempfile::TempDir,
}

impl Bench {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let server = Process::start(directory.path());
        let receiver = Receiver::start();
        let hook = format!(r#"{{"url":"http://{}/","events":["email.delivered"]}}"#, receiver.addr);
        let hook = server.call("POST", "/api/v1/webhooks", &hook);
        receiver.expect(hook["signingSecret"].as_str().unwrap());
        Self { server, receiver, directory }
    }

    fn singles(&self, time: Duration) -> Load {
        wrk::post(self.server.addr, SEND, EMAIL, time)
    }

    /// Has so many more emails accepted, a hundred at a time.
    fn add(&self, emails: u64) {
        let batch = batch();
        for _ in 0..emails / 100 {
            self.server.call("POST", BATCH, &batch);
        }
    }
}

fn line(name: &str, value: f64, unit: &str, more: &str) {
    println!("  {name:<46}{value:>9.1} {unit:<5} {more}");
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn start(_: Duration) {
    let show = |name: &str, runs: Vec<(f64, f64)>| {
        let slowest = runs.iter().map(|run| run.0).fold(0.0, f64::max);
        let ready = median(runs.iter().map(|run| run.1).collect());
        let more = format!("slowest of {} {slowest:.1}; as a process {ready:.1}", runs.len());
        line(name, median(runs.iter().map(|run| run.0).collect()), "ms", &more);
    };
    let run = |place: &Path| {
        let server = Process::start(place);
        let times = (server.start_ms, server.ready_ms);
        server.stop();
        times
    };
    let new = || run(tempfile::tempdir().unwrap().path());
    show("on disk, new", (0..20).map(|_| new()).collect());
    let directory = tempfile::tempdir().unwrap();
    run(directory.path());
    show("on disk, again", (0..20).map(|_| run(directory.path())).collect());
    show("in memory", (0..20).map(|_| run(Path::new(MEMORY))).collect());
    let server = Process::start(directory.path());
    line("memory idle", server.resident_mib(), "MiB", "");
    server.stop();
}

fn sends(time: Duration) {
    let directory = tempfile::tempdir().unwrap();
    let server = Process::start(directory.path());
    let load = wrk::post(server.addr, SEND, EMAIL, time);
    line(
        "durable single sends, nobody subscribed",
        load.requests_a_second,
        "/s",
        &load.to_string(),
    );
    server.settle();
    server.stop();
    let bench = Bench::start();
    let load = bench.singles(time);
    let left = format!("{load}; {} still to do", bench.server.backlog());
    line("durable single sends, one webhook", load.requests_a_second, "/s", &left);
    bench.server.settle();
    bench.server.stop();
}

fn batches(time: Duration) {
    let bench = Bench::start();
    let load = wrk::post(bench.server.addr, BATCH, &batch(), time);
    let more = format!("{load} for each hundred");
    line("emails in batches of 100", load.requests_a_second * 100.0, "/s", &more);
    let (started, left) = (Instant::now(), bench.server.backlog());
    bench.server.settle();
    let took = started.elapsed().as_secs_f64();
    line("settled after", took, "s", &format!("{left} things to do"));
    bench.server.stop();
}

/// From the first request until the last delivery is recorded.
fn deliveries(_: Duration) {
    const EMAILS: u64 = 50_000;
    let bench = Bench::start();
    let started = Instant::now();
    bench.add(EMAILS);
    bench.server.settle();
    let rate = EMAILS as f64 / started.elapsed().as_secs_f64();
    assert_eq!(bench.receiver.received(), EMAILS, "each delivered once");
    line("emails accepted, moved on, delivered", rate, "/s", "each signature checked");
    bench.add(100_000 - EMAILS);
    bench.server.settle();
    line("memory after 100 000 emails", bench.server.resident_mib(), "MiB", "");
    bench.server.stop();
}

/// Single sends while much else is to be done.
fn backlog(time: Duration) {
    let bench = Bench::start();
    let before = bench.singles(time);
    line("single sends without a backlog", before.requests_a_second, "/s", &before.to_string());
    bench.server.settle();
    bench.add(200_000);
    let left = bench.server.backlog();
    let during = bench.singles(time);
    let more = format!("{during}; {left} things to do before, {} after", bench.server.backlog());
    line("single sends with a backlog", during.requests_a_second, "/s", &more);
    bench.server.settle();
    bench.server.stop();
}

/// A server with few emails and one with a million, in turns.
fn growth(_: Duration) {
    const ROUNDS: usize = 5;
    let full = Bench::start();
    let started = Instant::now();
    for step in 1..=10 {
        full.add(100_000);
        full.server.settle();
        if step == 1 || step == 10 {
            let name = format!("memory at {step}00 000 emails");
            line(&name, full.server.resident_mib(), "MiB", "");
        }
    }
    line("a million emails took", started.elapsed().as_secs_f64(), "s", "");
    let size = std::fs::metadata(full.directory.path().join("svc.db")).unwrap().len();
    line("size of the database", size as f64 / f64::from(1 << 20), "MiB", "");
    let (mut few, mut many) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let small = Bench::start();
        small.add(1_000);
        small.server.settle();
        few.push(small.singles(Duration::from_secs(2)).requests_a_second);
        small.server.settle();
        small.server.stop();
        many.push(full.singles(Duration::from_secs(2)).requests_a_second);
        full.server.settle();
    }
    let (few, many) = (median(few), median(many));
    line("single sends at 1 000 emails", few, "/s", "");
    line("single sends at 1 000 000 emails", many, "/s", "");
    line("time per send, the second over the first", few / many, "", "");
    looks(&full.server);
    full.server.stop();
}

/// What people and tests ask for, in a full mailbox.
fn looks(server: &Process) {
    let page = server.call("GET", "/_sandbox/messages?limit=1", "");
    let (email, next) = (page["data"][0]["emailId"].clone(), page["next"].clone());
    let (email, next) = (email.as_str().unwrap(), next.as_str().unwrap());
    for (name, path) in [
        ("an email", format!("/api/v1/emails/{email}")),
        ("newest messages", "/_sandbox/messages".to_owned()),
        ("messages after a cursor", format!("/_sandbox/messages?cursor={next}")),
        ("messages of an address nobody wrote to", "/_sandbox/messages?to=b@x.test".to_owned()),
        ("messages from an address that wrote none", "/_sandbox/messages?from=b@x.test".to_owned()),
        ("messages with a subject that none has", "/_sandbox/messages?subject=zzz".to_owned()),
        ("newest deliveries", "/_sandbox/deliveries".to_owned()),
        (
            "failed deliveries, of which there are none",
            "/_sandbox/deliveries?state=failed".to_owned(),
        ),
        ("deliveries of an unknown webhook", "/_sandbox/deliveries?webhook=whk_x".to_owned()),
        ("metrics", "/metrics".to_owned()),
    ] {
        let times = (0..5).map(|_| {
            let started = Instant::now();
            server.call("GET", &path, "");
            started.elapsed().as_secs_f64() * 1e3
        });
        line(name, median(times.collect()), "ms", "");
    }
}
