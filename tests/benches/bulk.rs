//! Bulk sending: what it costs beside a bare loop of `send_batch`. Writes the table of `README.md` in
//! this folder.
//!
//! ```text
//! SVC_TEST_POSTGRES=1 cargo bench -p svc-tests --bench bulk              1,000,000 rows
//! SVC_TEST_POSTGRES=1 cargo bench -p svc-tests --bench bulk -- 20000     fewer rows
//! ```
//!
//! The sandbox is a process of its own, on the same machine.

#![expect(
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark"
)]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt as _};
use serde_json::{Value, json};
use svc_bulk::deadpool_postgres::{Manager, Pool};
use svc_bulk::{BulkSend, Ledger, NewRow, NewSend};
use svc_sdk::EmailClient;
use svc_sdk::email::Email;
use tokio_postgres::{Config, NoTls};

#[expect(dead_code, reason = "tests use the rest")]
#[path = "../../webhook-inbox/tests/it/server.rs"]
mod server;
#[path = "../../webhook-inbox/benches/table/mod.rs"]
mod table;

use table::Table;

const SVC: &str = env!("CARGO_BIN_EXE_svc-under-test");
const KEY: &str = "mk_test_sandbox";
/// Requests in flight, the default of `svc bulk send`.
const CONCURRENCY: usize = 4;

fn main() {
    let rows = table::count().unwrap_or(1_000_000);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut table = Table::default();
    runtime.block_on(async {
        library(rows, &mut table).await;
        command_line(rows, &mut table);
        workers((rows / 25).clamp(1_000, 40_000), &mut table).await;
    });
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/README.md");
    table.write(
        path,
        "SVC_TEST_POSTGRES=1 cargo bench -p svc-tests --bench bulk",
    );
}

fn seconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64()
}

async fn library(rows: usize, table: &mut Table) {
    let bench = Bench::start(0);
    let start = Instant::now();
    bench.bare_loop(rows).await;
    let bare = rows as f64 / seconds(start);
    drop(bench);

    let bench = Bench::start(0);
    let ledger = Ledger::sqlite(bench.home.path().join("ledger.db")).await;
    let ledger = ledger.unwrap();
    let start = Instant::now();
    let send = store(&ledger, rows).await;
    let stored = seconds(start);
    let limit = 25.0 * rows as f64 / 1e6;
    let what = format!("{rows} rows are stored in SQLite");
    table.row(&what, &format!("{stored:.1} s"), &format!("≤ {limit:.1} s"));

    let start = Instant::now();
    let sender = BulkSend::new(&bench.client).concurrency(CONCURRENCY);
    sender.run(&ledger, &send.id, render).await.unwrap();
    let rate = rows as f64 / seconds(start);
    let what = "sent, against a bare loop of `send_batch`";
    table.ratio(what, rate, bare, "0.85");
}

async fn store(ledger: &Ledger, rows: usize) -> NewSend {
    let send = NewSend::new(format!("news {rows}"));
    let people = (1..=rows as u64).map(|number| {
        let address = format!("p{number}@example.test");
        NewRow::new(number, &address, &address).unwrap()
    });
    ledger.create(&send, people).await.unwrap();
    send
}

#[expect(clippy::ptr_arg, reason = "the rows are texts")]
fn render(to: &String) -> Result<Email, String> {
    Ok(Email::new("hello@sandbox.test", to.as_str(), "Hi").text("Hello"))
}

fn command_line(rows: usize, table: &mut Table) {
    let bench = Bench::start(rows);
    let send = "bulk send people.csv --from hello@sandbox.test --subject Hi --text Hello --yes";
    let peak = peak_memory(bench.spawn(send)) / 1024;
    let what = format!("memory of `svc bulk send` of {rows} rows");
    table.row(&what, &format!("{peak} MiB"), "≤ 60 MiB");

    let job = bench.json("bulk list")[0].clone();
    assert_eq!(job["accepted"], rows, "{job}");

    let one = bench.home.path().join("one.csv");
    std::fs::write(one, "email\none@example.test\n").unwrap();
    let start = Instant::now();
    bench.json("bulk send one.csv --from hello@sandbox.test --subject Hi --text Hello --yes");
    let what = format!("a job of one row beside one of {rows}");
    table.row(&what, &format!("{:.2} s", seconds(start)), "≤ 0.2 s");

    let id = job["job"].as_str().unwrap();
    let peak = peak_memory(bench.spawn(&format!("bulk report {id}"))) / 1024;
    let what = format!("memory of `svc bulk report` of {rows} rows");
    table.row(&what, &format!("{peak} MiB"), "streams");
}

/// Four workers against one, with a service that takes 50 ms for each request.
async fn workers(rows: usize, table: &mut Table) {
    let Some(server) = server::Server::own().await else {
        return;
    };

    let config = server.database().await;
    let mut took = Vec::new();
    for count in [1, 4] {
        let bench = Bench::start(0);
        let slow = json!({"operation": "emails.send_batch", "latency": "50ms", "times": 1_000_000});
        let faults = bench.client.raw("POST", "/_sandbox/faults").json(&slow);
        faults.await.unwrap();
        let send = store(&ledger(&config).await, rows + count).await;
        let start = Instant::now();
        let workers = (0..count).map(async |_| {
            let ledger = ledger(&config).await;
            let sender = BulkSend::new(&bench.client).concurrency(1);
            sender.run(&ledger, &send.id, render).await.unwrap();
        });
        join_all(workers).await;
        took.push(seconds(start));
    }

    let times = format!("{:.2} times as fast", took[0] / took[1]);
    let what = "four workers on PostgreSQL against one, at 50 ms a request";
    table.row(what, &times, "≥ 3.5 times");
}

/// With connections of its own, as in another process.
async fn ledger(config: &Config) -> Ledger {
    let manager = Manager::new(config.clone(), NoTls);
    let pool = Pool::builder(manager).max_size(8).build().unwrap();
    Ledger::postgres(pool).await.unwrap()
}

/// A sandbox in a process of its own, and a file of rows.
struct Bench {
    home: tempfile::TempDir,
    server: Child,
    url: String,
    client: EmailClient,
}

impl Bench {
    fn start(rows: usize) -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut file =
            std::io::BufWriter::new(std::fs::File::create(home.path().join("people.csv")).unwrap());
        writeln!(file, "email").unwrap();
        (0..rows).for_each(|n| writeln!(file, "p{n}@example.test").unwrap());
        file.flush().unwrap();
        let mut server = command(
            home.path(),
            "sandbox serve --addr 127.0.0.1:0 --data data --json",
        )
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap();
        let url = ready["http"].as_str().unwrap().to_owned();
        let client = EmailClient::builder(&url, KEY).build().unwrap();
        Self {
            home,
            server,
            url,
            client,
        }
    }

    async fn bare_loop(&self, rows: usize) {
        let chunks = (0..rows.div_ceil(100)).map(|chunk| {
            let emails = (chunk * 100..rows.min((chunk + 1) * 100)).map(|n| {
                let to = format!("p{n}@example.test");
                Email::new("hello@sandbox.test", to, "Hi").text("Hello")
            });
            emails.collect::<Vec<_>>()
        });
        let sent = stream::iter(chunks).map(|emails| async move {
            let response = self.client.emails().send_batch(&emails).await.unwrap();
            assert_eq!(response.items.len(), emails.len());
        });
        sent.buffer_unordered(CONCURRENCY)
            .for_each(async |()| {})
            .await;
    }

    fn spawn(&self, args: &str) -> Child {
        self.command(args).stdout(Stdio::null()).spawn().unwrap()
    }

    fn json(&self, args: &str) -> Value {
        let output = self.command(args).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn command(&self, args: &str) -> Command {
        let mut command = command(self.home.path(), args);
        command
            .env("SVC_EMAIL_URL", &self.url)
            .env("SVC_EMAIL_KEY", KEY);
        command
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn command(home: &Path, args: &str) -> Command {
    let mut command = Command::new(SVC);
    command
        .args(args.split(' '))
        .env_clear()
        .env("HOME", home)
        .current_dir(home)
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// The most memory that a process uses until it ends, in KiB. Only on Linux; 0 elsewhere.
fn peak_memory(mut process: Child) -> u64 {
    let status = format!("/proc/{}/status", process.id());
    let mut peak = 0;
    loop {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let now = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        peak = peak.max(now.unwrap_or(0));
        if let Some(status) = process.try_wait().unwrap() {
            assert!(status.success(), "svc bulk send failed");
            return peak;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
