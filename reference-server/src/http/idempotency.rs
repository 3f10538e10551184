//! `Idempotency-Key`: the first response is stored for 24 hours and returned again for
//! a repeated request (`docs/undocumented/README.md#idempotency`).

use http::StatusCode;
use sha2::{Digest as _, Sha256};
use svc_sdk::{Operation, Point};

use crate::http::input::Input;
use crate::http::response::Reply;
use crate::model::{Code, Failure, Millis, Result};
use crate::store::idempotency::{self, Request};
use crate::store::{Reader, Tx};

const MAX_KEY_LENGTH: usize = 255;

/// The idempotency key of a request, unless it has none, or the server ignores it.
pub(crate) struct IdempotencyKey(Option<Request>);

impl IdempotencyKey {
    /// Reads the `Idempotency-Key` header.
    pub(crate) fn read(operation: Operation, input: &Input) -> Result<Self> {
        let ignored = input.dialect().is(Point::Idempotency, "ignored");
        let mut keys = input.parts.headers.get_all("idempotency-key").iter();
        let Some(key) = keys.next().filter(|_| !ignored) else {
            return Ok(Self(None));
        };
        if keys.next().is_some() {
            return Err(Failure::field("Idempotency-Key", "is given more than once"));
        }

        let key = key.to_str().unwrap_or_default();
        let visible = key.bytes().all(|byte| byte.is_ascii_graphic());
        if !visible || !(1..=MAX_KEY_LENGTH).contains(&key.len()) {
            let message = format!("must be 1 to {MAX_KEY_LENGTH} visible ASCII characters");
            return Err(Failure::field("Idempotency-Key", message));
        }

        let fingerprint = Sha256::new()
            .chain_update(operation.name())
            .chain_update([0])
            .chain_update(input.parts.uri.path())
            .chain_update([0])
            .chain_update(input.bytes()?)
            .finalize();
        Ok(Self(Some(Request {
            organization: input.organization,
            service: operation.service(),
            key: key.to_owned(),
            fingerprint: fingerprint.into(),
        })))
    }

    /// Whether the request has a key.
    pub(crate) fn is_given(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the stored response, or 409 if it belongs to a different request.
    pub(crate) fn stored_response<T>(
        &self,
        reader: Reader<'_>,
        now: Millis,
    ) -> Result<Option<Reply<T>>> {
        let Some(request) = &self.0 else {
            return Ok(None);
        };
        let Some(stored) = idempotency::find(reader, request, now)? else {
            return Ok(None);
        };
        if stored.fingerprint != request.fingerprint {
            return Err(Failure::new(
                Code::IdempotencyMismatch,
                "this Idempotency-Key was already used with a different request",
            ));
        }

        let status = StatusCode::from_u16(stored.status).map_err(Failure::internal)?;
        if status == StatusCode::PROCESSING {
            let message = "a request with this Idempotency-Key is in progress, or was interrupted \
                           by a restart; it is not repeated";
            return Err(Failure::new(Code::Conflict, message));
        }

        Ok(Some(Reply::new(status, stored.body.into())))
    }

    /// Stores the response, in the same transaction as what the request created, and
    /// deletes some expired ones.
    pub(crate) fn store_response<T>(&self, tx: &Tx<'_>, reply: &Reply<T>) -> Result<()> {
        match &self.0 {
            Some(request) => idempotency::put(tx, request, reply.status.as_u16(), &reply.body),
            None => Ok(()),
        }
    }
}
