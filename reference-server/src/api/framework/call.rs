//! [`Call`]: an authorized request to a documented operation.

use std::sync::Arc;

use bytes::Bytes;
use svc_sdk::Operation;

use super::idempotency::IdempotencyKey;
use super::input::Input;
use super::response::ApiResponse;
use crate::app::Shared;
use crate::model::compatibility::Compatibility;
use crate::model::error::ApiError;
use crate::store::Tx;
use crate::store::keys::Key;

pub(crate) struct Call {
    pub(crate) operation: Operation,
    pub(crate) key: Arc<Key>,
    pub(crate) input: Input,
}

impl Call {
    pub(crate) fn app(&self) -> &Shared {
        &self.input.app
    }

    pub(crate) fn organization(&self) -> i64 {
        self.key.organization
    }

    pub(crate) fn compatibility(&self) -> &Compatibility {
        &self.input.app.settings.compatibility
    }

    /// The `Idempotency-Key` of the request, unless the server ignores it.
    pub(crate) fn idempotency_key(&self, body: &[u8]) -> Result<Option<IdempotencyKey>, ApiError> {
        IdempotencyKey::read(self.operation, self.organization(), &self.input, body)
    }

    /// Runs `job`, which stores what the call creates from this body. If the request repeats an
    /// `Idempotency-Key`, returns the stored response instead.
    pub(crate) async fn create<R, F>(&self, body: &Bytes, job: F) -> Result<R, ApiError>
    where
        R: From<ApiResponse> + AsRef<ApiResponse> + Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> Result<R, ApiError> + Send + 'static,
    {
        let key = self.idempotency_key(body)?;
        // The job has what was parsed from the body, even if the client has hung up.
        let body = body.clone();
        self.app()
            .store
            .write(move |tx| {
                let _memory = body;
                let Some(key) = key else { return job(tx) };
                if let Some(response) = key.stored_response(tx)? {
                    return Ok(response.into());
                }
                let response = job(tx)?;
                key.store_response(tx, response.as_ref())?;
                Ok(response)
            })
            .await
    }
}
