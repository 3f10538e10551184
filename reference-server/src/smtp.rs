//! The SMTP listener (`--smtp`): receives mail for verified domains. The sessions are our own, over
//! `smtp-proto`, which parses commands: no kept library has those of a receiving server.

mod certificate;
mod data;
mod session;

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::engine::activity::Activity;
use crate::mail::dns::Resolver;
use crate::model::clock::Clock;
use crate::model::limit::Limit;
use crate::model::stop::Stop;
use crate::store::Store;
use crate::store::webhooks::Webhooks;
pub(crate) use certificate::Certificate;
pub use certificate::InvalidCertificate;
use certificate::Tls;

/// Maximum number of connections. Further clients wait to be accepted.
const MAX_CONNECTIONS: usize = 100;
/// Memory for the messages in transfer, in KiB.
pub(crate) const TRANSFER_BUDGET: usize = 128 << 10;

/// What the listener needs of the server.
pub(crate) struct MailServer {
    pub(crate) store: Arc<Store>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) webhooks: Arc<Webhooks>,
    pub(crate) resolver: Arc<Resolver>,
    pub(crate) activity: Arc<Activity>,
    pub(crate) stop: Arc<Stop>,
    /// For `STARTTLS`; `None` for a generated one.
    pub(crate) certificate: Option<Certificate>,
    /// KiB that messages in transfer may still take.
    pub(crate) transfers: Arc<Semaphore>,
    /// For a client that does not read a reply.
    pub(crate) write_timeout: Duration,
}

/// Accepts connections until the server stops. A message in transfer at that moment has
/// not been confirmed, so the sending server retries it.
pub(crate) async fn run(server: MailServer, listener: TcpListener) {
    let server = Arc::new(server);
    let stopped = server.stop.requested();
    tokio::pin!(stopped);
    let tls = Arc::new(Tls::with(server.certificate.clone()));
    let limit = Limit::new(MAX_CONNECTIONS);
    let mut sessions = JoinSet::new();
    loop {
        let permit = tokio::select! {
            () = &mut stopped => return,
            permit = limit.permit() => permit,
        };
        let accepted = loop {
            tokio::select! {
                () = &mut stopped => return,
                Some(_) = sessions.join_next() => {}
                accepted = listener.accept() => break accepted,
            }
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Most likely the process has no free file descriptor. Wait until some are
                // closed.
                tracing::warn!(%error, "cannot accept an SMTP connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let (server, tls) = (Arc::clone(&server), Arc::clone(&tls));
        sessions.spawn(async move {
            let _permit = permit;
            if let Err(error) = session::serve(&server, &tls, stream, peer).await {
                tracing::debug!(%error, "an SMTP connection ended early");
            }
        });
    }
}
