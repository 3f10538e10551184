//! `Idempotency-Key`: the first response is stored for 24 hours and returned again for
//! a repeated request (`docs/undocumented/both-services.md#idempotency`).

use http::StatusCode;
use sha2::{Digest, Sha256};
use svc_sdk::{Operation, Service};

use super::response::ApiResponse;
use crate::compatibility::Idempotency;
use crate::error::{ApiError, Code};
use crate::store::Tx;
use crate::web::call::Call;

/// How long a response is stored, in milliseconds.
const LIFETIME: i64 = 24 * 3_600_000;
const MAX_KEY_LENGTH: usize = 255;

/// The idempotency key of a request.
#[derive(Debug)]
pub(crate) struct IdempotencyKey {
    organization: i64,
    service: Service,
    key: String,
    /// Hash of the operation, path and body.
    fingerprint: [u8; 32],
}

impl IdempotencyKey {
    /// Reads the `Idempotency-Key` header, unless the server ignores it.
    pub(crate) fn from_call(call: &Call, body: &[u8]) -> Result<Option<Self>, ApiError> {
        let honored = call.app().settings.compatibility.idempotency == Idempotency::Honored;
        let mut keys = call.input.parts.headers.get_all("idempotency-key").iter();
        let Some(key) = keys.next().filter(|_| honored) else {
            return Ok(None);
        };
        if keys.next().is_some() {
            return Err(ApiError::field("Idempotency-Key", "is given more than once"));
        }
        let key = key.to_str().unwrap_or_default();
        let visible = key.bytes().all(|byte| byte.is_ascii_graphic());
        if !visible || !(1..=MAX_KEY_LENGTH).contains(&key.len()) {
            let message = format!("must be 1 to {MAX_KEY_LENGTH} visible ASCII characters");
            return Err(ApiError::field("Idempotency-Key", message));
        }
        let operation: Operation = call.operation;
        let fingerprint = Sha256::new()
            .chain_update(operation.name())
            .chain_update([0])
            .chain_update(call.input.parts.uri.path())
            .chain_update([0])
            .chain_update(body)
            .finalize();
        Ok(Some(Self {
            organization: call.organization(),
            service: operation.service(),
            key: key.to_owned(),
            fingerprint: fingerprint.into(),
        }))
    }

    /// Returns the stored response, or 409 if it belongs to a different request.
    pub(crate) fn stored_response(&self, tx: &Tx<'_>) -> Result<Option<ApiResponse>, ApiError> {
        let found = tx.find(
            "SELECT fingerprint, status, body FROM idempotency
             WHERE organization = ?1 AND service = ?2 AND key = ?3 AND expires_at > ?4",
            (self.organization, self.service.as_str(), &self.key, tx.now),
            |row| Ok((row.get::<_, [u8; 32]>(0)?, row.get::<_, u16>(1)?, row.get(2)?)),
        )?;
        let Some((fingerprint, status, body)) = found else { return Ok(None) };
        if fingerprint != self.fingerprint {
            return Err(ApiError::new(
                Code::IdempotencyMismatch,
                "this Idempotency-Key was already used with a different request",
            ));
        }
        let status = StatusCode::from_u16(status).map_err(ApiError::internal)?;
        if status == StatusCode::PROCESSING {
            let message = "a request with this Idempotency-Key is in progress, or was interrupted \
                           by a restart; it is not repeated";
            return Err(ApiError::new(Code::Conflict, message));
        }
        Ok(Some(ApiResponse { status, body }))
    }

    /// Stores the response, in the same transaction as what the request created, and
    /// deletes some expired ones.
    pub(crate) fn store_response(
        &self,
        tx: &Tx<'_>,
        response: &ApiResponse,
    ) -> Result<(), ApiError> {
        tx.execute(
            "DELETE FROM idempotency WHERE (organization, service, key) IN
             (SELECT organization, service, key FROM idempotency WHERE expires_at <= ?1 LIMIT 8)",
            [tx.now],
        )?;
        tx.execute(
            "INSERT OR REPLACE INTO idempotency VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            (
                self.organization,
                self.service.as_str(),
                &self.key,
                self.fingerprint,
                response.status.as_u16(),
                &response.body,
                tx.now + LIFETIME,
            ),
        )?;
        Ok(())
    }
}
