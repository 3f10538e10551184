//! [`Call`]: an authorized request to a documented operation.

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use svc_sdk::{Dialect, Operation, Point};

use crate::app::Shared;
use crate::http::idempotency::IdempotencyKey;
use crate::http::input::{Input, object};
use crate::http::response::Reply;
use crate::http::unknown;
use crate::model::Result;
use crate::model::key::Key;
use crate::runtime::heavy;
use crate::store::Tx;

/// `B` is the type of the JSON body, which the OpenAPI description has, and `()` if there is none.
pub(crate) struct Call<B = ()> {
    pub(crate) operation: Operation,
    pub(crate) key: Arc<Key>,
    pub(crate) input: Input,
    body: PhantomData<fn() -> B>,
}

impl<B> Deref for Call<B> {
    type Target = Input;

    fn deref(&self) -> &Input {
        &self.input
    }
}

impl<B> Call<B> {
    pub(super) fn new(operation: Operation, key: Arc<Key>, mut input: Input) -> Self {
        input.organization = key.organization;
        Self {
            operation,
            key,
            input,
            body: PhantomData,
        }
    }

    pub(crate) fn idempotency_key(&self) -> Result<IdempotencyKey> {
        IdempotencyKey::read(self.operation, self)
    }

    /// The stored response, if the request repeats an `Idempotency-Key`. For calls that read something
    /// before [`create`](Self::create): it may have gone since the first request.
    pub(crate) async fn repeated<T: Send + 'static>(&self) -> Result<Option<Reply<T>>> {
        let key = self.idempotency_key()?;
        if !key.is_given() {
            return Ok(None);
        }
        let now = self.app.clock.now();
        self.read(move |reader, _| key.stored_response(reader, now))
            .await
    }

    /// Runs `job`, which stores what the call creates. If the request repeats an `Idempotency-Key`,
    /// returns the stored response instead.
    pub(crate) async fn create<T, F>(&self, job: F) -> Result<Reply<T>>
    where
        T: Serialize + 'static,
        F: FnOnce(&mut Tx<'_>, &Shared, i64) -> Result<T> + Send + 'static,
    {
        let operation = self.operation;
        let key = self.idempotency_key()?;
        let created = self.write(move |tx, app, organization| {
            if let Some(stored) = key.stored_response(tx.reader(), tx.now)? {
                return Ok(stored);
            }
            let value = job(tx, app, organization)?;
            let reply = Reply::of(operation, &app.settings.dialect, &value)?;
            key.store_response(tx, &reply)?;
            Ok(reply)
        });
        created.await
    }
}

impl<B: DeserializeOwned + JsonSchema + Send + 'static> Call<B> {
    /// Reads the body.
    pub(crate) async fn body(&self) -> Result<B> {
        let app = Arc::clone(&self.app);
        let bytes = self.json_bytes()?;
        heavy::run_on(bytes.len(), move || parse(&bytes, &app.settings.dialect)).await
    }
}

/// Parses a JSON object.
pub(crate) fn parse<T: DeserializeOwned + JsonSchema>(
    bytes: &[u8],
    dialect: &Dialect,
) -> Result<T> {
    let value = object(bytes)?;
    if dialect.is(Point::UnknownFields, "refused") {
        unknown::refuse::<T>(bytes)?;
    }
    Ok(value)
}
