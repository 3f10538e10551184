//! The body of a request, as the second parameter of a handler. A handler can read JSON only
//! through it, so its type is the one that the OpenAPI description has.

use std::marker::PhantomData;

use bytes::Bytes;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;

use super::input::{Input, object};
use crate::model::error::ApiError;
use crate::model::heavy;

pub(crate) trait RequestBody: Send + 'static {
    /// What the body is; `()` if it is ignored.
    type Content;

    const NEW: Self;

    fn describe(generator: &mut SchemaGenerator) -> Described;
}

/// The body of an operation in the OpenAPI description.
pub(crate) enum Described {
    None,
    Ignored,
    Json { required: bool, schema: Schema },
}

/// A JSON object; unless it is required, an empty body stands for `{}`.
pub(crate) struct Body<T, const REQUIRED: bool>(PhantomData<fn() -> T>);

pub(crate) type JsonBody<T> = Body<T, true>;
pub(crate) type OptionalBody<T> = Body<T, false>;

/// The operation has no body, but a body that was sent must be read.
pub(crate) struct IgnoredBody;

impl<T: DeserializeOwned + Send + 'static, const REQUIRED: bool> Body<T, REQUIRED> {
    pub(crate) async fn read(self, input: &mut Input) -> Result<T, ApiError> {
        let bytes = input.bytes().await?;
        if bytes.is_empty() && !REQUIRED {
            return object(b"{}");
        }
        input.expect_json()?;
        heavy::run_on(bytes.len(), move || object(&bytes)).await
    }

    #[expect(clippy::unused_self, reason = "the value stands for the type")]
    pub(crate) fn parse(self, bytes: &[u8]) -> Result<T, ApiError> {
        object(bytes)
    }
}

impl IgnoredBody {
    pub(crate) async fn read(self, input: &mut Input) -> Result<Bytes, ApiError> {
        input.bytes().await
    }
}

impl<T: JsonSchema + 'static, const REQUIRED: bool> RequestBody for Body<T, REQUIRED> {
    type Content = T;

    const NEW: Self = Self(PhantomData);

    fn describe(generator: &mut SchemaGenerator) -> Described {
        Described::Json { required: REQUIRED, schema: generator.subschema_for::<T>() }
    }
}

impl RequestBody for IgnoredBody {
    type Content = ();

    const NEW: Self = Self;

    fn describe(_: &mut SchemaGenerator) -> Described {
        Described::Ignored
    }
}
