//! The SMTP listener (`--smtp`): receives mail for verified domains, and catches all other mail. The
//! sessions are our own, over `smtp-proto`, which parses commands: no kept library has those of a
//! receiving server.

mod login;
mod session;

use std::sync::Arc;

use tokio::net::TcpListener;

use crate::app::Shared;
use crate::net::accept;
use crate::runtime::limit::Limit;

/// Maximum number of connections. Further clients wait to be accepted.
const MAX_CONNECTIONS: usize = 100;
/// Maximum number of messages in transfer, which bounds their memory. Further clients wait for the
/// reply to `DATA`.
const MAX_TRANSFERS: usize = 5;

/// The listener.
struct MailServer {
    app: Shared,
    transfers: Limit,
}

/// Accepts connections until the server stops. A message in transfer at that moment has
/// not been confirmed, so the sending server retries it.
pub(crate) async fn run(app: Shared, listener: TcpListener) {
    let server = Arc::new(MailServer {
        app,
        transfers: Limit::new(MAX_TRANSFERS),
    });
    let session = |stream, peer| {
        let server = Arc::clone(&server);
        async move {
            if let Err(error) = session::serve(&server, stream, peer).await {
                tracing::debug!(%error, "an SMTP connection ended early");
            }
        }
    };
    accept::serve(listener, MAX_CONNECTIONS, &server.app.stop, session).await;
}
