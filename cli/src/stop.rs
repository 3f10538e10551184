//! The signals that end commands which run until they are told to stop.

use crate::failure::Failure;

/// How a command was told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Ctrl-C.
    Interrupt,
    /// SIGTERM, or the terminal went away.
    Terminate,
}

/// Heard from the moment on that it is made.
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

    /// Hears also that the terminal goes away, for what must be tidied up then.
    pub fn listen_to_the_terminal() -> Result<Self, Failure> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { hangup: Some(signal(SignalKind::hangup())?), ..Self::listen()? })
    }

    /// The next one; may be dropped and called again.
    pub async fn heard(&mut self) -> Stop {
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

#[cfg(not(unix))]
impl StopSignal {
    pub fn listen() -> Result<Self, Failure> {
        Ok(Self {})
    }

    pub fn listen_to_the_terminal() -> Result<Self, Failure> {
        Self::listen()
    }

    /// The next one; may be dropped and called again.
    pub async fn heard(&mut self) -> Stop {
        let _ = tokio::signal::ctrl_c().await;
        Stop::Interrupt
    }
}
