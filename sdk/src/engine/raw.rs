//! Raw requests, to endpoints that this crate does not model.

use std::sync::Arc;

use http::{HeaderValue, Method};
use serde::Serialize;

use super::call::Call;
use super::request::path;
use super::request::{OnRepetition, Payload, Request};
use super::response::{FromResponse, RawResponse};
use super::shared::Shared;
use crate::error::{Error, InvalidInput};
use crate::operation::Operation;

pub(crate) fn raw(shared: &Arc<Shared>, method: &str, path: &str) -> Call<RawResponse> {
    let request = || -> Result<Request, Error> {
        let method = Method::from_bytes(method.to_ascii_uppercase().as_bytes())
            .map_err(|_| InvalidInput::new("method", "not a valid HTTP method"))?;
        path::check_raw(path)?;
        // A documented path gets the operation's scope check, name in errors and retry
        // rules.
        let operation = path::documented(shared.target.service, &method, path);
        if let Some(operation) = operation {
            shared.check_scope(operation)?;
        }
        let reads = matches!(method, Method::GET | Method::HEAD);
        // Whichever service this client is for, its base URL may be that of the other.
        let is_refused = match operation {
            Some(operation) => {
                matches!(
                    operation,
                    Operation::EmailsSend | Operation::EmailsSendBatch
                )
            }
            None => !reads,
        };
        if let Some(guard) = shared.guard.as_ref().filter(|_| is_refused) {
            return Err(guard.refuse_raw().with_operation(operation));
        }
        Ok(Request {
            operation,
            idempotent: operation.map_or(reads, Operation::is_idempotent),
            method,
            path: path.to_owned().into(),
            payload: Payload::Empty,
            recipients: 0,
            idempotency_key: None,
            on_repetition: OnRepetition::Refused,
        })
    };
    Call::from_request(RawResponse::from_response, shared, request())
}

impl Call<RawResponse> {
    /// Declares whether the request is idempotent, that is, whether performing it twice has
    /// the same effect as performing it once. If so, it is also retried after ambiguous
    /// failures.
    pub fn idempotent(mut self, idempotent: bool) -> Self {
        if let Ok(request) = &mut self.request {
            request.idempotent = idempotent;
        }
        self
    }

    /// Adds a query parameter. Name and value are percent-encoded.
    pub fn query(mut self, name: impl AsRef<str>, value: impl AsRef<str>) -> Self {
        if let Ok(request) = &mut self.request {
            path::push_query(request.path.to_mut(), name.as_ref(), value.as_ref());
        }
        self
    }

    /// Sets a JSON body.
    pub fn json<B: Serialize + ?Sized>(self, body: &B) -> Self {
        let payload = Payload::json(&body);
        self.with_payload(payload)
    }

    /// Sets a body of any content type.
    pub fn body(self, body: impl Into<bytes::Bytes>, content_type: impl AsRef<str>) -> Self {
        let payload = HeaderValue::from_str(content_type.as_ref())
            .map(|content_type| Payload::Bytes(body.into(), content_type))
            .map_err(|_| {
                InvalidInput::new(
                    "content type",
                    "contains characters that are not allowed in a header",
                )
                .into()
            });
        self.with_payload(payload)
    }

    fn with_payload(mut self, payload: Result<Payload, Error>) -> Self {
        if let Ok(request) = &mut self.request {
            match payload {
                Ok(payload) => request.payload = payload,
                Err(error) => self.request = Err(error.with_operation(request.operation)),
            }
        }
        self
    }
}
