//! What became of the requests of one run that are not harmless to repeat: what
//! to say of them where the run ends before their answers are shown.

use std::cell::{Cell, OnceCell};

use svc_sdk::{Operation, Outcome};

use crate::failure::{Failure, Kind};

/// The requests of one run that change something.
#[derive(Default)]
pub struct Changes {
    /// Sent, and not answered yet.
    under_way: Cell<usize>,
    /// Answered with a success.
    done: Cell<usize>,
    last: Cell<Option<Operation>>,
    /// The email that was sent, and is followed now.
    followed: OnceCell<String>,
}

impl Changes {
    /// Waits for the answer to such a request.
    pub async fn watch<T, E>(
        &self,
        operation: Option<Operation>,
        answer: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        self.last.set(operation);
        self.under_way.set(self.under_way.get() + 1);
        let answered = answer.await;
        self.under_way.set(self.under_way.get() - 1);
        self.done.set(self.done.get() + usize::from(answered.is_ok()));
        answered
    }

    /// Whether a service has processed one.
    pub fn any_done(&self) -> bool {
        self.done.get() > 0
    }

    /// Notes the email that was sent, before it is followed.
    pub fn follow(&self, id: &str) {
        // One command sends one email.
        let _ = self.followed.set(id.to_owned());
    }

    /// The email that was sent and is followed.
    pub fn followed(&self) -> Option<&str> {
        self.followed.get().map(String::as_str)
    }

    /// What to say of a run that is given up.
    pub fn given_up(&self) -> Failure {
        let last = self.last.get();
        let failure = |message: String| {
            let mut failure = Failure::new(Kind::Interrupted, message);
            failure.details_mut().operation = last;
            failure
        };
        if self.under_way.get() > 0 {
            let mut failure = failure(
                "interrupted before the service answered: it may have been processed".to_owned(),
            );
            failure.details_mut().outcome = Some(Outcome::Unknown.as_str());
            return failure;
        }
        match last.filter(|_| self.done.get() == 1) {
            Some(operation) => failure(format!("interrupted; {} was done", operation.name())),
            None => Failure::new(Kind::Interrupted, "interrupted"),
        }
    }
}
