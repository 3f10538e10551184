//! How the rest of the server speaks to the engine.

use tokio::sync::{mpsc, oneshot};

use crate::error::{ApiError, Code};
use crate::time::Millis;

/// What the engine can be asked for.
#[derive(Debug)]
pub(crate) enum Command {
    State(oneshot::Sender<State>),
    /// Answered when nothing is in flight and nothing is due.
    Settled(oneshot::Sender<()>),
    /// Fails where the database cannot take what becomes due.
    Advance(Millis, oneshot::Sender<Result<State, ApiError>>),
    Freeze(oneshot::Sender<State>),
    Resume(oneshot::Sender<State>),
    /// Everything may have changed: what is in flight ends, what is due is
    /// looked up anew.
    Forget(oneshot::Sender<State>),
}

/// The clock, and whether there is anything to do at its time.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) now: Millis,
    pub(crate) frozen: bool,
    pub(crate) settled: bool,
    pub(crate) next_due: Option<Millis>,
}

#[derive(Clone, Debug)]
pub(crate) struct EngineHandle(mpsc::UnboundedSender<Command>);

impl EngineHandle {
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<Command>) {
        let (sender, commands) = mpsc::unbounded_channel();
        (Self(sender), commands)
    }

    pub(crate) async fn state(&self) -> Result<State, ApiError> {
        self.ask(Command::State).await
    }

    pub(crate) async fn freeze(&self) -> Result<State, ApiError> {
        self.ask(Command::Freeze).await
    }

    pub(crate) async fn resume(&self) -> Result<State, ApiError> {
        self.ask(Command::Resume).await
    }

    pub(crate) async fn forget(&self) -> Result<State, ApiError> {
        self.ask(Command::Forget).await
    }

    /// Sets the clock forward, running everything on the way; returns when all
    /// is settled.
    pub(crate) async fn advance(&self, by: Millis) -> Result<State, ApiError> {
        self.ask(|answer| Command::Advance(by, answer)).await?
    }

    /// Returns when nothing is in flight and nothing is due; at once when the
    /// engine has stopped.
    pub(crate) async fn settled(&self) {
        let _ = self.ask(Command::Settled).await;
    }

    async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T, ApiError> {
        let stopped = || ApiError::new(Code::Unavailable, "the server is stopping");
        let (sender, answer) = oneshot::channel();
        self.0.send(command(sender)).map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())
    }
}
