//! Time that stands still unless a test moves it, on real sockets.

use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::task::{JoinHandle, yield_now};

/// While it lives, nothing of tokio's time passes by itself.
pub(crate) struct Clock(JoinHandle<()>);

impl Clock {
    /// Needs the runtime of one thread that `#[tokio::test]` makes.
    pub(crate) fn stop() -> Self {
        tokio::time::pause();
        // Paused time would jump ahead whenever every task waits, for a socket
        // too: so one task never does.
        Self(tokio::spawn(async {
            loop {
                yield_now().await;
            }
        }))
    }

    /// Lets what can go on go on, then moves time.
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

/// Lets every task run until it waits for time to pass, or for what nobody has
/// sent.
pub(crate) async fn settle() {
    let run = async || {
        for _ in 0..1_000 {
            yield_now().await;
        }
    };
    run().await;
    // What was written to a socket is not there at once when the machine is
    // busy. What is written after it comes after it.
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.send_to(&[0], socket.local_addr().unwrap()).await.unwrap();
    socket.recv(&mut [0]).await.unwrap();
    run().await;
}

/// Waits until it is so, within a bound of real time.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(20), "never: {what}");
        yield_now().await;
    }
}
