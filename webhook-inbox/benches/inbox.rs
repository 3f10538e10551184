//! How long an inbox needs to accept and to handle a delivery, as a multiple of one HMAC-SHA256
//! of its body, which every receiver computes.
//!
//! `cargo bench -p svc-webhook-inbox` measures SQLite, in a file in `TMPDIR`. With
//! `DATABASE_URL`, it measures PostgreSQL, too, in a schema of its own, which it creates and
//! drops. The machine must be idle. The output starts with the machine and the versions.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark")]

use std::hint::black_box;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use tokio::task::JoinHandle;
use tokio_postgres::{Config, NoTls};
use webhook_inbox::{Accepted, Database, Error, Inbox};
use webhook_verify::{Delivery, Secret, Service, Signature, Verifier};

const SECRET: &str = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const BODY_SIZE: usize = 1024;
const DELIVERIES: usize = 2000;

fn main() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    describe_machine();
    let hmac = time_of_hmac();
    println!("{:44}{:>12.2?}", format!("HMAC-SHA256 of {BODY_SIZE} bytes"), hmac);

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.db");
    println!("SQLite {}", rusqlite::version());
    runtime.block_on(async {
        let inbox = Inbox::sqlite(&path).unwrap();
        let table = "CREATE TABLE handled (key TEXT NOT NULL)";
        rusqlite::Connection::open(&path).unwrap().execute_batch(table).unwrap();
        let worker = inbox.worker().run(|tx, job| {
            tx.execute("INSERT INTO handled VALUES (?1)", [job.delivery().key()])?;
            Ok(())
        });
        measure(
            &inbox,
            hmac,
            || tokio::spawn(worker),
            async || {
                let count = "SELECT count(*) FROM webhook_inbox WHERE status <> 'done'";
                let connection = rusqlite::Connection::open(&path).unwrap();
                connection.query_row(count, [], |row| row.get(0)).unwrap()
            },
        )
        .await;
    });
    match std::env::var("DATABASE_URL") {
        Ok(url) => runtime.block_on(postgres(&url, hmac)),
        Err(_) => println!("PostgreSQL: not measured, because DATABASE_URL is not set"),
    }
}

async fn postgres(url: &str, hmac: Duration) {
    const SCHEMA: &str = "webhook_inbox_bench";
    let mut config: Config = url.parse().unwrap();
    let (client, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    let version = client.query_one("SHOW server_version", &[]).await.unwrap();
    println!("PostgreSQL {}", version.get::<_, &str>(0));
    // Fails if the schema exists: it may belong to somebody else.
    client
        .batch_execute(&format!(
            "CREATE SCHEMA {SCHEMA}; CREATE TABLE {SCHEMA}.handled (key text NOT NULL)"
        ))
        .await
        .unwrap();
    config.options(format!("-c search_path={SCHEMA}"));
    let inbox = Inbox::postgres(config, NoTls);
    let worker = inbox.worker().run(async |tx, job| {
        let key = job.delivery().key();
        tx.execute("INSERT INTO handled VALUES ($1)", &[&key]).await?;
        Ok(())
    });
    let count = format!("SELECT count(*) FROM {SCHEMA}.webhook_inbox WHERE status <> 'done'");
    measure(
        &inbox,
        hmac,
        || tokio::spawn(worker),
        async || client.query_one(&count, &[]).await.unwrap().get(0),
    )
    .await;
    client.batch_execute(&format!("DROP SCHEMA {SCHEMA} CASCADE")).await.unwrap();
}

async fn measure<D: Database>(
    inbox: &Inbox<D>,
    hmac: Duration,
    run: impl FnOnce() -> JoinHandle<Result<(), Error>>,
    waiting: impl AsyncFn() -> i64,
) {
    inbox.migrate().await.unwrap();
    let report = |name: &str, duration: Duration| {
        let each = duration / u32::try_from(DELIVERIES).unwrap();
        let hmacs = each.as_secs_f64() / hmac.as_secs_f64();
        println!("  {name:42}{each:>12.2?}{hmacs:>10.0} x HMAC");
    };
    for at_once in [1, 16] {
        let all: Arc<Vec<_>> =
            Arc::new((0..DELIVERIES).map(|id| delivery(&format!("{at_once}-{id}"))).collect());
        let started = Instant::now();
        join_all((0..at_once).map(|first| {
            let (inbox, all) = (inbox.clone(), all.clone());
            async move {
                for delivery in all.iter().skip(first).step_by(at_once) {
                    assert_eq!(inbox.accept(delivery).await.unwrap(), Accepted::New);
                }
            }
        }))
        .await;
        report(&format!("accept, {at_once} at the same time"), started.elapsed());
    }
    let again = delivery("1-0");
    let started = Instant::now();
    for _ in 0..DELIVERIES {
        assert_eq!(inbox.accept(&again).await.unwrap(), Accepted::Duplicate);
    }
    report("accept a duplicate", started.elapsed());

    let started = Instant::now();
    let worker = run();
    while waiting().await > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // As many were accepted in each of the two rounds.
    report("handle, with one write", started.elapsed() / 2);
    inbox.stop();
    worker.await.unwrap().unwrap();
}

/// A body of `BODY_SIZE` bytes.
fn delivery(id: &str) -> Delivery {
    let head = format!(r#"{{"event":"email.bounced","id":"{id}","data":""#);
    let filler = "x".repeat(BODY_SIZE - head.len() - 2);
    let body = format!(r#"{head}{filler}"}}"#);
    let secret = Secret::new(SECRET).unwrap();
    let header = Signature::sign(Service::Email, &secret, &body).to_string();
    Verifier::email(secret).verify(header, body).unwrap()
}

/// The median of many rounds.
fn time_of_hmac() -> Duration {
    const CALLS: u32 = 1000;
    let body = vec![b'x'; BODY_SIZE];
    let key = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
    let mut rounds: Vec<Duration> = (0..101)
        .map(|_| {
            let started = Instant::now();
            for _ in 0..CALLS {
                let mut mac = key.clone();
                mac.update(black_box(&body));
                black_box(mac.finalize());
            }
            started.elapsed() / CALLS
        })
        .collect();
    rounds.sort();
    rounds[rounds.len() / 2]
}

fn describe_machine() {
    let file = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = file("/proc/cpuinfo");
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = file("/proc/sys/kernel/osrelease");
    let model = model.trim_start_matches([' ', '\t', ':']).trim();
    println!("machine   {cores} x {model}, Linux {}", kernel.trim());
    println!("load      {}", file("/proc/loadavg").trim());
    let rustc = Command::new("rustc").arg("--version").output();
    let rustc = rustc.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    println!(
        "versions  svc-webhook-inbox {}, {}",
        env!("CARGO_PKG_VERSION"),
        rustc.unwrap_or_default()
    );
}
