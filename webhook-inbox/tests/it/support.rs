//! Deliveries, and the two databases behind one interface.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls};
use webhook_inbox::{BoxError, Database, Error, Inbox, Job, Postgres, Sqlite, Worker};
use webhook_verify::{Delivery, Secret, Service, Signature, Verifier};

use crate::postgres::Server;

pub(crate) const SECRET: &str = "whsec_1d0c";

/// How long a test waits for something that happens in a few milliseconds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn body(id: &str) -> String {
    format!(r#"{{"event":"email.bounced","id":"{id}","data":{{"to":"ada@example.test"}}}}"#)
}

pub(crate) fn delivery(id: &str) -> Delivery {
    verified(&body(id))
}

pub(crate) fn verified(body: &str) -> Delivery {
    let secret = Secret::new(SECRET).unwrap();
    let header = Signature::sign(Service::Email, &secret, body).to_string();
    let body = bytes::Bytes::copy_from_slice(body.as_bytes());
    Verifier::email(secret).verify(header, body).unwrap()
}

/// A handler's behavior, after it has written the delivery's key to the table `handled`.
pub(crate) type Behavior = Arc<dyn Fn(&Job) -> Result<(), BoxError> + Send + Sync>;

/// A database with the inbox's table, and the table `handled (key)` of an application.
pub(crate) trait Bench: Sized + Send + 'static {
    type Database: Database;

    /// Points in time as SQL.
    const IN_2100: &str;
    const IN_AN_HOUR: &str;

    /// `None` if the database is not installed.
    async fn start() -> Option<Self>;

    /// An inbox with connections of its own, as in a process of its own.
    fn inbox(&self) -> Inbox<Self::Database>;

    fn run(worker: Worker<Self::Database>, then: Behavior) -> JoinHandle<Result<(), Error>>;

    /// The keys in `handled`, sorted.
    async fn handled(&self) -> Vec<String>;

    /// Runs a statement that is the same in both databases.
    async fn execute(&self, statement: &str);

    /// Waits until `count` deliveries were handled.
    async fn wait_for(&self, count: usize) -> Vec<String> {
        eventually("deliveries are handled", async || {
            Some(self.handled().await).filter(|handled| handled.len() >= count)
        })
        .await
    }
}

/// Repeats `check` until it returns a value.
pub(crate) async fn eventually<T>(what: &str, check: impl AsyncFn() -> Option<T>) -> T {
    let wait = async {
        loop {
            if let Some(value) = check().await {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, wait).await;
    waited.unwrap_or_else(|_| panic!("waited {PATIENCE:?} until {what}"))
}

/// A lease that ends soon. A busy machine may not renew it in time, so only tests of leases use it.
pub(crate) const SHORT_LEASE: Duration = Duration::from_millis(300);

/// Settings with which tests need not wait.
pub(crate) fn quick<D: Database>(inbox: &Inbox<D>) -> Worker<D> {
    let millis = Duration::from_millis;
    inbox.worker().poll_interval(millis(50)).backoff(millis(2), millis(10))
}

pub(crate) fn always_ok() -> Behavior {
    Arc::new(|_| Ok(()))
}

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

    const IN_2100: &str = "4102444800000";
    const IN_AN_HOUR: &str = "due_at + 3600000";

    async fn start() -> Option<Self> {
        let bench = Self { directory: tempfile::tempdir().unwrap() };
        bench.inbox().migrate().await.unwrap();
        bench.execute("CREATE TABLE handled (key TEXT NOT NULL)").await;
        Some(bench)
    }

    fn inbox(&self) -> Inbox<Sqlite> {
        Inbox::sqlite(self.path()).unwrap()
    }

    fn run(worker: Worker<Sqlite>, then: Behavior) -> JoinHandle<Result<(), Error>> {
        tokio::spawn(worker.run(move |tx, job| {
            tx.execute("INSERT INTO handled VALUES (?1)", [job.delivery().key()])?;
            then(job)
        }))
    }

    async fn handled(&self) -> Vec<String> {
        let connection = self.connection();
        let mut keys = connection.prepare("SELECT key FROM handled ORDER BY key").unwrap();
        keys.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    async fn execute(&self, statement: &str) {
        self.connection().execute_batch(statement).unwrap();
    }
}

pub(crate) struct PostgresBench {
    config: tokio_postgres::Config,
    client: Client,
}

impl PostgresBench {
    /// A bench in an empty database.
    pub(crate) async fn on(config: tokio_postgres::Config) -> Self {
        let bench = Self { client: connect(&config).await, config };
        bench.inbox().migrate().await.unwrap();
        bench.execute("CREATE TABLE handled (key text NOT NULL)").await;
        bench
    }

    /// The same database, after its connection was lost.
    pub(crate) async fn reconnected(&self) -> Self {
        Self { client: connect(&self.config).await, config: self.config.clone() }
    }

    /// An inbox that uses a role of its own.
    pub(crate) fn inbox_as(&self, role: &str) -> Inbox<Postgres> {
        let mut config = self.config.clone();
        Inbox::postgres(config.user(role).clone(), NoTls)
    }

    /// The first value that a query returns.
    pub(crate) async fn count(&self, query: &str) -> i64 {
        self.client.query_one(query, &[]).await.unwrap().get(0)
    }

    pub(crate) async fn connect(&self) -> Client {
        connect(&self.config).await
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

impl Bench for PostgresBench {
    type Database = Postgres;

    const IN_2100: &str = "'2100-01-01'";
    const IN_AN_HOUR: &str = "now() + interval '1 hour'";

    async fn start() -> Option<Self> {
        Some(Self::on(Server::shared().await?.database().await).await)
    }

    fn inbox(&self) -> Inbox<Postgres> {
        Inbox::postgres(self.config.clone(), NoTls)
    }

    fn run(worker: Worker<Postgres>, then: Behavior) -> JoinHandle<Result<(), Error>> {
        tokio::spawn(worker.run(async move |tx, job| {
            let key = job.delivery().key();
            tx.execute("INSERT INTO handled VALUES ($1)", &[&key]).await?;
            then(job)
        }))
    }

    async fn handled(&self) -> Vec<String> {
        let rows = self.client.query("SELECT key FROM handled", &[]).await.unwrap();
        let mut keys: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        keys.sort();
        keys
    }

    async fn execute(&self, statement: &str) {
        self.client.batch_execute(statement).await.unwrap();
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
            use $crate::support::{Bench as _, SqliteBench};
            $($(#[$attribute])* #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::scenario::$name(SqliteBench::start().await.unwrap()).await;
            })+
        }
        mod postgres {
            use $crate::support::{Bench as _, PostgresBench};
            $($(#[$attribute])* #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                if let Some(bench) = PostgresBench::start().await {
                    super::scenario::$name(bench).await;
                }
            })+
        }
    };
}
pub(crate) use with_each_database;
