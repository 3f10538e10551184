//! A job for the writer thread.

use super::tx::Tx;
use crate::model::error::ApiError;

pub(super) struct Job {
    /// Whether the data must be synced to disk before the result is sent.
    pub(super) durable: bool,
    /// Whether a request waits for the result; false for background work.
    pub(super) awaited: bool,
    /// Does the work, or receives the error that prevents it.
    pub(super) run: Box<Run>,
}

type Run = dyn FnOnce(Result<&mut Tx<'_>, ApiError>) -> JobResult + Send;

pub(super) struct JobResult {
    /// Whether to keep what the job wrote.
    pub(super) keep: bool,
    /// Sends the result, given whether the commit succeeded.
    pub(super) respond: Box<dyn FnOnce(Result<(), ApiError>) + Send>,
}
