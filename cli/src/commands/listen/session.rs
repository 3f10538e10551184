//! The webhook of one session: created at its start, deleted at its end.

use svc_sdk::{Secret, Service};

use super::leftover::Record;
use crate::context::Context;
use crate::failure::Failure;
use crate::webhook;

pub(super) struct Session {
    pub(super) id: String,
    /// The signing secret, if the response has one.
    pub(super) secret: Option<Secret>,
    service: Service,
    record: Option<Record>,
}

/// Creates a webhook for these events, and records it.
pub(super) async fn register(
    context: &Context,
    service: Service,
    url: &str,
    events: &[String],
) -> Result<Session, Failure> {
    let webhook = webhook::create(context, service, url, events).await?;
    // Without the record the session still works; only its leftover could not be found.
    let record = Record::store(context, service, &webhook.id, url).ok();
    Ok(Session { id: webhook.id, secret: webhook.secret, service, record })
}

/// Deletes the webhook. A failure says how to delete it by hand.
pub(super) async fn remove(context: &Context, session: &Session) -> Result<(), Failure> {
    webhook::delete(context, session.service, &session.id)
        .await
        .map_err(|failure| session.not_deleted(context, &failure.details().message))?;
    if let Some(record) = &session.record {
        record.remove();
    }
    Ok(())
}

impl Session {
    /// The failure for a webhook that could not be deleted.
    pub(super) fn not_deleted(&self, context: &Context, why: &str) -> Failure {
        let command = webhook::delete_command(context, self.service, &self.id);
        Failure::other(format!("webhook {} was not deleted: {why}", self.id))
            .code("webhook_not_deleted")
            .hint(format!("delete it: {command}"))
    }
}
