//! SQLite, and PostgreSQL with tokio-postgres.

use rusqlite::Connection;
use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};
use webhook_inbox::deadpool_postgres::{Manager, Pool, Transaction};
use webhook_inbox::{Inbox, Job, Sqlite, Worker};

use crate::server::Server;
use crate::support::{Behavior, Bench, PATIENCE, Prepare, Running};

pub(crate) struct SqliteBench {
    directory: TempDir,
}

impl SqliteBench {
    pub(crate) fn path(&self) -> String {
        self.directory.path().join("app.db").display().to_string()
    }

    pub(crate) fn connection(&self) -> Connection {
        let connection = Connection::open(self.path()).unwrap();
        connection.busy_timeout(PATIENCE).unwrap();
        connection
    }
}

impl Bench for SqliteBench {
    type Database = Sqlite;

    const ENDLESS: &str =
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
    const FATAL: &str = "INSERT OR ROLLBACK INTO once VALUES (1)";
    const SCHEMA_1: &str = include_str!("schema_1.sqlite.sql");

    fn bytes(text: &str) -> String {
        format!("CAST('{text}' AS BLOB)")
    }

    async fn start() -> Option<Self> {
        let bench = Self {
            directory: tempfile::tempdir().unwrap(),
        };
        bench.inbox().migrate().await.unwrap();
        bench
            .execute("CREATE TABLE handled (key TEXT NOT NULL)")
            .await;
        Some(bench)
    }

    fn inbox(&self) -> Inbox<Sqlite> {
        Inbox::sqlite(self.path()).unwrap()
    }

    fn run(worker: Worker<Sqlite>, then: Behavior) -> Running {
        tokio::spawn(worker.run(move |tx, job| {
            tx.execute("INSERT INTO handled VALUES (?1)", [job.delivery().key()])?;
            then(job)
        }))
    }

    fn run_prepared(worker: Worker<Sqlite>, prepare: Prepare) -> Running {
        tokio::spawn(worker.run_prepared(
            async move |job| prepare(job).await,
            |tx, _, prepared| {
                tx.execute("INSERT INTO handled VALUES (?1)", [prepared])?;
                Ok(())
            },
        ))
    }

    fn run_statement(worker: Worker<Sqlite>, statement: &'static str) -> Running {
        tokio::spawn(worker.run(move |tx, job| {
            tx.execute("INSERT INTO handled VALUES (?1)", [job.delivery().key()])?;
            let _ = tx.query_row(statement, [], |_| Ok(()));
            Ok(())
        }))
    }

    async fn handled(&self) -> Vec<String> {
        let connection = self.connection();
        let mut keys = connection
            .prepare("SELECT key FROM handled ORDER BY key")
            .unwrap();
        keys.query_map([], |row| row.get(0))
            .unwrap()
            .map(Result::unwrap)
            .collect()
    }

    async fn execute(&self, statements: &str) {
        self.connection().execute_batch(statements).unwrap();
    }

    async fn count(&self, query: &str) -> i64 {
        self.connection()
            .query_row(query, [], |row| row.get(0))
            .unwrap()
    }
}

pub(crate) struct PostgresBench {
    config: tokio_postgres::Config,
    client: Client,
}

impl PostgresBench {
    /// A bench in an empty database.
    pub(crate) async fn on(config: tokio_postgres::Config) -> Self {
        let bench = Self {
            client: connect(&config).await,
            config,
        };
        bench.inbox().migrate().await.unwrap();
        bench
            .execute("CREATE TABLE handled (key text NOT NULL)")
            .await;
        bench
    }

    /// The same database, after its connection was lost.
    pub(crate) async fn reconnected(&self) -> Self {
        Self {
            client: connect(&self.config).await,
            config: self.config.clone(),
        }
    }

    pub(crate) fn pool(&self, connections: usize) -> Pool {
        pool(self.config.clone(), connections)
    }

    pub(crate) async fn connect(&self) -> Client {
        connect(&self.config).await
    }

    pub(crate) fn name(&self) -> &str {
        self.config.get_dbname().unwrap()
    }

    pub(crate) fn config(&self) -> &tokio_postgres::Config {
        &self.config
    }

    /// The settings as text, for another process.
    pub(crate) fn settings(&self) -> String {
        let [tokio_postgres::config::Host::Unix(path)] = self.config.get_hosts() else {
            panic!("one Unix socket")
        };
        let database = self.config.get_dbname().unwrap();
        format!("host={} user=svc dbname={database}", path.display())
    }
}

pub(crate) fn pool(config: tokio_postgres::Config, connections: usize) -> Pool {
    Pool::builder(Manager::new(config, NoTls))
        .max_size(connections)
        .build()
        .unwrap()
}

impl Bench for PostgresBench {
    type Database = Pool;

    const ENDLESS: &str = "SELECT pg_sleep(3600)";
    const FATAL: &str = "INSERT INTO once VALUES (1)";
    const SCHEMA_1: &str = include_str!("schema_1.postgres.sql");

    fn bytes(text: &str) -> String {
        format!("convert_to('{text}', 'UTF8')")
    }

    async fn start() -> Option<Self> {
        let server = Server::shared().await.expect("SVC_TEST_POSTGRES=1");
        Some(Self::on(server.database().await).await)
    }

    fn inbox(&self) -> Inbox<Pool> {
        Inbox::new(self.pool(10))
    }

    fn run(worker: Worker<Pool>, then: Behavior) -> Running {
        // Inside of a block, as an application does that awaits something else before or after.
        tokio::spawn(async move {
            let handler = async move |tx: &Transaction<'_>, job: &Job| {
                tx.execute("INSERT INTO handled VALUES ($1)", &[&job.delivery().key()])
                    .await?;
                then(job)
            };
            worker.run(handler).await
        })
    }

    fn run_prepared(worker: Worker<Pool>, prepare: Prepare) -> Running {
        tokio::spawn(async move {
            let prepare = async move |job| prepare(job).await;
            worker
                .run_prepared(prepare, async |tx, _, prepared| {
                    tx.execute("INSERT INTO handled VALUES ($1)", &[&prepared])
                        .await?;
                    Ok(())
                })
                .await
        })
    }

    fn run_statement(worker: Worker<Pool>, statement: &'static str) -> Running {
        tokio::spawn(worker.run(async move |tx, job| {
            tx.execute("INSERT INTO handled VALUES ($1)", &[&job.delivery().key()])
                .await?;
            let _ = tx.execute(statement, &[]).await;
            Ok(())
        }))
    }

    async fn handled(&self) -> Vec<String> {
        let rows = self
            .client
            .query("SELECT key FROM handled", &[])
            .await
            .unwrap();
        let mut keys: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        keys.sort();
        keys
    }

    async fn execute(&self, statements: &str) {
        self.client.batch_execute(statements).await.unwrap();
    }

    async fn count(&self, query: &str) -> i64 {
        self.client.query_one(query, &[]).await.unwrap().get(0)
    }
}

async fn connect(config: &tokio_postgres::Config) -> Client {
    let (client, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Runs a scenario with each database, as two tests.
macro_rules! with_each_database {
    ($($(#[$attribute:meta])* async fn $name:ident($bench:ident: $type:ident) $body:block)+) => {
        mod scenario {
            use super::*;
            $(pub(super) async fn $name<$type: $crate::support::Bench>($bench: $type) $body)+
        }
        mod sqlite {
            use $crate::databases::SqliteBench;
            use $crate::support::Bench as _;
            $($(#[$attribute])* #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::scenario::$name(SqliteBench::start().await.unwrap()).await;
            })+
        }
        mod postgres {
            use $crate::databases::PostgresBench;
            use $crate::support::Bench as _;
            $($(#[$attribute])* #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            #[ignore = "needs PostgreSQL: SVC_TEST_POSTGRES=1 and --include-ignored"]
            async fn $name() {
                super::scenario::$name(PostgresBench::start().await.unwrap()).await;
            })+
        }
    };
}
pub(crate) use with_each_database;
