//! What the checks found, and the bounds of a check.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use svc_sdk::Call;

use crate::context::Context;
use crate::failure::Failure;

/// The result of a check, with the next step.
#[derive(Serialize, JsonSchema)]
pub struct Finding {
    pub(super) status: Status,
    check: String,
    finding: String,
    next: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    Ok,
    Warning,
    Problem,
    Unknown,
}

#[derive(Default)]
pub(super) struct Findings(pub(super) Vec<Finding>);

impl Findings {
    pub(super) fn ok(&mut self, check: &str, finding: &str) {
        self.push(Status::Ok, check, finding, None);
    }

    pub(super) fn warning(&mut self, check: &str, finding: &str, next: &str) {
        self.push(Status::Warning, check, finding, Some(next));
    }

    pub(super) fn problem(&mut self, check: &str, finding: &str, next: &str) {
        self.push(Status::Problem, check, finding, Some(next));
    }

    /// What kept the command from a check. What has been found before is not repeated.
    pub(super) fn failure(&mut self, check: &str, failure: &Failure) {
        let details = failure.details();
        if self.0.iter().any(|finding| finding.finding == details.message) {
            return;
        }
        let next = details.hint.as_deref().map(|hint| hint.replace('\n', "; "));
        self.push(Status::Problem, check, &details.message, next.as_deref());
    }

    pub(super) fn unknown(&mut self, check: &str, finding: &str, next: &str) {
        self.push(Status::Unknown, check, finding, Some(next));
    }

    fn push(&mut self, status: Status, check: &str, finding: &str, next: Option<&str>) {
        let (check, finding) = (check.to_owned(), finding.to_owned());
        self.0.push(Finding { status, check, finding, next: next.map(str::to_owned) });
    }
}

/// Bounds a check to 10 s and one attempt.
pub(super) fn bounded<T>(context: &Context, call: Call<T>) -> Call<T> {
    call.timeout(context.settings.timeout.value.min(Duration::from_secs(10))).retries(0)
}
