//! The signals that stop long-running commands: SIGINT, SIGTERM and SIGHUP.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
#[cfg(unix)]
use std::task::Poll;
use std::time::Duration;

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit;
use crate::failure::{Failure, Kind};

/// Which signal stopped a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Ctrl-C.
    Interrupt,
    /// SIGTERM, or SIGHUP because the terminal was closed.
    Terminate,
}

/// Completes on Ctrl-C, if signals concern the run.
pub async fn interrupted(signals: bool) {
    // Without a signal handler, the default action ends the program.
    if !signals || tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Becomes true on Ctrl-C, for work that waits for nothing. If it does not end then, the process does.
pub fn watch(signals: bool) -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    if !signals {
        return flag;
    }

    let interrupt = Arc::clone(&flag);
    std::thread::spawn(move || {
        // The runtime of the command cannot tell of signals while the work keeps its thread.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        if let Ok(runtime) = runtime {
            runtime.block_on(interrupted(true));
            interrupt.store(true, Ordering::Relaxed);
            std::thread::sleep(GRACE);
            std::process::exit(exit::code(Kind::Interrupted).into());
        }
    });
    flag
}

/// How long work that waits for nothing may go on after Ctrl-C.
const GRACE: Duration = Duration::from_secs(1);

/// Receives stop signals from its creation on, if signals concern the run.
#[derive(Default)]
pub struct StopSignal {
    #[cfg(unix)]
    listening: Vec<(Signal, SignalKind)>,
    #[cfg(not(unix))]
    signals: bool,
}

#[cfg(unix)]
impl StopSignal {
    /// SIGHUP, which a closed terminal sends, is ignored by a command that was started so, as by
    /// `nohup`.
    pub fn listen(signals: bool) -> Result<Self, Failure> {
        let mut kinds = vec![SignalKind::interrupt(), SignalKind::terminate()];
        if !is_hangup_ignored() {
            kinds.push(SignalKind::hangup());
        }
        let mut listening = Vec::new();
        for kind in kinds.into_iter().filter(|_| signals) {
            listening.push((signal(kind)?, kind));
        }
        Ok(Self { listening })
    }

    /// Waits for the next signal. Cancel safe.
    pub async fn recv(&mut self) -> Stop {
        if self.next().await == SignalKind::interrupt() {
            Stop::Interrupt
        } else {
            Stop::Terminate
        }
    }

    /// Waits for a signal other than Ctrl-C. Returns the exit code of a process that it ends.
    pub async fn terminated(&mut self) -> i32 {
        loop {
            let kind = self.next().await;
            if kind != SignalKind::interrupt() {
                return 128 + kind.as_raw_value();
            }
        }
    }

    async fn next(&mut self) -> SignalKind {
        std::future::poll_fn(|context| {
            let received = self
                .listening
                .iter_mut()
                .find_map(|(signal, kind)| signal.poll_recv(context).is_ready().then_some(*kind));
            received.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// Whether the process ignores SIGHUP. Only Linux tells without unsafe code; elsewhere `false`.
#[cfg(unix)]
fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // A mask in hexadecimal; SIGHUP is signal 1, the lowest bit.
    ignored
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & 1 == 1)
}

#[cfg(not(unix))]
impl StopSignal {
    pub fn listen(signals: bool) -> Result<Self, Failure> {
        Ok(Self { signals })
    }

    /// Waits for the next signal. Cancel safe.
    pub async fn recv(&mut self) -> Stop {
        interrupted(self.signals).await;
        Stop::Interrupt
    }
}
