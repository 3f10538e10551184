//! The SMTP listener (`--smtp`): receives mail for verified domains.

mod certificate;
mod data;
mod session;

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::app::Shared;
pub(crate) use certificate::Certificate;
pub use certificate::InvalidCertificate;
use certificate::Tls;

/// Budget for the messages in transfer, in KiB.
pub(crate) const TRANSFER_BUDGET: usize = 128 << 10;
/// Maximum number of concurrent connections. Others wait until one ends.
const MAX_CONNECTIONS: usize = 100;

/// Accepts connections until the server stops. A message in transfer at that moment has
/// not been confirmed, so the sending server retries it.
pub(crate) async fn run(app: Shared, listener: TcpListener) {
    let stopped = app.stopped();
    tokio::pin!(stopped);
    let tls = Arc::new(Tls::with(app.settings.smtp_certificate.clone()));
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut sessions = JoinSet::new();
    loop {
        let accepted = async {
            let slot = Arc::clone(&slots).acquire_owned().await;
            (slot, listener.accept().await)
        };
        tokio::select! {
            () = &mut stopped => return,
            Some(_) = sessions.join_next() => {}
            (slot, accepted) = accepted => match (slot, accepted) {
                (Ok(slot), Ok((stream, peer))) => {
                    let (app, tls) = (Arc::clone(&app), Arc::clone(&tls));
                    sessions.spawn(async move {
                        if let Err(error) = session::serve(&app, &tls, stream, peer).await {
                            tracing::debug!(%error, "an SMTP connection ended early");
                        }
                        drop(slot);
                    });
                }
                (_, Err(error)) => {
                    // Most likely the process has no free file descriptor. Wait until
                    // some are closed.
                    tracing::warn!(%error, "cannot accept an SMTP connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                (Err(_), _) => return,
            },
        }
    }
}
