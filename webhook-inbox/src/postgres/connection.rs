//! The connections of an inbox in PostgreSQL.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{AsyncMessage, Client, Config, Socket};

use crate::inbox::Signals;
use crate::{Error, ErrorKind};

/// How long an operation of the inbox may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How many deliveries are accepted at the same time. More would wait for the disk.
const MAX_ACCEPTING: usize = 8;

type Connecting = Pin<Box<dyn Future<Output = Result<Client, tokio_postgres::Error>> + Send>>;

/// Opens connections, and opens them again after they were lost.
pub(super) struct Connections {
    connect: Box<dyn Fn() -> Connecting + Send + Sync>,
    /// Claims deliveries, renews leases, and listens for notifications. Operations share it: the
    /// protocol sends them one after the other, without waiting for responses.
    control: tokio::sync::Mutex<Option<Arc<Client>>>,
    /// Connections for accepting deliveries and for the transactions of handlers.
    idle: Mutex<Vec<Client>>,
    /// Limits the connections for accepting deliveries.
    accepting: Semaphore,
}

impl Connections {
    pub(super) fn new<T>(config: Config, tls: T, signals: Arc<Signals>) -> Self
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::TlsConnect: Send,
        T::Stream: Send,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        let connect = move || -> Connecting {
            let (config, tls, signals) = (config.clone(), tls.clone(), signals.clone());
            Box::pin(async move {
                let (client, mut connection) = config.connect(tls).await?;
                tokio::spawn(async move {
                    while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
                        match message {
                            Ok(AsyncMessage::Notification(_)) => signals.wake.notify_one(),
                            Ok(_) => {}
                            // The client reports it.
                            Err(_) => break,
                        }
                    }
                    // The next look at the table connects, and listens, again.
                    signals.wake.notify_one();
                });
                Ok(client)
            })
        };
        Self {
            connect: Box::new(connect),
            control: tokio::sync::Mutex::default(),
            idle: Mutex::default(),
            accepting: Semaphore::new(MAX_ACCEPTING),
        }
    }

    /// Runs an operation on the shared connection. Without a result in time, the connection is
    /// given up.
    pub(super) async fn control<T>(
        &self,
        operation: impl AsyncFnOnce(&Client) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, Error> {
        let client = within(TIMEOUT, self.shared()).await?;
        let result = within(TIMEOUT, operation(&client)).await;
        if result.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unavailable) {
            let mut current = self.control.lock().await;
            if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, &client)) {
                *current = None;
            }
        }
        result
    }

    async fn shared(&self) -> Result<Arc<Client>, tokio_postgres::Error> {
        let mut current = self.control.lock().await;
        if let Some(client) = &*current
            && !client.is_closed()
        {
            return Ok(client.clone());
        }
        let client = Arc::new((self.connect)().await?);
        client.batch_execute("LISTEN webhook_inbox").await?;
        *current = Some(client.clone());
        Ok(client)
    }

    /// Runs an operation that accepts a delivery, on a connection of its own: it may wait for
    /// a transaction of the application.
    pub(super) async fn accept<T>(
        &self,
        operation: impl AsyncFnOnce(&Client) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, Error> {
        let accept = async {
            // Fails only if the semaphore is closed, and nothing closes it.
            let _permit = self.accepting.acquire().await;
            let client = self.take().await?;
            let value = operation(&client).await.map_err(error)?;
            self.put_back(client);
            Ok(value)
        };
        match timeout(TIMEOUT, accept).await {
            Ok(result) => result,
            Err(elapsed) => Err(Error::new(ErrorKind::Unavailable, elapsed)),
        }
    }

    /// A connection that nothing else uses. Give it back with [`put_back`](Self::put_back).
    pub(super) async fn take(&self) -> Result<Client, Error> {
        // In a statement of its own, so that the lock is not held while connecting.
        let idle = self.idle().pop();
        match idle {
            Some(client) if !client.is_closed() => Ok(client),
            _ => within(TIMEOUT, (self.connect)()).await,
        }
    }

    pub(super) fn put_back(&self, client: Client) {
        if !client.is_closed() {
            self.idle().push(client);
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Client>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Limits the duration of an operation.
pub(super) async fn within<T>(
    limit: Duration,
    operation: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, Error> {
    match timeout(limit, operation).await {
        Ok(result) => result.map_err(error),
        Err(elapsed) => Err(Error::new(ErrorKind::Unavailable, elapsed)),
    }
}

pub(super) fn error(error: tokio_postgres::Error) -> Error {
    let kind = match error.code() {
        Some(&SqlState::UNDEFINED_TABLE) => ErrorKind::NotMigrated,
        // Connection, transaction rollback, resources, object in use, shutdown.
        Some(code) if ["08", "40", "53", "55", "57"].iter().any(|c| code.code().starts_with(c)) => {
            ErrorKind::Unavailable
        }
        Some(_) => ErrorKind::Database,
        None => ErrorKind::Unavailable,
    };
    Error::new(kind, error)
}
