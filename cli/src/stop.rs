//! The signals that stop long-running commands: SIGINT, SIGTERM and SIGHUP.

use crate::failure::Failure;

/// Which signal stopped a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Ctrl-C.
    Interrupt,
    /// SIGTERM, or SIGHUP because the terminal was closed.
    Terminate,
}

/// Receives stop signals from its creation on.
pub struct StopSignal {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    hangup: Option<tokio::signal::unix::Signal>,
}

#[cfg(unix)]
impl StopSignal {
    pub fn listen() -> Result<Self, Failure> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: None,
        })
    }

    /// Also receives SIGHUP, for commands that must clean up when the terminal is closed, unless
    /// the command was started with SIGHUP ignored, as by `nohup`.
    pub fn listen_with_hangup() -> Result<Self, Failure> {
        use tokio::signal::unix::{SignalKind, signal};
        let mut signals = Self::listen()?;
        if !is_hangup_ignored() {
            signals.hangup = Some(signal(SignalKind::hangup())?);
        }
        Ok(signals)
    }

    /// Waits for the next signal. Cancel safe.
    pub async fn recv(&mut self) -> Stop {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => Stop::Interrupt,
            _ = self.terminate.recv() => Stop::Terminate,
            _ = hangup => Stop::Terminate,
        }
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
    pub fn listen() -> Result<Self, Failure> {
        Ok(Self {})
    }

    pub fn listen_with_hangup() -> Result<Self, Failure> {
        Self::listen()
    }

    /// Waits for the next signal. Cancel safe.
    pub async fn recv(&mut self) -> Stop {
        let _ = tokio::signal::ctrl_c().await;
        Stop::Interrupt
    }
}
