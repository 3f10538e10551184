//! PostgreSQL with sqlx.

use std::time::Duration;

use webhook_inbox::sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use webhook_inbox::sqlx::{self, PgPool, Row as _};
use webhook_inbox::{Inbox, Worker};

use crate::server::Server;
use crate::support::{Behavior, Bench, Prepare, Running};

pub(crate) struct SqlxBench {
    pub(crate) pool: PgPool,
    options: PgConnectOptions,
}

fn pool(options: PgConnectOptions) -> PgPool {
    let pool = PgPoolOptions::new()
        .max_connections(10)
        .acquire_timeout(Duration::from_secs(5));
    pool.connect_lazy_with(options)
}

impl Bench for SqlxBench {
    type Database = PgPool;

    const ENDLESS: &str = "SELECT pg_sleep(3600)";
    const FATAL: &str = "INSERT INTO once VALUES (1)";
    const SCHEMA_1: &str = include_str!("../../../tests/it/schema_1.postgres.sql");

    fn bytes(text: &str) -> String {
        format!("convert_to('{text}', 'UTF8')")
    }

    async fn start() -> Option<Self> {
        let config = Server::shared().await?.database().await;
        let [tokio_postgres::config::Host::Unix(directory)] = config.get_hosts() else {
            panic!("one Unix socket")
        };
        let options = PgConnectOptions::new_without_pgpass().socket(directory);
        let options = options
            .username("svc")
            .database(config.get_dbname().unwrap());
        let bench = Self {
            pool: pool(options.clone()),
            options,
        };
        bench.inbox().migrate().await.unwrap();
        bench
            .execute("CREATE TABLE handled (key text NOT NULL)")
            .await;
        Some(bench)
    }

    fn inbox(&self) -> Inbox<PgPool> {
        Inbox::new(pool(self.options.clone()))
    }

    fn run(worker: Worker<PgPool>, then: Behavior) -> Running {
        // Inside of a block, as an application does that awaits something else before or after.
        tokio::spawn(async move {
            worker
                .run(async move |tx, job| {
                    let insert = sqlx::query("INSERT INTO handled VALUES ($1)");
                    insert.bind(job.delivery().key()).execute(&mut **tx).await?;
                    then(job)
                })
                .await
        })
    }

    fn run_prepared(worker: Worker<PgPool>, prepare: Prepare) -> Running {
        tokio::spawn(worker.run_prepared(move |job| prepare(job), async |tx, _, prepared| {
            let insert = sqlx::query("INSERT INTO handled VALUES ($1)");
            insert.bind(prepared).execute(&mut **tx).await?;
            Ok(())
        }))
    }

    fn run_statement(worker: Worker<PgPool>, statement: &'static str) -> Running {
        tokio::spawn(worker.run(async move |tx, job| {
            let insert = sqlx::query("INSERT INTO handled VALUES ($1)");
            insert.bind(job.delivery().key()).execute(&mut **tx).await?;
            let _ = sqlx::query(statement).execute(&mut **tx).await;
            Ok(())
        }))
    }

    async fn handled(&self) -> Vec<String> {
        let rows = sqlx::query("SELECT key FROM handled")
            .fetch_all(&self.pool)
            .await
            .unwrap();
        let mut keys: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        keys.sort();
        keys
    }

    async fn execute(&self, statements: &str) {
        sqlx::raw_sql(sqlx::AssertSqlSafe(statements))
            .execute(&self.pool)
            .await
            .unwrap();
    }

    async fn count(&self, query: &str) -> i64 {
        let row = sqlx::query(sqlx::AssertSqlSafe(query))
            .fetch_one(&self.pool)
            .await
            .unwrap();
        row.get(0)
    }
}

/// Runs a scenario as a test.
macro_rules! with_each_database {
    ($($(#[$attribute:meta])* async fn $name:ident($bench:ident: $type:ident) $body:block)+) => {
        mod scenario {
            use super::*;
            $(pub(super) async fn $name<$type: $crate::support::Bench>($bench: $type) $body)+
        }
        mod sqlx {
            use $crate::databases::SqlxBench;
            use $crate::support::Bench as _;
            $($(#[$attribute])* #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                if let Some(bench) = SqlxBench::start().await {
                    super::scenario::$name(bench).await;
                }
            })+
        }
    };
}
pub(crate) use with_each_database;
