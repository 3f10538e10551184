//! How a command sends a request: `perform` sends it with the options of this command, `send` as it
//! is, with progress, and `send_raw` one that is not an operation of the SDK. All go through
//! `tracked`, which tells `pending_changes.rs` about a request that changes something, so that Ctrl-C can
//! say whether it may have been processed. Errors become a `Failure` here.

use std::rc::Rc;

use serde::Serialize;
use serde_json::Value;
use svc_sdk::{Call, Error, ErrorKind, List, ListStream, Operation, RawResponse};

use super::Run;
use crate::command_spec::Effect;
use crate::failure::{Failure, Kind};
use crate::pending_changes::Changes;
use crate::stop::StopSignal;

/// Sends the requests of a run: with its options, progress and deadline.
pub struct Caller {
    run: Rc<Run>,
    /// The key of the request that creates something, if it is given.
    idempotency_key: Option<String>,
    pub changes: Changes,
}

impl Caller {
    pub(super) fn new(run: Rc<Run>, idempotency_key: Option<String>) -> Self {
        Self {
            run,
            idempotency_key,
            changes: Changes::default(),
        }
    }

    /// Sends a request as it is.
    pub async fn send<T: 'static>(&self, call: Call<T>, what: &str) -> Result<T, Failure> {
        let _progress = self.run.out.progress(what);
        self.sent(call).await
    }

    /// Like [`send`](Self::send), for a request that is not one of the SDK's operations.
    /// `retry_safe` says whether sending it twice does no more than sending it once.
    pub async fn send_raw(
        &self,
        call: Call<RawResponse>,
        retry_safe: bool,
        what: &str,
    ) -> Result<RawResponse, Error> {
        let _progress = self.run.out.progress(what);
        self.tracked(call.idempotent(retry_safe), retry_safe).await
    }

    /// Runs a call with the options of this command.
    pub async fn perform<T: 'static>(&self, call: Call<T>) -> Result<T, Failure> {
        self.sent(self.with_options(call)).await
    }

    /// Reads a whole list, or the part of it that the service says how to get.
    pub async fn read_all<T: Serialize + Send + 'static>(
        &self,
        list: ListStream<T>,
    ) -> Result<List<T>, Failure> {
        let read = async { list.into_list().await.map_err(|error| self.failure(error)) };
        self.within_timeout(read).await
    }

    /// Reads all pages within `--timeout`: a service could go on with new pages for ever.
    pub async fn within_timeout<T>(
        &self,
        reading: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let limit = self.run.settings.timeout.value;
        let read = tokio::time::timeout(limit, reading).await;
        read.unwrap_or_else(|_| {
            let limit = limit.as_secs_f64();
            let problem = format!("the list did not end within {limit} s, over all of its pages");
            Err(Failure::new(Kind::Unavailable, problem)
                .code("timeout")
                .hint("allow more time: --timeout 5m"))
        })
    }

    /// A call with the options of this command.
    pub fn with_options<T>(&self, call: Call<T>) -> Call<T> {
        let call = call
            .timeout(self.run.settings.timeout.value)
            .retries(self.run.settings.retries.value);
        match &self.idempotency_key {
            Some(key) => call.idempotency_key(key.as_str()),
            None => call,
        }
    }

    async fn sent<T: 'static>(&self, call: Call<T>) -> Result<T, Failure> {
        let retry_safe = call.operation().map(Operation::is_idempotent);
        let retry_safe = retry_safe.unwrap_or(self.run.command.effect == Effect::Reads);
        let sent = self.tracked(call, retry_safe).await;
        sent.map_err(|error| self.failure(error))
    }

    async fn tracked<T: 'static>(&self, call: Call<T>, retry_safe: bool) -> Result<T, Error> {
        let operation = call.operation();
        let response = call.into_future();
        if retry_safe {
            response.await
        } else {
            self.changes.track(operation, response).await
        }
    }

    /// Converts the error of a call. The response without an id is shown: it may tell the reader what
    /// svc does not understand.
    pub fn failure(&self, error: Error) -> Failure {
        if matches!(error.kind(), ErrorKind::MissingId)
            && let Ok(value) = serde_json::from_slice::<Value>(error.body())
        {
            // The failure matters more than a closed standard output.
            let _ = self.run.out.value(&value);
        }
        error.into()
    }

    /// The result of reading, unless a signal ends the command before.
    pub async fn unless_stopped<T>(
        &self,
        stop: &mut StopSignal,
        read: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        tokio::select! {
            read = read => read,
            _ = stop.recv() => Err(self.changes.interruption()),
        }
    }
}
