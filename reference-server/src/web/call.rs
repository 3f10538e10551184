//! A call of a documented operation by a key that may call it.

use std::sync::Arc;

use svc_sdk::Operation;

use super::answer::Answer;
use super::input::Input;
use super::once::Once;
use crate::app::Shared;
use crate::error::ApiError;
use crate::keys::Key;
use crate::store::Tx;
use crate::switches::Switches;

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

    pub(crate) fn switches(&self) -> &Switches {
        &self.input.app.settings.switches
    }

    /// Writes what the call creates: once, where it has an `Idempotency-Key`.
    pub(crate) async fn create<F>(&self, body: &[u8], job: F) -> Result<Answer, ApiError>
    where
        F: FnOnce(&mut Tx<'_>) -> Result<Answer, ApiError> + Send + 'static,
    {
        let once = Once::of(self, body)?;
        self.app()
            .store
            .write(move |tx| {
                let Some(once) = once else { return job(tx) };
                if let Some(answer) = once.earlier(tx)? {
                    return Ok(answer);
                }
                let answer = job(tx)?;
                once.keep(tx, &answer)?;
                Ok(answer)
            })
            .await
    }
}
