//! Turns de-duplication results into AWS Lambda responses.

use super::{DedupError, Outcome, STORE_RETRY_AFTER, retry_after_seconds};
use crate::LambdaResponse;

impl<T: Into<LambdaResponse>> From<Outcome<T>> for LambdaResponse {
    fn from(outcome: Outcome<T>) -> Self {
        match outcome {
            Outcome::Handled(response) => response.into(),
            Outcome::Duplicate => Self::new(200),
            Outcome::InFlight { retry_after } => unavailable(retry_after_seconds(retry_after)),
        }
    }
}

impl<E: Into<LambdaResponse>> From<DedupError<E>> for LambdaResponse {
    fn from(error: DedupError<E>) -> Self {
        match error {
            DedupError::Handler(response) => response.into(),
            DedupError::Store(error) => {
                super::log_store_error(&error);
                unavailable(STORE_RETRY_AFTER)
            }
        }
    }
}

fn unavailable(retry_after: u64) -> LambdaResponse {
    LambdaResponse::new(503).header("retry-after", retry_after.to_string())
}
