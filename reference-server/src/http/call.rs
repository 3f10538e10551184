//! [`Call`]: an authorized request to a documented operation.

use std::marker::PhantomData;
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
use crate::store::{Reader, Row, Tx};

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
        read: impl FnOnce(Reader<'_>, i64) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let organization = self.organization;
        self.app
            .store
            .read(move |reader| read(reader, organization))
            .await
    }

    /// All rows of a table that the organization has.
    pub(crate) async fn list<R: Row + Send + 'static>(&self) -> Result<Vec<R>> {
        let organization = self.organization;
        let list = move |reader: Reader<'_>| reader.list(organization);
        self.app.store.read(list).await
    }

    /// Changes data of the organization.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        write: impl FnOnce(&mut Tx<'_>, &Shared, i64) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (app, organization) = (Arc::clone(&self.app), self.organization);
        self.app
            .store
            .write(move |tx| write(tx, &app, organization))
            .await
    }
}

impl<B> Call<B> {
    pub(super) fn new(operation: Operation, key: Arc<Key>, input: Input) -> Self {
        let data = Data {
            app: Arc::clone(&input.app),
            organization: key.organization,
        };
        Self {
            operation,
            key,
            input,
            data,
            body: PhantomData,
        }
    }

    pub(crate) fn id(&self) -> String {
        self.input.id()
    }

    pub(crate) fn dialect(&self) -> &Dialect {
        &self.data.app.settings.dialect
    }

    pub(crate) fn idempotency_key(&self) -> Result<IdempotencyKey> {
        IdempotencyKey::read(self.operation, self.data.organization, &self.input)
    }

    /// The response to the call.
    pub(crate) fn reply<T: Serialize>(&self, value: T) -> Result<Reply<T>> {
        Reply::of(self.operation, self.dialect(), &value)
    }

    /// The stored response, if the request repeats an `Idempotency-Key`. For calls that read something
    /// before [`create`](Self::create): it may have gone since the first request.
    pub(crate) async fn repeated<T: Send + 'static>(&self) -> Result<Option<Reply<T>>> {
        let key = self.idempotency_key()?;
        if !key.is_given() {
            return Ok(None);
        }
        let now = self.data.app.clock.now();
        self.data
            .read(move |reader, _| key.stored_response(reader, now))
            .await
    }

    /// Runs `job`, which stores what the call creates. If the request repeats an `Idempotency-Key`,
    /// returns the stored response instead.
    pub(crate) async fn create<T, F>(&self, job: F) -> Result<Reply<T>>
    where
        T: Serialize + 'static,
        F: FnOnce(&mut Tx<'_>, &Shared, i64) -> Result<T> + Send + 'static,
    {
        let (operation, key) = (self.operation, self.idempotency_key()?);
        let created = self.data.write(move |tx, app, organization| {
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
    pub(crate) async fn read(&self) -> Result<B> {
        let (app, bytes) = (Arc::clone(&self.data.app), self.input.json_bytes()?);
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
