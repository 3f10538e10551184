//! Sends emails that were not sent when they were accepted: one step processes many of them in one
//! transaction.

use std::sync::Arc;

use crate::app::{App, Shared};
use crate::delivery::events;
use crate::delivery::sending::{self, MAX_ROWS};
use crate::model::error::{ApiError, Code};
use crate::model::job::Queue;
use crate::model::status::{Change, Status};
use crate::model::time::Millis;
use crate::store::{Reader, Tx, emails, jobs};

/// Maximum number of emails in one step.
const BATCH: usize = 128;

/// Processes emails that are due up to `until`. Moves on to the next due time only if nothing else
/// is due before it. Returns the time that it has reached.
pub(super) async fn step(app: Shared, until: Millis) -> Result<Millis, ApiError> {
    let write = |limit| {
        let context = Arc::clone(&app);
        app.store
            .write_relaxed(move |tx| run(tx, &context, until, limit))
    };
    // If the server has a defect, the first email by itself shows whether it is the cause.
    for limit in [BATCH, 1] {
        match write(limit).await {
            Err(error) if error.code() == Code::Internal => {}
            step => return step,
        }
    }
    let now = app.clock.now();
    let read = move |reader: Reader<'_>| jobs::due(reader, &Queue::Mail, until.max(now), 1);
    for (job, _) in app.store.read(read).await? {
        super::set_aside(&app, job).await?;
    }
    Ok(now)
}

fn run(tx: &mut Tx<'_>, app: &App, until: Millis, limit: usize) -> Result<Millis, ApiError> {
    for (job, at) in jobs::due(tx.reader(), &Queue::Mail, until.max(tx.now), limit)? {
        if tx.rows_written() > MAX_ROWS {
            break;
        }
        if at > tx.now {
            let queues = jobs::queues(tx.reader(), app.relay.is_some())?;
            if queues
                .iter()
                .any(|(queue, due)| *queue != Queue::Mail && *due < at)
            {
                break;
            }
            tx.now = at;
        }
        jobs::done(tx, &job)?;
        match job.position {
            None => send(tx, app, &job.subject)?,
            Some(position) => deliver_delayed(tx, app, &job.subject, position)?,
        }
    }
    Ok(tx.now)
}

fn send(tx: &mut Tx<'_>, app: &App, id: &str) -> Result<(), ApiError> {
    let email = emails::find(tx.reader(), id)?.filter(|email| email.status == Status::Queued);
    let Some(mut email) = email else {
        return Ok(());
    };
    sending::send(tx, app, &mut email)?;
    emails::update(tx, &email)
}

fn deliver_delayed(tx: &mut Tx<'_>, app: &App, id: &str, position: usize) -> Result<(), ApiError> {
    let Some(mut email) = emails::find(tx.reader(), id)? else {
        return Ok(());
    };
    // The control interface may have changed the recipient in the meantime.
    let status = email
        .recipients
        .get(position)
        .map(|recipient| recipient.status);
    if status != Some(Status::Sending) {
        return Ok(());
    }
    events::apply(tx, app, &mut email, position, Change::Delivered, None)?;
    emails::update(tx, &email)
}
