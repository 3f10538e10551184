//! Deliveries accepted and handled in a second, by the inbox and by plain SQL with the same
//! durability, in one run: `SVC_TEST_POSTGRES=1 cargo bench -p svc-webhook-inbox`.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and panics when it fails"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use deadpool_postgres::{Manager, Pool, Transaction};
use futures_util::future::join_all;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Config, NoTls};
use webhook_inbox::{Database, Inbox, Job};
use webhook_verify::{Delivery, Secret, Service, Signature, Verifier};

#[expect(dead_code, reason = "tests use the rest")]
#[path = "../tests/it/server.rs"]
mod server;

const WORKERS: usize = 4;
const SLOTS: usize = 8;

#[tokio::main]
async fn main() {
    sqlite().await;
    let Some(server) = server::Server::shared().await else {
        return;
    };
    let config = server.database().await;
    println!("PostgreSQL, {WORKERS} workers of {SLOTS}");
    postgres(&config, 8000).await;
    println!("PostgreSQL, {WORKERS} workers of {SLOTS}, 5 ms for each round trip");
    let directory = tempfile::tempdir().unwrap();
    let slow = slowed(&config, directory.path());
    postgres(&slow, 2000).await;
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

fn report(what: &str, count: usize, inbox: Duration, plain: Duration) {
    let rate = |took: Duration| count as f64 / took.as_secs_f64();
    let (inbox, plain) = (rate(inbox), rate(plain));
    println!(
        "  {what:9} inbox {inbox:8.0}/s  plain {plain:8.0}/s  {:.2}",
        inbox / plain
    );
}

async fn accept_all<D: Database>(inbox: &Inbox<D>, deliveries: &Arc<Vec<Delivery>>) {
    let next = Arc::new(AtomicUsize::new(0));
    let tasks = (0..WORKERS * SLOTS).map(|_| {
        let (inbox, deliveries, next) = (inbox.clone(), deliveries.clone(), next.clone());
        tokio::spawn(async move {
            while let Some(delivery) = deliveries.get(next.fetch_add(1, Ordering::Relaxed)) {
                inbox.accept(delivery).await.unwrap();
            }
        })
    });
    join_all(tasks).await;
}

fn pool(config: &Config, size: usize) -> Pool {
    Pool::builder(Manager::new(config.clone(), NoTls))
        .max_size(size)
        .build()
        .unwrap()
}

async fn postgres(config: &Config, count: usize) {
    let pools = [(); WORKERS].map(|()| pool(config, SLOTS + 2));
    let tables = "DROP TABLE IF EXISTS webhook_inbox, webhook_inbox_workers, webhook_inbox_paused, \
         webhook_inbox_schema, webhook_inbox_expanded, handled, plain; \
         CREATE TABLE handled (key text NOT NULL); \
         CREATE TABLE plain (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key text NOT NULL UNIQUE, \
         event text NOT NULL, body bytea NOT NULL, status text NOT NULL DEFAULT 'pending', \
         due_at timestamptz NOT NULL DEFAULT now()); \
         CREATE INDEX ON plain (due_at, id) WHERE status = 'pending'";
    pools[0]
        .get()
        .await
        .unwrap()
        .batch_execute(tables)
        .await
        .unwrap();
    let inboxes = pools.clone().map(Inbox::new);
    inboxes[0].migrate().await.unwrap();
    let deliveries = Arc::new((0..count).map(delivery).collect::<Vec<_>>());

    let since = Instant::now();
    accept_all(&inboxes[0], &deliveries).await;
    let accepted = since.elapsed();
    let since = Instant::now();
    let next = Arc::new(AtomicUsize::new(0));
    let tasks = (0..WORKERS * SLOTS).map(|_| {
        let (pool, deliveries, next) = (pools[0].clone(), deliveries.clone(), next.clone());
        tokio::spawn(async move {
            while let Some(delivery) = deliveries.get(next.fetch_add(1, Ordering::Relaxed)) {
                let client = pool.get().await.unwrap();
                let (key, event) = (delivery.key(), delivery.event().as_str());
                let body: &[u8] = delivery.body();
                let parameters: &[(&(dyn ToSql + Sync), Type)] = &[
                    (&key, Type::TEXT),
                    (&event, Type::TEXT),
                    (&body, Type::BYTEA),
                ];
                let insert = "INSERT INTO plain (key, event, body) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
                client.query_typed(insert, parameters).await.unwrap();
            }
        })
    });
    join_all(tasks).await;
    report("accepted", count, accepted, since.elapsed());

    let since = Instant::now();
    let tasks = (0..WORKERS * SLOTS).map(|slot| {
        let pool = pools[slot % WORKERS].clone();
        tokio::spawn(async move { while handle_plainly(&pool).await {} })
    });
    join_all(tasks).await;
    let plain = since.elapsed();
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
    report("handled", count, since.elapsed(), plain);
    for (inbox, worker) in inboxes.iter().zip(workers) {
        inbox.stop(Duration::from_secs(10)).await;
        worker.await.unwrap().unwrap();
    }
}

/// What an application writes that has no inbox. Returns whether there was a delivery.
async fn handle_plainly(pool: &Pool) -> bool {
    let mut client = pool.get().await.unwrap();
    let claim = "UPDATE plain SET due_at = now() + interval '30 s' WHERE id = (SELECT id FROM plain \
         WHERE status = 'pending' AND due_at <= now() ORDER BY due_at, id LIMIT 1 \
         FOR UPDATE SKIP LOCKED) RETURNING id, key, body";
    let rows = client.query_typed(claim, &[]).await.unwrap();
    let Some(row) = rows.first() else {
        return false;
    };
    let (id, key): (i64, String) = (row.get(0), row.get(1));
    let tx = client.transaction().await.unwrap();
    let insert = "INSERT INTO handled VALUES ($1)";
    tx.query_typed(insert, &[(&key, Type::TEXT)]).await.unwrap();
    let done = "UPDATE plain SET status = 'done', body = '' WHERE id = $1";
    tx.query_typed(done, &[(&id, Type::INT8)]).await.unwrap();
    tx.commit().await.unwrap();
    true
}

/// The same database behind a proxy that holds back what it passes on.
fn slowed(config: &Config, directory: &std::path::Path) -> Config {
    let [tokio_postgres::config::Host::Unix(server)] = config.get_hosts() else {
        panic!("one Unix socket")
    };
    let server = server.join(".s.PGSQL.5432");
    let listener = UnixListener::bind(directory.join(".s.PGSQL.5432")).unwrap();
    tokio::spawn(async move {
        loop {
            let (client, _) = listener.accept().await.unwrap();
            let server = UnixStream::connect(&server).await.unwrap();
            let (client_read, client_write) = client.into_split();
            let (server_read, server_write) = server.into_split();
            tokio::spawn(pass_on(client_read, server_write));
            tokio::spawn(pass_on(server_read, client_write));
        }
    });
    let mut slow = Config::new();
    slow.host_path(directory).user("svc");
    slow.dbname(config.get_dbname().unwrap());
    slow
}

async fn pass_on(
    mut from: tokio::net::unix::OwnedReadHalf,
    mut to: tokio::net::unix::OwnedWriteHalf,
) {
    let (sender, mut held) =
        tokio::sync::mpsc::unbounded_channel::<(tokio::time::Instant, Vec<u8>)>();
    tokio::spawn(async move {
        while let Some((at, bytes)) = held.recv().await {
            tokio::time::sleep_until(at).await;
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
    });
    let mut buffer = vec![0; 1 << 16];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let at = tokio::time::Instant::now() + Duration::from_micros(2500);
        if sender.send((at, buffer[..read].to_vec())).is_err() {
            return;
        }
    }
}

async fn sqlite() {
    const COUNT: usize = 2000;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.db");
    let inbox = Inbox::sqlite(&path).unwrap();
    inbox.migrate().await.unwrap();
    let mut connection = rusqlite::Connection::open(&path).unwrap();
    let tables = "PRAGMA synchronous = full; CREATE TABLE handled (key TEXT NOT NULL); \
         CREATE TABLE plain (id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, \
         event TEXT NOT NULL, body BLOB NOT NULL, status TEXT NOT NULL DEFAULT 'pending', \
         due_at INTEGER NOT NULL DEFAULT 0); \
         CREATE INDEX due ON plain (due_at, id) WHERE status = 'pending'";
    connection.execute_batch(tables).unwrap();
    let deliveries = Arc::new((0..COUNT).map(delivery).collect::<Vec<_>>());

    println!("SQLite");
    let since = Instant::now();
    accept_all(&inbox, &deliveries).await;
    let accepted = since.elapsed();
    let since = Instant::now();
    for delivery in &*deliveries {
        let insert =
            "INSERT INTO plain (key, event, body) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
        let body: &[u8] = delivery.body();
        let values = (delivery.key(), delivery.event().as_str(), body);
        connection.execute(insert, values).unwrap();
    }
    report("accepted", COUNT, accepted, since.elapsed());

    let since = Instant::now();
    for _ in 0..COUNT {
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
    let plain = since.elapsed();
    let since = Instant::now();
    let worker = tokio::spawn(inbox.worker().run(|tx, job| {
        tx.execute("INSERT INTO handled VALUES (?1)", [job.delivery().key()])?;
        Ok(())
    }));
    inbox.until_idle().await.unwrap();
    report("handled", COUNT, since.elapsed(), plain);
    inbox.stop(Duration::from_secs(10)).await;
    worker.await.unwrap().unwrap();
}
