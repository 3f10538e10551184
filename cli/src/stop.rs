//! The signals that stop long-running commands: SIGINT, SIGTERM and SIGHUP.

#[cfg(unix)]
use std::task::Poll;

use crate::failure::Failure;

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

/// Waits for SIGTERM or SIGHUP, from its creation on. Completes with the exit code of a process that
/// the signal ends.
#[cfg(unix)]
pub fn terminated() -> Result<impl Future<Output = i32> + use<>, Failure> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = match is_hangup_ignored() {
        true => None,
        false => Some(signal(SignalKind::hangup())?),
    };
    Ok(async move {
        let hung_up = async {
            match &mut hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = terminate.recv() => 128 + SignalKind::terminate().as_raw_value(),
            _ = hung_up => 128 + SignalKind::hangup().as_raw_value(),
        }
    })
}

/// Receives stop signals from its creation on, if signals concern the run.
#[derive(Default)]
pub struct StopSignal {
    #[cfg(unix)]
    listening: Vec<(tokio::signal::unix::Signal, Stop)>,
    #[cfg(not(unix))]
    signals: bool,
}

#[cfg(unix)]
impl StopSignal {
    /// SIGHUP, which a closed terminal sends, is ignored by a command that was started so, as by
    /// `nohup`.
    pub fn listen(signals: bool) -> Result<Self, Failure> {
        use tokio::signal::unix::{SignalKind, signal};
        let mut listening = Vec::new();
        if signals {
            listening.push((signal(SignalKind::interrupt())?, Stop::Interrupt));
            listening.push((signal(SignalKind::terminate())?, Stop::Terminate));
            if !is_hangup_ignored() {
                listening.push((signal(SignalKind::hangup())?, Stop::Terminate));
            }
        }
        Ok(Self { listening })
    }

    /// Waits for the next signal. Cancel safe.
    pub async fn recv(&mut self) -> Stop {
        std::future::poll_fn(|context| {
            let received = self
                .listening
                .iter_mut()
                .find_map(|(signal, stop)| signal.poll_recv(context).is_ready().then_some(*stop));
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
