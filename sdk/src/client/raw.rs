//! Requests that the documents do not show.

use std::sync::Arc;

use http::{HeaderValue, Method};
use serde::Serialize;

use super::call::Request;
use super::{Call, Payload, RawResponse, Shared, path};
use crate::error::Target;
use crate::{Error, InvalidInput};

pub(super) fn raw(shared: &Arc<Shared>, method: &str, path: &str) -> Call<RawResponse> {
    let invalid = |invalid| Error::from(invalid).with_target(Target::Raw);
    let request = || -> Result<Request, Error> {
        let method = Method::from_bytes(method.to_ascii_uppercase().as_bytes())
            .map_err(|_| invalid(InvalidInput::new("method", "no http method")))?;
        path::check_raw(path).map_err(invalid)?;
        // A path that the documents do show has its scope, its name in errors
        // and its harmlessness.
        let operation = path::documented(shared.service, &method, path);
        if let Some(operation) = operation {
            shared.check_scope(operation)?;
        }
        let reads = matches!(method, Method::GET | Method::HEAD);
        Ok(Request {
            target: operation.map_or(Target::Raw, Target::Operation),
            harmless: operation.map_or(reads, crate::Operation::is_idempotent),
            method,
            path: path.to_owned().into(),
            payload: Payload::Empty,
            expected: 0,
            organization: None,
        })
    };
    Call::from_request(shared, request())
}

impl Call<RawResponse> {
    /// Says that doing it twice is as doing it once, so that it is tried again
    /// after ambiguous failures too.
    pub fn idempotent(mut self, harmless: bool) -> Self {
        if let Ok(request) = &mut self.request {
            request.harmless = harmless;
        }
        self
    }

    /// A query parameter, percent-encoded.
    pub fn query(mut self, name: impl AsRef<str>, value: impl AsRef<str>) -> Self {
        if let Ok(request) = &mut self.request {
            path::push_query(request.path.to_mut(), name.as_ref(), value.as_ref());
        }
        self
    }

    /// A JSON body.
    pub fn json<B: Serialize + ?Sized>(self, body: &B) -> Self {
        let payload = Payload::json(&body);
        self.with_payload(payload)
    }

    /// A body of any content type.
    pub fn body(self, body: impl Into<bytes::Bytes>, content_type: impl AsRef<str>) -> Self {
        let payload = HeaderValue::from_str(content_type.as_ref())
            .map(|content_type| Payload::Bytes(body.into(), content_type))
            .map_err(|_| InvalidInput::new("content type", "no header can carry it").into());
        self.with_payload(payload)
    }

    fn with_payload(mut self, payload: Result<Payload, Error>) -> Self {
        if let Ok(request) = &mut self.request {
            match payload {
                Ok(payload) => request.payload = payload,
                Err(error) => self.request = Err(error.with_target(request.target)),
            }
        }
        self
    }
}
