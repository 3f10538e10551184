//! Tracks the requests of one run that change something on the service, so that an interrupted
//! run can report whether one of them may have been processed.

use std::cell::{Cell, OnceCell};

use svc_sdk::{Operation, Outcome};

use crate::failure::{Failure, Kind};

/// The requests of one run that change something.
#[derive(Default)]
pub struct Changes {
    /// Requests without a response so far.
    in_flight: Cell<usize>,
    /// Whether one had a success response.
    any_done: Cell<bool>,
    last: Cell<Option<Operation>>,
    /// The accepted email whose status the run is waiting for.
    awaited_email: OnceCell<String>,
}

impl Changes {
    /// Awaits the response to such a request and records the outcome.
    pub async fn track<T, E>(
        &self,
        operation: Option<Operation>,
        response: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        self.last.set(operation);
        self.in_flight.set(self.in_flight.get() + 1);
        let result = response.await;
        self.in_flight.set(self.in_flight.get() - 1);
        self.any_done.set(self.any_done.get() || result.is_ok());
        result
    }

    /// Whether a service has processed at least one request.
    pub fn any_done(&self) -> bool {
        self.any_done.get()
    }

    /// Records the id of an accepted email before the run waits for its status.
    pub fn follow(&self, id: &str) {
        // One command sends one email, so the id is set at most once.
        let _ = self.awaited_email.set(id.to_owned());
    }

    /// The id of the accepted email whose status the run is waiting for.
    pub fn awaited_email(&self) -> Option<&str> {
        self.awaited_email.get().map(String::as_str)
    }

    /// The failure to report when the run is interrupted now.
    pub fn interruption(&self) -> Failure {
        if self.in_flight.get() == 0 {
            return Failure::new(Kind::Interrupted, "interrupted");
        }

        let message =
            "interrupted before the service responded; the request may have been processed";
        let mut failure = Failure::new(Kind::Interrupted, message);
        failure.operation = self.last.get();
        failure.outcome = Some(Outcome::Unknown.as_str());
        failure
    }
}
