//! The table `job`: all work that is due at a time of the server's clock, in queues. What a job is
//! about depends on its queue.
//!
//! Jobs of a queue that have the same lane are done one after the other, retries included, in the
//! order of their subjects, which are ids and sort by creation. So what happens to one email
//! reaches one webhook in order.

use rusqlite::Row;

use crate::clock::clock_wire::Due;
use crate::jobs::job::{Job, Queue};
use crate::model::{Millis, Result};
use crate::store::{Json, Reader, Tx};

/// Schedules a job, or schedules it again. In a lane, it waits for the jobs before it.
pub(crate) fn add(
    tx: &mut Tx<'_>,
    organization: i64,
    job: &Job,
    at: Millis,
    attempt: i64,
    lane: Option<&str>,
) -> Result<()> {
    let (queue, subject, position) = job.key();
    let sql = "INSERT INTO job (queue, subject, position, organization, lane, due_at, attempt)
               VALUES (?1, ?2, ?3, ?4, ?5,
                       CASE WHEN NOT EXISTS (SELECT 1 FROM job WHERE queue = ?1 AND lane = ?5)
                       THEN ?6 END, ?7)
               ON CONFLICT DO UPDATE SET due_at = excluded.due_at, attempt = excluded.attempt";
    tx.execute(
        sql,
        (queue, subject, position, organization, lane, at, attempt),
    )?;
    tx.jobs_added();
    Ok(())
}

/// Removes a job. The next one of its lane is due now. Returns whether there was one.
pub(crate) fn done(tx: &mut Tx<'_>, job: &Job) -> Result<bool> {
    let (queue, subject, position) = job.key();
    let sql = "UPDATE job SET due_at = ?4 WHERE due_at IS NULL AND queue = ?1 AND position = -1
               AND subject = (SELECT MIN(other.subject) FROM job JOIN job other USING (queue, lane)
                              WHERE job.queue = ?1 AND job.subject = ?2 AND job.position = ?3
                              AND other.subject <> ?2)";
    // The jobs of the other queues have no lanes.
    if matches!(job.queue, Queue::Webhook(_))
        && tx.execute(sql, (queue, subject, position, tx.now))? > 0
    {
        tx.jobs_added();
    }

    let sql = "DELETE FROM job WHERE queue = ?1 AND subject = ?2 AND position = ?3";
    Ok(tx.execute(sql, job.key())? > 0)
}

/// Schedules the next attempt of a job, unless it was removed in the meantime.
pub(crate) fn retry(tx: &mut Tx<'_>, job: &Job, at: Millis, attempt: i64) -> Result<()> {
    let (queue, subject, position) = job.key();
    let sql = "UPDATE job SET due_at = ?4, attempt = ?5
               WHERE queue = ?1 AND subject = ?2 AND position = ?3";
    if tx.execute(sql, (queue, subject, position, at, attempt))? > 0 {
        tx.jobs_added();
    }
    Ok(())
}

/// Removes all jobs of a queue.
pub(crate) fn clear(tx: &Tx<'_>, queue: &Queue) -> Result<()> {
    tx.execute("DELETE FROM job WHERE queue = ?1", [queue.as_str()])?;
    Ok(())
}

/// The jobs of a queue that are due up to `until`, each with its time, earliest first.
pub(crate) fn due(
    reader: Reader<'_>,
    queue: &Queue,
    until: Millis,
    limit: usize,
) -> Result<Vec<(Job, Millis)>> {
    let sql = "SELECT subject, position, due_at FROM job WHERE queue = ?1 AND due_at <= ?2
               ORDER BY due_at, subject, position LIMIT ?3";
    reader.all(sql, (queue.as_str(), until, limit as i64), |row| {
        let position = usize::try_from(row.get::<_, i64>(1)?).ok();
        Ok((
            Job {
                queue: queue.clone(),
                subject: row.get(0)?,
                position,
            },
            row.get(2)?,
        ))
    })
}

/// The due queue of an organization, after the first `offset`, earliest first: its jobs, and the expiry of
/// the oldest idempotency key.
pub(crate) fn upcoming(
    reader: Reader<'_>,
    organization: i64,
    now: Millis,
    has_relay: bool,
    limit: usize,
    offset: u32,
) -> Result<Vec<Due>> {
    let values = (organization, now, has_relay, limit as i64, offset);
    reader.all(include_str!("due.sql"), values, |row| {
        Ok(Due {
            at: row.get::<_, Millis>(0)?.into(),
            subject: row.get(1)?,
            kind: row.get(2)?,
            description: row.get(3)?,
        })
    })
}

/// Makes what is due later about a subject due now, or fails if nothing is.
pub(crate) fn hasten(tx: &mut Tx<'_>, organization: i64, subject: &str) -> Result<()> {
    tx.jobs_added();
    let sql = "UPDATE job SET due_at = ?3 WHERE organization = ?1 AND subject = ?2 AND due_at > ?3";
    tx.change(
        "work that is due later",
        sql,
        (organization, subject, tx.now),
    )
}

/// When the first job of a queue is due after `after`.
pub(crate) fn next_after(
    reader: Reader<'_>,
    queue: &Queue,
    after: Millis,
) -> Result<Option<Millis>> {
    let sql = "SELECT MIN(due_at) FROM job WHERE queue = ?1 AND due_at > ?2";
    Ok(reader
        .find(sql, (queue.as_str(), after), |row| row.get(0))?
        .flatten())
}

/// The queues that have jobs, each with the time when its first job is due. Without a relay, its jobs
/// wait for a server that has one.
pub(crate) fn queues(reader: Reader<'_>, has_relay: bool) -> Result<Vec<(Queue, Millis)>> {
    // One search of the index for each queue: some have many jobs.
    let sql = "SELECT queue, due_at FROM job WHERE due_at IS NOT NULL AND queue > ?1
               ORDER BY queue, due_at LIMIT 1";
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let mut queues = Vec::new();
    let mut last = String::new();
    while let Some((queue, at)) = reader.find(sql, [&last], read)? {
        last.clone_from(&queue);
        queues.push((Queue::from_text(queue), at));
    }

    queues.retain(|(queue, _)| has_relay || *queue != Queue::Relay);
    Ok(queues)
}

/// How many attempts a job has had; `None` if there is no such job.
pub(crate) fn attempt(reader: Reader<'_>, job: &Job) -> Result<Option<i64>> {
    let sql = "SELECT attempt FROM job WHERE queue = ?1 AND subject = ?2 AND position = ?3";
    Ok(reader.find(sql, job.key(), |row| row.get(0))?)
}

/// The positions of the recipients whose message the relay may have, as far as their outcomes are
/// not recorded: the last server ended before the relay confirmed the message.
pub(crate) fn handed_over(reader: Reader<'_>, email: &str) -> Result<Vec<usize>> {
    let sql = "SELECT handed_over FROM job WHERE queue = 'relay' AND subject = ?1";
    let found: Option<Option<Json<_>>> = reader.find(sql, [email], |row| row.get(0))?;
    Ok(found
        .flatten()
        .map(|Json(positions)| positions)
        .unwrap_or_default())
}

/// Records that the message for the recipients at these positions is about to be at the relay;
/// none if the outcomes are recorded. Fails if the email was deleted.
pub(crate) fn set_handed_over(tx: &Tx<'_>, email: &str, positions: &[usize]) -> Result<()> {
    let positions = (!positions.is_empty()).then_some(Json(positions));
    let sql = "UPDATE job SET handed_over = ?2 WHERE queue = 'relay' AND subject = ?1";
    tx.change("email", sql, (email, positions))
}
