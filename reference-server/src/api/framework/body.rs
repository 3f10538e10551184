//! The body of a request, as the second parameter of a handler. A handler can read JSON only
//! through it, so its type is the one that the OpenAPI description has.

use std::marker::PhantomData;

use bytes::Bytes;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;

use super::input::{Input, object};
use super::unknown;
use crate::model::compatibility::Compatibility;
use crate::model::error::ApiError;
use crate::runtime::heavy;

pub(crate) trait RequestBody: Send + 'static {
    fn new(compatibility: &Compatibility) -> Self;

    fn describe(generator: &mut SchemaGenerator) -> Described;
}

/// The body of an operation in the OpenAPI description.
pub(crate) enum Described {
    None,
    Ignored,
    Json { required: bool, schema: Schema },
}

/// A JSON object.
pub(crate) struct JsonBody<T> {
    refuses_unknown: bool,
    of: PhantomData<fn() -> T>,
}

/// The operation has no body, but a body that was sent must be read.
pub(crate) struct IgnoredBody;

impl<T: DeserializeOwned + JsonSchema + Send + 'static> JsonBody<T> {
    pub(crate) async fn read(self, input: &mut Input) -> Result<T, ApiError> {
        let bytes = input.json_bytes().await?;
        heavy::run_on(bytes.len(), move || self.parse(&bytes)).await
    }

    pub(crate) fn parse(&self, bytes: &[u8]) -> Result<T, ApiError> {
        let value = object(bytes)?;
        if self.refuses_unknown {
            unknown::refuse::<T>(bytes)?;
        }
        Ok(value)
    }
}

impl<T> JsonBody<T> {
    /// A body of another type, which this one contains.
    pub(crate) fn part<P>(&self) -> JsonBody<P> {
        JsonBody { refuses_unknown: self.refuses_unknown, of: PhantomData }
    }
}

impl IgnoredBody {
    pub(crate) async fn read(self, input: &mut Input) -> Result<Bytes, ApiError> {
        input.bytes().await
    }
}

impl<T: JsonSchema + 'static> RequestBody for JsonBody<T> {
    fn new(compatibility: &Compatibility) -> Self {
        Self { refuses_unknown: compatibility.refuses_unknown_fields, of: PhantomData }
    }

    fn describe(generator: &mut SchemaGenerator) -> Described {
        Described::Json { required: true, schema: generator.subschema_for::<T>() }
    }
}

impl RequestBody for IgnoredBody {
    fn new(_: &Compatibility) -> Self {
        Self
    }

    fn describe(_: &mut SchemaGenerator) -> Described {
        Described::Ignored
    }
}
