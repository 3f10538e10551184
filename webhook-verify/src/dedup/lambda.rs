//! Answers for AWS Lambda.

use std::error::Error;

use super::{Once, OnceError, STORE_RETRY_AFTER, retry_after_seconds};
use crate::LambdaResponse;

impl<T: Into<LambdaResponse>> From<Once<T>> for LambdaResponse {
    fn from(once: Once<T>) -> Self {
        match once {
            Once::Handled(answer) => answer.into(),
            Once::Repeated => Self::new(200),
            Once::InFlight { retry_after } => unavailable(retry_after_seconds(retry_after)),
        }
    }
}

impl<E: Into<LambdaResponse>, StoreError: Error> From<OnceError<E, StoreError>> for LambdaResponse {
    fn from(error: OnceError<E, StoreError>) -> Self {
        match error {
            OnceError::Handler(answer) => answer.into(),
            OnceError::Store(error) => {
                super::log_store(&error);
                unavailable(STORE_RETRY_AFTER)
            }
        }
    }
}

fn unavailable(retry_after: u64) -> LambdaResponse {
    LambdaResponse::new(503).header("retry-after", retry_after.to_string())
}
