//! Connections to the listeners.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};

use crate::runtime::limit::{Limit, Permit};
use crate::runtime::stop::Stop;

/// The next connection, once there may be one more. `None` when the server stops.
pub(crate) async fn accept(
    listener: &TcpListener,
    limit: &Limit,
    stop: &Stop,
) -> Option<(TcpStream, SocketAddr, Permit)> {
    let accepted = async {
        let permit = limit.permit().await;
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => return (stream, peer, permit),
                // Most likely the process has no free file descriptor; some will be free soon.
                Err(error) => tracing::warn!(%error, "cannot accept a connection"),
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::select! {
        () = stop.requested() => None,
        accepted = accepted => Some(accepted),
    }
}

const PAUSE: Duration = Duration::from_millis(50);
