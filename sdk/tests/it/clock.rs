//! A paused clock that tests advance, with real sockets.

use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::task::{JoinHandle, yield_now};

/// Pauses tokio's clock until it is dropped.
pub(crate) struct Clock(JoinHandle<()>);

impl Clock {
    /// Requires the single-threaded runtime of `#[tokio::test]`.
    pub(crate) fn pause() -> Self {
        tokio::time::pause();
        // A paused clock jumps ahead whenever all tasks are idle, even if they wait for a
        // socket. This task is never idle.
        Self(tokio::spawn(async {
            loop {
                yield_now().await;
            }
        }))
    }

    /// Runs all tasks until they are idle, then advances the clock and does so again.
    pub(crate) async fn advance(&self, duration: Duration) {
        settle().await;
        tokio::time::advance(duration).await;
        settle().await;
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Runs all tasks until they wait for the clock, or for data that was not sent yet.
pub(crate) async fn settle() {
    let run = async || {
        for _ in 0..1_000 {
            yield_now().await;
        }
    };

    run().await;
    // On a busy machine, data written to a socket arrives late. Sockets deliver in order,
    // so once this datagram arrives, earlier data has too.
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket
        .send_to(&[0], socket.local_addr().unwrap())
        .await
        .unwrap();
    socket.recv(&mut [0]).await.unwrap();
    run().await;
}

/// Waits until `is_met` returns true, for at most 20 seconds of real time.
pub(crate) async fn wait_until(condition: &str, mut is_met: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !is_met() {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "timed out waiting for: {condition}"
        );
        yield_now().await;
    }
}
