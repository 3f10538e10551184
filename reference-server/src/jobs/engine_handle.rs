//! The handle by which the rest of the server controls the engine.

use tokio::sync::{mpsc, oneshot};

use crate::clock::clock_wire::Clock;
use crate::model::{Code, Failure, Millis, Result};

/// Commands to the engine.
#[derive(Debug)]
pub(crate) enum Command {
    State,
    /// Answered when nothing is in flight and nothing is due.
    Settle,
    /// Fails if the database cannot store the results of due work.
    Advance(Millis),
    Freeze,
    Resume,
    /// Sets the clock to the time of this computer, and lets it run.
    Real,
    /// The outcome of an attempt waits for the database, and with it what is to advance the clock.
    FailAdvances(Failure),
    /// Aborts attempts to deleted webhooks.
    Reload,
    /// The server was reset: ends an advance, sets the clock to that of the system, and reloads.
    Restart,
}

/// Gets the state after a command.
pub(crate) type Reply = oneshot::Sender<Result<Clock>>;

/// A handle of the engine. A command that was sent is done, even if the caller does not wait for it.
#[derive(Clone, Debug)]
pub(crate) struct EngineHandle(mpsc::UnboundedSender<(Command, Reply)>);

impl EngineHandle {
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<(Command, Reply)>) {
        let (sender, commands) = mpsc::unbounded_channel();
        (Self(sender), commands)
    }

    pub(crate) async fn send(&self, command: Command) -> Result<Clock> {
        let stopped = || Failure::new(Code::Unavailable, "the server is stopping");
        let (sender, reply) = oneshot::channel();
        self.0.send((command, sender)).map_err(|_| stopped())?;
        reply.await.unwrap_or_else(|_| Err(stopped()))
    }

    /// Sends a command without waiting for the state after it.
    pub(crate) fn tell(&self, command: Command) {
        let (sender, _) = oneshot::channel();
        // It fails once the engine has stopped.
        let _ = self.0.send((command, sender));
    }
}
