//! Serves one client on standard input and output.

use rmcp::ServiceExt as _;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use super::server::McpServer;
use crate::failure::Failure;
use crate::output::Streams;

/// Bytes between the streams and the protocol.
const BUFFER: usize = 64 << 10;

/// Serves until standard input is closed.
pub async fn serve(server: McpServer, streams: &Streams) -> Result<(), Failure> {
    let (ours, theirs) = tokio::io::duplex(BUFFER);
    let (mut from_protocol, mut to_protocol) = tokio::io::split(ours);
    // Reading standard input cannot be cancelled, so it has a thread of its own.
    let (mut stdin, runtime) = (streams.stdin(), tokio::runtime::Handle::current());
    std::thread::Builder::new().spawn(move || {
        let mut buffer = vec![0; BUFFER];
        while let Ok(length @ 1..) = std::io::Read::read(&mut stdin, &mut buffer) {
            if runtime.block_on(to_protocol.write_all(&buffer[..length])).is_err() {
                return;
            }
        }
        let _ = runtime.block_on(to_protocol.shutdown());
    })?;
    let streams = streams.clone();
    let writing = tokio::spawn(async move {
        let mut lines = BufReader::new(&mut from_protocol).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if streams.protocol_line(&line).is_err() {
                return;
            }
        }
    });
    if let Ok(running) = server.serve(theirs).await {
        let _ = running.waiting().await;
    }
    let _ = writing.await;
    Ok(())
}
