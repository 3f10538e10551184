//! Connections to the listeners.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::runtime::limit::Limit;
use crate::runtime::stop::Stop;

/// Serves connections until the server stops, at most `most` at the same time: further clients wait
/// to be accepted. Returns those in progress, which end when this is dropped.
pub(crate) async fn serve<F: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    most: usize,
    stop: &Stop,
    connection: impl Fn(TcpStream, SocketAddr) -> F,
) -> JoinSet<()> {
    let limit = Limit::new(most);
    let mut connections = JoinSet::new();
    loop {
        let accepted = async { (limit.permit().await, listener.accept().await) };
        tokio::select! {
            () = stop.requested() => return connections,
            Some(_) = connections.join_next() => {}
            (permit, accepted) = accepted => match accepted {
                Ok((stream, peer)) => {
                    let connection = connection(stream, peer);
                    connections.spawn(async move {
                        let _permit = permit;
                        connection.await;
                    });
                }
                Err(error) => {
                    // Most likely the process has no free file descriptor; some will be free soon.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

const PAUSE: Duration = Duration::from_millis(50);
