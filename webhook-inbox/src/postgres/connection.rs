//! The connections of an inbox in PostgreSQL.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{AsyncMessage, CancelToken, Client, Config, Socket};

use crate::inbox::Signals;
use crate::{Error, ErrorKind};

/// How long an operation of the inbox may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How many deliveries are accepted at the same time. More would wait for the disk.
const MAX_ACCEPTING: usize = 8;

/// Ends what a handler has left in a session. As `DISCARD ALL`, except that the statements stay
/// which the client has prepared for itself.
const RESET: &str = "CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; UNLISTEN *; \
                     SELECT pg_advisory_unlock_all(); DISCARD TEMP; DISCARD SEQUENCES";

type Connecting = Pin<Box<dyn Future<Output = Result<Client, tokio_postgres::Error>> + Send>>;
type Cancel = Arc<dyn Fn(CancelToken) -> Canceling + Send + Sync>;
type Canceling = Pin<Box<dyn Future<Output = Result<(), tokio_postgres::Error>> + Send>>;

/// Opens connections, and opens them again after they were lost.
pub(super) struct Connections {
    connect: Box<dyn Fn() -> Connecting + Send + Sync>,
    cancel: Cancel,
    /// Claims deliveries, renews leases, and listens for notifications. Operations share it: the
    /// protocol sends them one after the other, without waiting for responses.
    control: tokio::sync::Mutex<Option<Arc<Client>>>,
    /// Connections for accepting deliveries and for maintenance.
    pub(super) operations: Idle,
    /// Connections for the transactions of handlers, which may change the settings of their
    /// session.
    pub(super) handlers: Idle,
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
        let cancel = {
            let tls = tls.clone();
            move |token: CancelToken| -> Canceling {
                let tls = tls.clone();
                Box::pin(async move { token.cancel_query(tls).await })
            }
        };
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
            cancel: Arc::new(cancel),
            control: tokio::sync::Mutex::default(),
            operations: Idle::default(),
            handlers: Idle::default(),
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
            // It may wait for a lock. What is sent after it on this connection is given up, too.
            drop(self.cancel_on_drop(&client));
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
            self.on_own_connection(TIMEOUT, operation).await
        };
        match timeout(TIMEOUT, accept).await {
            Ok(result) => result,
            Err(elapsed) => {
                // What was idle may not work either, for example after the server was paused.
                self.operations.clear();
                Err(Error::new(ErrorKind::Unavailable, elapsed))
            }
        }
    }

    /// Runs an operation on a connection that nothing else uses.
    pub(super) async fn on_own_connection<T>(
        &self,
        limit: Duration,
        operation: impl AsyncFnOnce(&Client) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, Error> {
        let client = self.take(&self.operations).await?;
        let cancel = self.cancel_on_drop(&client);
        let value = within(limit, operation(&client)).await?;
        cancel.disarm();
        self.operations.put_back(client);
        Ok(value)
    }

    /// A connection that nothing else uses.
    pub(super) async fn take(&self, idle: &Idle) -> Result<Client, Error> {
        match idle.take() {
            Some(client) => Ok(client),
            None => within(TIMEOUT, (self.connect)()).await,
        }
    }

    /// Keeps the connection of a handler for another one, if it works and can be reset.
    pub(super) async fn put_back_reset(&self, client: Client) {
        let cancel = self.cancel_on_drop(&client);
        if within(TIMEOUT, client.batch_execute(RESET)).await.is_ok() {
            cancel.disarm();
            self.handlers.put_back(client);
        }
    }

    /// Closing a connection does not end the statement that the server executes, which may
    /// hold locks for as long as it runs.
    pub(super) fn cancel_on_drop(&self, client: &Client) -> CancelOnDrop {
        CancelOnDrop(Some((client.cancel_token(), self.cancel.clone())))
    }
}

/// Connections that are not in use.
#[derive(Default)]
pub(super) struct Idle(Mutex<Vec<Client>>);

impl Idle {
    fn take(&self) -> Option<Client> {
        let mut clients = self.lock();
        std::iter::from_fn(|| clients.pop()).find(|client| !client.is_closed())
    }

    pub(super) fn put_back(&self, client: Client) {
        if !client.is_closed() {
            self.lock().push(client);
        }
    }

    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Client>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks the server to cancel what a connection executes, unless it is disarmed.
pub(super) struct CancelOnDrop(Option<(CancelToken, Cancel)>);

impl CancelOnDrop {
    pub(super) fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        // Without a runtime, the program ends.
        if let Some((token, cancel)) = self.0.take()
            && let Ok(runtime) = Handle::try_current()
        {
            // It fails if the server cannot be reached, and then there is nothing else to do.
            runtime.spawn(timeout(TIMEOUT, cancel(token)));
        }
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

/// Whether the server was lost or shut down, or has no resources. Other errors at the end of a
/// transaction, such as a deadlock or a violated constraint, are the handler's.
pub(super) fn is_outage(error: &Error) -> bool {
    let error = std::error::Error::source(error);
    let error = error.and_then(|error| error.downcast_ref::<tokio_postgres::Error>());
    match error.and_then(tokio_postgres::Error::code) {
        Some(code) => ["08", "53", "57P"].iter().any(|class| code.code().starts_with(class)),
        // A time-out, or a connection that was closed.
        None => true,
    }
}
