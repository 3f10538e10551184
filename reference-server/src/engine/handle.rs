//! The handle by which the rest of the server controls the engine.

use tokio::sync::{mpsc, oneshot};

use crate::model::error::{ApiError, Code};
use crate::model::time::Millis;

/// Commands to the engine, each with the channel for its reply.
#[derive(Debug)]
pub(crate) enum Command {
    State(oneshot::Sender<State>),
    /// Answered when nothing is in flight and nothing is due.
    Settled(oneshot::Sender<()>),
    /// Fails if the database cannot store the results of due work.
    Advance(Millis, oneshot::Sender<Result<State, ApiError>>),
    Freeze(oneshot::Sender<State>),
    Resume(oneshot::Sender<State>),
    /// After a reset: aborts deliveries to deleted webhooks and reads the schedule
    /// again.
    Reload(oneshot::Sender<State>),
}

/// State of the clock and of the engine.
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

    pub(crate) async fn reload(&self) -> Result<State, ApiError> {
        self.ask(Command::Reload).await
    }

    /// Advances the clock, running everything that becomes due. Returns when all work
    /// is settled.
    pub(crate) async fn advance(&self, by: Millis) -> Result<State, ApiError> {
        self.ask(|reply| Command::Advance(by, reply)).await?
    }

    /// Waits until nothing is in flight and nothing is due. Returns at once if the
    /// engine has stopped.
    pub(crate) async fn settled(&self) {
        let _ = self.ask(Command::Settled).await;
    }

    async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T, ApiError> {
        let stopped = || ApiError::new(Code::Unavailable, "the server is stopping");
        let (sender, reply) = oneshot::channel();
        self.0.send(command(sender)).map_err(|_| stopped())?;
        reply.await.map_err(|_| stopped())
    }
}
