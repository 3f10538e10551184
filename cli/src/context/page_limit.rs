//! The time limit of reading a list that a service divides into pages.

use super::Context;
use crate::failure::{Failure, Kind};

impl Context {
    /// Reads all pages within `--timeout`: a service could go on with new pages for ever.
    pub async fn within_timeout<T>(
        &self,
        reading: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let limit = self.settings.timeout.value;
        tokio::time::timeout(limit, reading)
            .await
            .unwrap_or_else(|_| {
                let limit = limit.as_secs_f64();
                Err(Failure::new(
                    Kind::Unavailable,
                    format!("the list has not ended within {limit} s, over all of its pages"),
                )
                .code("timeout")
                .hint("allow more time: --timeout 5m"))
            })
    }
}
