//! What the inbox costs, against plain SQL with the same durability, in one run. Writes the table of
//! `README.md` in this folder.
//!
//! ```text
//! SVC_TEST_POSTGRES=1 cargo bench -p svc-webhook-inbox                1,000,000 old rows
//! SVC_TEST_POSTGRES=1 cargo bench -p svc-webhook-inbox -- 100000      fewer
//! ```
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a benchmark prints, and panics when it fails"
)]

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use deadpool_postgres::{Manager, Pool, Transaction};
use futures_util::future::join_all;
use tokio::sync::Notify;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Config, NoTls};
use webhook_inbox::{Inbox, Job};
use webhook_verify::{Delivery, Secret, Service, Signature, Verifier};

#[expect(dead_code, reason = "tests use the rest")]
#[path = "../tests/it/proxy.rs"]
mod proxy;
#[expect(dead_code, reason = "tests use the rest")]
#[path = "../tests/it/server.rs"]
mod server;
mod table;

use table::Table;

const WORKERS: usize = 4;
const SLOTS: usize = 8;

#[tokio::main]
async fn main() {
    let old = table::count().unwrap_or(1_000_000);
    let server = server::Server::shared().await;
    let config = server.expect("SVC_TEST_POSTGRES=1").database().await;
    let memory = postgres(&config, 2000).await;
    let [inbox, plain] = latency(&config, 3000).await;
    wait_for_disk(&config).await;
    let directory = tempfile::tempdir().unwrap();
    let mut table = Table::default();

    let near = postgres(&config, 2000).await;
    near.handled
        .show("handled a second, PostgreSQL, 4 workers", "0.7", &mut table);
    let proxy = proxy::Proxy::start(&config, Duration::from_micros(2500));
    let slow = postgres(&proxy.config(&config), 500).await;
    slow.handled
        .show("the same with 5 ms to the database", "0.7", &mut table);
    let sqlite = sqlite(&directory.path().join("app.db"), 2000).await;
    sqlite
        .handled
        .show("handled a second, SQLite", "0.8", &mut table);
    near.accepted
        .show("accepted a second, PostgreSQL", "0.9", &mut table);
    sqlite
        .accepted
        .show("accepted a second, SQLite", "1.2", &mut table);
    let name = "handled a second, PostgreSQL that does not wait for its disk";
    memory.handled.show(name, "0.7", &mut table);
    let name = "accepted a second, PostgreSQL that does not wait for its disk";
    memory.accepted.show(name, "0.9", &mut table);

    let took = format!("{inbox:.1?} (plain SQL {plain:.1?})");
    table.row(
        "the same: p99 until the end of the handler, at 300 a second",
        &took,
        "≤ 3 ms",
    );

    let many = beside(&config, old).await;
    let megabytes = format!("{} MB", many.bytes / 1_000_000);
    let limit = format!("≤ {} MB", 600 * old / 1_000_000);
    let name = format!("the table with {old} deliveries of 440 bytes that were handled");
    table.row(&name, &megabytes, &limit);
    let beside = Pair {
        inbox: many.rate,
        plain: near.handled.inbox,
    };
    let name = format!("handled a second beside {old} old ones, against without them");
    beside.show(&name, "1", &mut table);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/README.md");
    table.write(path, "SVC_TEST_POSTGRES=1 cargo bench -p svc-webhook-inbox");
}

/// Results a second.
#[derive(Clone, Copy)]
struct Pair {
    inbox: f64,
    plain: f64,
}

impl Pair {
    fn show(self, name: &str, at_least: &str, table: &mut Table) {
        table.ratio(name, self.inbox, self.plain, at_least);
    }
}

struct Rates {
    accepted: Pair,
    handled: Pair,
}

fn rate(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}

fn delivery(id: usize) -> Delivery {
    let body = format!(
        r#"{{"event":"email.bounced","id":"{id}","data":"{:400}"}}"#,
        ""
    );
    let secret = Secret::new("whsec_1d0c").unwrap();
    let header = Signature::sign(Service::Email, &secret, &body).to_string();
    Verifier::email(secret).verify(header, body).unwrap()
}

fn pool(config: &Config, size: usize) -> Pool {
    Pool::builder(Manager::new(config.clone(), NoTls))
        .max_size(size)
        .build()
        .unwrap()
}

/// Runs `accept` for all deliveries, in many tasks.
async fn accept_all(deliveries: &[Delivery], accept: impl AsyncFn(Delivery)) -> Duration {
    let since = Instant::now();
    let next = AtomicUsize::new(0);
    let tasks = (0..WORKERS * SLOTS).map(async |_| {
        while let Some(delivery) = deliveries.get(next.fetch_add(1, Ordering::Relaxed)) {
            accept(delivery.clone()).await;
        }
    });
    join_all(tasks).await;
    since.elapsed()
}

/// As in production: a commit is durable when it returns.
async fn wait_for_disk(config: &Config) {
    let client = pool(config, 1).get().await.unwrap();
    let set = "ALTER SYSTEM SET fsync = on";
    client.batch_execute(set).await.unwrap();
    let reload = "SELECT pg_reload_conf()";
    client.batch_execute(reload).await.unwrap();
    while client
        .query_one("SHOW fsync", &[])
        .await
        .unwrap()
        .get::<_, &str>(0)
        == "off"
    {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// In turns, so that what else runs on the machine disturbs both. The first turn opens the connections,
/// and does not count.
async fn postgres(config: &Config, count: usize) -> Rates {
    const TURNS: usize = 5;

    let pools = [(); WORKERS].map(|()| pool(config, SLOTS + 2));
    let inbox = create(&pools).await;
    let mut accepted = Took::default();
    let mut handled = Took::default();
    for turn in 0..TURNS {
        let ids = turn * count..(turn + 1) * count;
        let deliveries = ids.map(delivery).collect::<Vec<_>>();
        let accepts = Took {
            inbox: accept_all(&deliveries, async |each| {
                _ = inbox.accept(&each).await.unwrap();
            })
            .await,
            plain: accept_all(&deliveries, async |each| {
                accept_plainly(&pools[0], each).await;
            })
            .await,
        };
        let handles = Took {
            plain: handle_all_plainly(&pools).await,
            inbox: handle_all(&pools).await,
        };
        if turn > 0 {
            accepted.add(&accepts);
            handled.add(&handles);
        }
    }

    let rates = |took: Took| Pair {
        inbox: rate((TURNS - 1) * count, took.inbox),
        plain: rate((TURNS - 1) * count, took.plain),
    };

    Rates {
        accepted: rates(accepted),
        handled: rates(handled),
    }
}

#[derive(Default)]
struct Took {
    inbox: Duration,
    plain: Duration,
}

impl Took {
    fn add(&mut self, other: &Self) {
        self.inbox += other.inbox;
        self.plain += other.plain;
    }
}

async fn handle_all_plainly(pools: &[Pool; WORKERS]) -> Duration {
    let since = Instant::now();
    let tasks = (0..WORKERS * SLOTS).map(|slot| {
        let pool = pools[slot % WORKERS].clone();
        tokio::spawn(async move { while handle_plainly(&pool).await.is_some() {} })
    });
    join_all(tasks).await;
    since.elapsed()
}

/// The tables of the inbox, and those of an application without it.
async fn create(pools: &[Pool; WORKERS]) -> Inbox<Pool> {
    let tables = "DROP TABLE IF EXISTS webhook_inbox, webhook_inbox_workers, webhook_inbox_paused, \
         webhook_inbox_schema, webhook_inbox_expanded, handled, plain; \
         CREATE TABLE handled (key text NOT NULL); \
         CREATE TABLE plain (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key text NOT NULL UNIQUE, \
         event text NOT NULL, body bytea NOT NULL, status text NOT NULL DEFAULT 'pending', \
         due_at timestamptz NOT NULL DEFAULT now()); \
         CREATE INDEX ON plain (due_at, id) WHERE status = 'pending'";
    let client = pools[0].get().await.unwrap();
    client.batch_execute(tables).await.unwrap();
    let inbox = Inbox::new(pools[0].clone());
    inbox.migrate().await.unwrap();
    inbox
}

/// Handles what waits, with a worker of each inbox.
async fn handle_all(pools: &[Pool; WORKERS]) -> Duration {
    // An inbox that was stopped does not start again.
    let inboxes = pools.clone().map(Inbox::new);
    let since = Instant::now();
    let workers = inboxes.each_ref().map(|inbox| {
        let handle = async |tx: &Transaction<'_>, job: &Job| {
            let key = job.delivery().key();
            tx.query_typed("INSERT INTO handled VALUES ($1)", &[(&key, Type::TEXT)])
                .await?;
            Ok(())
        };
        tokio::spawn(inbox.worker().concurrency(SLOTS).run(handle))
    });
    inboxes[0].until_idle().await.unwrap();
    let took = since.elapsed();
    for (inbox, worker) in inboxes.iter().zip(workers) {
        inbox.stop(Duration::from_secs(10)).await;
        worker.await.unwrap().unwrap();
    }

    took
}

/// What an application writes that has no inbox.
async fn accept_plainly(pool: &Pool, delivery: Delivery) {
    let client = pool.get().await.unwrap();
    let key = delivery.key();
    let event = delivery.event().as_str();
    let body: &[u8] = delivery.body();
    let parameters: &[(&(dyn ToSql + Sync), Type)] = &[
        (&key, Type::TEXT),
        (&event, Type::TEXT),
        (&body, Type::BYTEA),
    ];
    let insert = "INSERT INTO plain (key, event, body) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
    client.query_typed(insert, parameters).await.unwrap();
}

/// The same. Returns the key of the delivery, if there was one.
async fn handle_plainly(pool: &Pool) -> Option<String> {
    let mut client = pool.get().await.unwrap();
    let claim = "UPDATE plain SET due_at = now() + interval '30 s' WHERE id = (SELECT id FROM plain \
         WHERE status = 'pending' AND due_at <= now() ORDER BY due_at, id LIMIT 1 \
         FOR UPDATE SKIP LOCKED) RETURNING id, key, body";
    let rows = client.query_typed(claim, &[]).await.unwrap();
    let row = rows.first()?;
    let (id, key): (i64, String) = (row.get(0), row.get(1));
    let tx = client.transaction().await.unwrap();
    let insert = "INSERT INTO handled VALUES ($1)";
    tx.query_typed(insert, &[(&key, Type::TEXT)]).await.unwrap();
    let done = "UPDATE plain SET status = 'done', body = '' WHERE id = $1";
    tx.query_typed(done, &[(&id, Type::INT8)]).await.unwrap();
    tx.commit().await.unwrap();
    Some(key)
}

/// When deliveries were accepted, and how long it took until their handlers ended.
#[derive(Default)]
struct Times {
    accepted: Mutex<HashMap<String, Instant>>,
    took: Mutex<Vec<Duration>>,
}

impl Times {
    async fn accept(&self, count: usize, accept: impl AsyncFn(Delivery)) {
        let mut turns = tokio::time::interval(Duration::from_secs(1) / 300);
        for id in 0..count {
            turns.tick().await;
            let delivery = delivery(id);
            let key = delivery.key().to_owned();
            self.accepted.lock().unwrap().insert(key, Instant::now());
            accept(delivery).await;
        }
    }

    fn handled(&self, key: &str) {
        let since = self.accepted.lock().unwrap()[key];
        self.took.lock().unwrap().push(since.elapsed());
    }

    async fn p99(&self, count: usize) -> Duration {
        while self.took.lock().unwrap().len() < count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let mut took = self.took.lock().unwrap();
        took.sort_unstable();
        took[count * 99 / 100]
    }
}

/// 300 deliveries a second: with the inbox, and without it.
async fn latency(config: &Config, count: usize) -> [Duration; 2] {
    let pools = [(); WORKERS].map(|()| pool(config, SLOTS + 2));
    let inbox = create(&pools).await;
    let times = Arc::new(Times::default());
    let seen = times.clone();
    let handle = async move |tx: &Transaction<'_>, job: &Job| {
        let key = job.delivery().key();
        tx.query_typed("INSERT INTO handled VALUES ($1)", &[(&key, Type::TEXT)])
            .await?;
        seen.handled(key);
        Ok(())
    };

    let worker = tokio::spawn(inbox.worker().concurrency(SLOTS).run(handle));
    let accept = async |each: Delivery| _ = inbox.accept(&each).await.unwrap();
    times.accept(count, accept).await;
    let of_inbox = times.p99(count).await;
    inbox.stop(Duration::from_secs(10)).await;
    worker.await.unwrap().unwrap();

    let times = Arc::new(Times::default());
    let wake = Arc::new(Notify::new());
    for _ in 0..SLOTS {
        let pool = pools[1].clone();
        let times = times.clone();
        let wake = wake.clone();
        tokio::spawn(async move {
            loop {
                wake.notified().await;
                while let Some(key) = handle_plainly(&pool).await {
                    times.handled(&key);
                }
            }
        });
    }

    let accept = async |each: Delivery| {
        accept_plainly(&pools[0], each).await;
        wake.notify_one();
    };

    times.accept(count, accept).await;
    [of_inbox, times.p99(count).await]
}

struct Beside {
    bytes: usize,
    rate: f64,
}

/// The size of the table with so many deliveries that were handled, and how quick others are beside them.
async fn beside(config: &Config, old: usize) -> Beside {
    const NEW: usize = 8000;

    let pools = [(); WORKERS].map(|()| pool(config, SLOTS + 2));
    let inbox = create(&pools).await;
    let client = pools[0].get().await.unwrap();
    // In parts, as they arrive: the space of what was handled is used again.
    let part = old.div_ceil(20);
    let insert = format!(
        "INSERT INTO webhook_inbox (key, service, event, body, received_at) \
         SELECT 'email:email.bounced:' || gen_random_uuid(), 'email', 'email.bounced', \
         convert_to(repeat('x', 440), 'UTF8'), 1795000000000 FROM generate_series(1, {part})"
    );
    let handle = "UPDATE webhook_inbox SET status = 'done', body = '', ended_at = 1795000000000 + id \
                  WHERE status = 'pending'";
    for _ in 0..20 {
        for statement in [&insert, handle, "VACUUM ANALYZE webhook_inbox"] {
            client.batch_execute(statement).await.unwrap();
        }
    }

    let size = "SELECT pg_total_relation_size('webhook_inbox')";
    let bytes: i64 = client.query_one(size, &[]).await.unwrap().get(0);
    drop(client);

    let deliveries = (0..NEW).map(delivery).collect::<Vec<_>>();
    accept_all(&deliveries, async |each| {
        _ = inbox.accept(&each).await.unwrap();
    })
    .await;
    let rate = rate(NEW, handle_all(&pools).await);
    let bytes = bytes as usize;
    Beside { bytes, rate }
}

async fn sqlite(path: &std::path::Path, count: usize) -> Rates {
    let inbox = Inbox::sqlite(path).unwrap();
    inbox.migrate().await.unwrap();
    let mut connection = rusqlite::Connection::open(path).unwrap();
    let tables = "PRAGMA synchronous = full; CREATE TABLE handled (key TEXT NOT NULL); \
         CREATE TABLE plain (id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, \
         event TEXT NOT NULL, body BLOB NOT NULL, status TEXT NOT NULL DEFAULT 'pending', \
         due_at INTEGER NOT NULL DEFAULT 0); \
         CREATE INDEX due ON plain (due_at, id) WHERE status = 'pending'";
    connection.execute_batch(tables).unwrap();
    let deliveries = (0..count).map(delivery).collect::<Vec<_>>();

    let accepted = accept_all(&deliveries, async |each| {
        _ = inbox.accept(&each).await.unwrap();
    })
    .await;
    let since = Instant::now();
    for delivery in &deliveries {
        let insert =
            "INSERT INTO plain (key, event, body) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
        let body: &[u8] = delivery.body();
        let values = (delivery.key(), delivery.event().as_str(), body);
        connection.execute(insert, values).unwrap();
    }

    let accepted = Pair {
        inbox: rate(count, accepted),
        plain: rate(count, since.elapsed()),
    };

    let since = Instant::now();
    for _ in 0..count {
        let claim = "UPDATE plain SET due_at = 30 + unixepoch() WHERE id = (SELECT id FROM plain \
             WHERE status = 'pending' AND due_at <= unixepoch() ORDER BY due_at, id LIMIT 1) RETURNING id, key";
        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let (id, key): (i64, String) = connection.query_row(claim, [], read).unwrap();
        let tx = connection.transaction().unwrap();
        tx.execute("INSERT INTO handled VALUES (?1)", [key])
            .unwrap();
        let done = "UPDATE plain SET status = 'done', body = x'' WHERE id = ?1";
        tx.execute(done, [id]).unwrap();
        tx.commit().unwrap();
    }

    let plain = rate(count, since.elapsed());
    let since = Instant::now();
    let worker = tokio::spawn(inbox.worker().run(|tx, job| {
        tx.execute("INSERT INTO handled VALUES (?1)", [job.delivery().key()])?;
        Ok(())
    }));
    inbox.until_idle().await.unwrap();
    let handled = Pair {
        inbox: rate(count, since.elapsed()),
        plain,
    };
    inbox.stop(Duration::from_secs(10)).await;
    worker.await.unwrap().unwrap();
    Rates { accepted, handled }
}
