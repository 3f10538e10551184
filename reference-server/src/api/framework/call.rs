//! [`Call`]: an authorized request to a documented operation.

use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use svc_sdk::Operation;

use super::idempotency::IdempotencyKey;
use super::input::{Input, object};
use super::response::ApiResponse;
use super::unknown;
use crate::app::Shared;
use crate::model::compatibility::Compatibility;
use crate::model::error::ApiError;
use crate::runtime::heavy;
use crate::store::keys::Key;
use crate::store::{Reader, Tx};

/// `B` is the type of the JSON body, which the OpenAPI description has, and `()` if there is none.
pub(crate) struct Call<B = ()> {
    pub(crate) operation: Operation,
    pub(crate) key: Arc<Key>,
    pub(crate) input: Input,
    pub(crate) data: Data,
    body: PhantomData<fn() -> B>,
}

/// What a request is about: an organization, or the server.
pub(crate) struct Data {
    pub(crate) app: Shared,
    /// [`NO_ORGANIZATION`](crate::store::NO_ORGANIZATION) if the request is about the server.
    pub(crate) organization: i64,
}

impl Data {
    /// Reads data of the organization.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(Reader<'_>, i64) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let organization = self.organization;
        self.app.store.read(move |reader| read(reader, organization)).await
    }

    /// Changes data of the organization.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        write: impl FnOnce(&mut Tx<'_>, &Shared, i64) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let (app, organization) = (Arc::clone(&self.app), self.organization);
        self.app.store.write(move |tx| write(tx, &app, organization)).await
    }
}

impl<B> Call<B> {
    pub(super) fn new(operation: Operation, key: Arc<Key>, input: Input) -> Self {
        let data = Data { app: Arc::clone(&input.app), organization: key.organization };
        Self { operation, key, input, data, body: PhantomData }
    }

    /// The first path parameter, which is the ID of the resource.
    pub(crate) fn id(&self) -> String {
        self.input.id().to_owned()
    }

    pub(crate) fn compatibility(&self) -> &Compatibility {
        &self.data.app.settings.compatibility
    }

    /// The `Idempotency-Key` of the request, unless the server ignores it.
    pub(crate) fn idempotency_key(&self, body: &[u8]) -> Result<Option<IdempotencyKey>, ApiError> {
        IdempotencyKey::read(self.operation, self.data.organization, &self.input, body)
    }

    /// Runs `job`, which stores what the call creates from this body. If the request repeats an
    /// `Idempotency-Key`, returns the stored response instead.
    pub(crate) async fn create<R, F>(&self, body: &Bytes, job: F) -> Result<R, ApiError>
    where
        R: From<ApiResponse> + AsRef<ApiResponse> + Send + 'static,
        F: FnOnce(&mut Tx<'_>, &Shared, i64) -> Result<R, ApiError> + Send + 'static,
    {
        let key = self.idempotency_key(body)?;
        // The job has what was parsed from the body, even if the client has hung up.
        let body = body.clone();
        let created = self.data.write(move |tx, app, organization| {
            let _memory = body;
            let Some(key) = key else { return job(tx, app, organization) };
            if let Some(response) = key.stored_response(tx)? {
                return Ok(response.into());
            }
            let response = job(tx, app, organization)?;
            key.store_response(tx, response.as_ref())?;
            Ok(response)
        });
        created.await
    }
}

impl<B: DeserializeOwned + JsonSchema + Send + 'static> Call<B> {
    /// Reads the body. Its bytes are for [`create`](Self::create).
    pub(crate) async fn read(&mut self) -> Result<(B, Bytes), ApiError> {
        let bytes = self.input.json_bytes().await?;
        let (app, read) = (Arc::clone(&self.data.app), bytes.clone());
        let parse = move || parse(&read, &app.settings.compatibility);
        Ok((heavy::run_on(bytes.len(), parse).await?, bytes))
    }
}

/// Parses a JSON object.
pub(crate) fn parse<T: DeserializeOwned + JsonSchema>(
    bytes: &[u8],
    compatibility: &Compatibility,
) -> Result<T, ApiError> {
    let value = object(bytes)?;
    if compatibility.refuses_unknown_fields {
        unknown::refuse::<T>(bytes)?;
    }
    Ok(value)
}
