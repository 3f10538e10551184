//! Ctrl-C or SIGTERM, for commands that run until they are told to stop.

use crate::failure::Failure;

/// Heard from the moment on that it is made.
pub struct StopSignal {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl StopSignal {
    pub fn listen() -> Result<Self, Failure> {
        use tokio::signal::unix::{SignalKind, signal};
        let interrupt = signal(SignalKind::interrupt())?;
        let terminate = signal(SignalKind::terminate())?;
        Ok(Self { interrupt, terminate })
    }

    pub async fn heard(mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(not(unix))]
impl StopSignal {
    pub fn listen() -> Result<Self, Failure> {
        Ok(Self {})
    }

    pub async fn heard(self) {
        let _ = tokio::signal::ctrl_c().await;
    }
}
