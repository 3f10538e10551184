//! Bulk sending: `svc bulk send` compared with a bare loop of `send_batch`, and workers on
//! PostgreSQL.
//!
//! ```text
//! cargo bench -p svc-tests --bench bulk              1,000,000 rows
//! cargo bench -p svc-tests --bench bulk -- 20000     fewer rows
//! ```
//!
//! Prints the rates, the peak memory of `svc`, the size of the ledger, the time that `status`,
//! `report` and a job of one row take beside the complete job, and how much faster four workers are
//! than one if each request takes 50 ms. The latter needs an empty database of PostgreSQL:
//! `SVC_BENCH_LEDGER` is its URL. The sandbox is a process of its own, on the same machine. Results: `README.md` in this folder.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt as _};
use serde_json::{Value, json};
use svc_sdk::EmailClient;
use svc_sdk::email::Email;

const SVC: &str = env!("CARGO_BIN_EXE_svc-under-test");
const KEY: &str = "mk_test_sandbox";
/// Requests in flight, the default of `svc bulk send`.
const CONCURRENCY: usize = 4;

fn main() {
    let rows = std::env::args()
        .skip(1)
        .find_map(|arg| arg.parse().ok())
        .unwrap_or(1_000_000);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        one_process(rows).await;
        workers((rows / 25).clamp(1_000, 40_000)).await;
    });
}

async fn one_process(rows: usize) {
    let bench = Bench::start(rows);
    let start = Instant::now();
    bench.bare_loop(rows).await;
    let bare = rows as f64 / start.elapsed().as_secs_f64();
    println!("bare loop of send_batch     {bare:>12.0} emails/s");
    drop(bench);

    let bench = Bench::start(rows);
    let start = Instant::now();
    let send = "bulk send people.csv --from hello@sandbox.test --subject Hi --text Hello --yes";
    let peak = peak_memory(bench.spawn(send));
    let rate = rows as f64 / start.elapsed().as_secs_f64();
    println!(
        "svc bulk send               {rate:>12.0} emails/s, {:.2} of the loop",
        rate / bare
    );
    println!(
        "peak memory                 {:>12.1} MiB",
        peak as f64 / 1024.0
    );

    let job = bench.json("bulk list")[0].clone();
    assert_eq!(job["accepted"], rows, "{job}");
    let ledger = bench.home.path().join(".local/state/svc/bulk.db");
    let bytes = std::fs::metadata(ledger).unwrap().len();
    println!(
        "ledger                      {:>12.1} bytes a row",
        bytes as f64 / rows as f64
    );
    let id = job["job"].as_str().unwrap();
    std::fs::write(
        bench.home.path().join("one.csv"),
        "email\none@example.test\n",
    )
    .unwrap();
    for command in [
        format!("bulk status {id}"),
        format!("bulk report {id} --status refused"),
        "bulk send one.csv --from hello@sandbox.test --subject Hi --text Hello --yes".to_owned(),
    ] {
        let start = Instant::now();
        bench.json(&command);
        let name = command.split(' ').take(2).collect::<Vec<_>>().join(" ");
        let name = format!("svc {name}");
        println!("{name:<27} {:>12.2} s", start.elapsed().as_secs_f64());
    }
}

/// Four workers against one, with a service that takes 50 ms for each request.
async fn workers(rows: usize) {
    let Ok(ledger) = std::env::var("SVC_BENCH_LEDGER") else {
        println!("workers: skipped, SVC_BENCH_LEDGER is not set");
        return;
    };
    let ledger = format!("--ledger {ledger}");
    let mut seconds = Vec::new();
    for count in [1, 4] {
        let bench = Bench::start(rows);
        let slow = json!({"operation": "emails.send_batch", "latency": "50ms", "times": 1_000_000});
        bench
            .client
            .raw("POST", "/_sandbox/faults")
            .json(&slow)
            .await
            .unwrap();
        let email = format!("--from hello@sandbox.test --subject Hi{count} --text Hello");
        let send = format!("bulk send people.csv {email} --yes --again --concurrency 1 {ledger}");
        let mut workers = vec![bench.spawn(&send)];
        let job = loop {
            let job = bench.json(&format!("bulk list {ledger}"))[0].clone();
            if job["subject"] == format!("Hi{count}") {
                break job;
            }
        };
        let start = Instant::now();
        let id = job["job"].as_str().unwrap();
        let work = format!("bulk work {id} {ledger} --concurrency 1");
        workers.extend((1..count).map(|_| bench.spawn(&work)));
        for mut worker in workers {
            assert!(worker.wait().unwrap().success());
        }
        seconds.push(start.elapsed().as_secs_f64());
        let rate = rows as f64 / start.elapsed().as_secs_f64();
        println!("workers: {count}                  {rate:>12.0} emails/s");
    }
    println!(
        "four against one            {:>12.2} times as fast",
        seconds[0] / seconds[1]
    );
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
