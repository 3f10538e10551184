//! Deliveries, and the databases behind one interface.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use webhook_inbox::{BoxError, Database, Error, Inbox, Job, Worker};
use webhook_verify::{Delivery, Secret, Service, Signature, Verifier};

pub(crate) const SECRET: &str = "whsec_1d0c";

/// How long a test waits for something that happens in a few milliseconds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A lease that ends soon. A busy machine may not renew it in time, so only tests of leases use it.
pub(crate) const SHORT_LEASE: Duration = Duration::from_millis(300);

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

/// What runs before the transaction. Its result is written to the table `handled`.
pub(crate) type Prepare = Box<dyn Fn(Job) -> Prepared + Send + Sync>;
pub(crate) type Prepared = Pin<Box<dyn Future<Output = Result<String, BoxError>> + Send>>;

pub(crate) type Running = JoinHandle<Result<(), Error>>;

/// A database with the inbox's table, and the table `handled (key)` of an application.
pub(crate) trait Bench: Sized + Send + 'static {
    type Database: Database;

    /// A statement that never ends.
    const ENDLESS: &str;
    /// A statement whose error ends the transaction, or lets it fail, if the row 1 is in the
    /// table `once (id)`.
    const FATAL: &str;

    /// The statements that created the tables of version 1.
    const SCHEMA_1: &str;

    /// A literal of bytes.
    fn bytes(text: &str) -> String;

    /// `None` if the database is not installed.
    async fn start() -> Option<Self>;

    /// An inbox with connections of its own, as in a process of its own.
    fn inbox(&self) -> Inbox<Self::Database>;

    fn run(worker: Worker<Self::Database>, then: Behavior) -> Running;

    fn run_prepared(worker: Worker<Self::Database>, prepare: Prepare) -> Running;

    /// The handler writes the key, executes a statement, and ignores its error.
    fn run_statement(worker: Worker<Self::Database>, statement: &'static str) -> Running;

    /// The keys in `handled`, sorted.
    async fn handled(&self) -> Vec<String>;

    /// Runs statements that are the same in all databases.
    async fn execute(&self, statements: &str);

    /// The first value that a query returns.
    async fn count(&self, query: &str) -> i64;

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

/// Settings with which tests need not wait.
pub(crate) fn quick<D: Database>(inbox: &Inbox<D>) -> Worker<D> {
    let millis = Duration::from_millis;
    inbox
        .worker()
        .poll_interval(millis(50))
        .backoff(millis(2), millis(10))
}

pub(crate) fn always_ok() -> Behavior {
    Arc::new(|_| Ok(()))
}

/// Stops a worker whose handlers end.
pub(crate) async fn stop<D: Database>(inbox: &Inbox<D>, worker: Running) {
    assert!(inbox.stop(PATIENCE).await, "handlers did not end");
    worker.await.unwrap().unwrap();
}

/// The dead letters, when there are `count`.
pub(crate) async fn dead_letters<D: Database>(
    inbox: &Inbox<D>,
    count: usize,
) -> Vec<webhook_inbox::DeadLetter> {
    eventually("there are dead letters", async || {
        let letters = inbox.dead_letters(0, 99).await.unwrap();
        (letters.len() >= count).then_some(letters)
    })
    .await
}
