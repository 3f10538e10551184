//! `Idempotency-Key`: the first answer is kept, in the same transaction as
//! what it answers, and given again for 24 hours (`docs/undocumented/both-services.md#idempotency`).

use http::StatusCode;
use sha2::{Digest, Sha256};
use svc_sdk::{Operation, Service};

use super::answer::Answer;
use crate::error::{ApiError, Code};
use crate::store::Tx;
use crate::switches::Idempotency;
use crate::web::call::Call;

const KEPT: i64 = 24 * 3_600_000;
const LONGEST_KEY: usize = 255;

/// A request that is to be done once.
#[derive(Debug)]
pub(crate) struct Once {
    organization: i64,
    service: Service,
    key: String,
    /// Of operation, path and body.
    fingerprint: [u8; 32],
}

impl Once {
    /// What the request's `Idempotency-Key` asks for, if it has one.
    pub(crate) fn of(call: &Call, body: &[u8]) -> Result<Option<Self>, ApiError> {
        let honoured = call.app().settings.switches.idempotency == Idempotency::Honoured;
        let mut keys = call.input.parts.headers.get_all("idempotency-key").iter();
        let Some(key) = keys.next().filter(|_| honoured) else {
            return Ok(None);
        };
        if keys.next().is_some() {
            return Err(ApiError::field("Idempotency-Key", "is given more than once"));
        }
        let key = key.to_str().unwrap_or_default();
        let visible = key.bytes().all(|byte| byte.is_ascii_graphic());
        if !visible || !(1..=LONGEST_KEY).contains(&key.len()) {
            let message = format!("must be 1 to {LONGEST_KEY} visible ASCII characters");
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

    /// The answer that was given before, or 409 where it was to another request.
    pub(crate) fn earlier(&self, tx: &Tx<'_>) -> Result<Option<Answer>, ApiError> {
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
                "this Idempotency-Key was used with another request",
            ));
        }
        let status = StatusCode::from_u16(status).map_err(ApiError::internal)?;
        Ok(Some(Answer { status, body }))
    }

    /// Keeps the answer, and forgets some of those whose time has passed.
    pub(crate) fn keep(&self, tx: &Tx<'_>, answer: &Answer) -> Result<(), ApiError> {
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
                answer.status.as_u16(),
                &answer.body,
                tx.now + KEPT,
            ),
        )?;
        Ok(())
    }
}
