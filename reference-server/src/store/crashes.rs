//! The table `crash`: background jobs that ended the server or met a defect of it. A job that
//! did so several times is set aside, so that the server and the other jobs go on.

use super::in_progress::{Job, Kind};
use crate::model::error::ApiError;
use crate::store::{
    Reader, Store, Tx, deliveries, due, emails, local_deliveries, pending_events, relay_queue,
};

/// Number of crashes after which a job is set aside.
const MAX_CRASHES: i64 = 3;

/// Counts the jobs that were in progress when the last server ended, which may have ended
/// because of one of them.
pub(crate) async fn count_interrupted(store: &Store) -> Result<(), ApiError> {
    let jobs = store.interrupted.clone();
    if !jobs.is_empty() {
        store.write(move |tx| jobs.iter().try_for_each(|job| count(tx, job))).await?;
    }
    store.in_progress.begin(!store.interrupted.is_empty());
    Ok(())
}

/// Counts the jobs that met a defect of this server since the last call. Returns whether there
/// were any.
pub(crate) async fn count_failed(store: &Store) -> Result<bool, ApiError> {
    let jobs = store.in_progress.take_failed();
    if jobs.is_empty() {
        return Ok(false);
    }
    let write = move |tx: &mut Tx<'_>| jobs.iter().try_for_each(|job| count(tx, job));
    store.write_relaxed(write).await?;
    Ok(true)
}

/// Counts a crash of a job. Sets the job aside if there were too many.
fn count(tx: &Tx<'_>, job: &Job) -> Result<(), ApiError> {
    let (kind, id) = (job.kind.as_str(), job.id.as_str());
    tx.execute(
        "INSERT INTO crash (kind, job, crashes, organization) VALUES (?1, ?2, 1, ?3)
         ON CONFLICT (kind, job) DO UPDATE SET crashes = crashes + 1,
             organization = COALESCE(excluded.organization, organization)",
        (kind, id, organization(tx.reader(), job)?),
    )?;
    let crashes = crashes(tx.reader(), job)?;
    if crashes < MAX_CRASHES {
        tracing::warn!(kind, id, "a job failed by a defect of this server; it is tried again");
        return Ok(());
    }
    tracing::error!(kind, id, "a job was set aside: it fails by a defect of this server");
    match job.kind {
        Kind::Due => due::set_aside(tx, id),
        Kind::Local => local_deliveries::set_aside(tx, id),
        Kind::Event => pending_events::set_aside(tx, id),
        Kind::Delivery => deliveries::set_aside(tx, id),
        // The worker asks, and the recipients of the email bounce.
        Kind::Relay if crashes == MAX_CRASHES => Ok(()),
        // Even that failed.
        Kind::Relay => relay_queue::delete(tx, id),
        Kind::Incoming => Ok(()),
    }
}

/// The organization that a job belongs to. `None` for a message received over SMTP, which may be
/// for several, and for a job whose data is deleted.
fn organization(reader: Reader<'_>, job: &Job) -> Result<Option<i64>, ApiError> {
    match job.kind {
        Kind::Due => {
            due::email_of(&job.id).map_or(Ok(None), |id| emails::organization(reader, &id))
        }
        Kind::Relay => emails::organization(reader, &job.id),
        Kind::Local => local_deliveries::organization(reader, &job.id),
        Kind::Event => Ok(pending_events::organization(&job.id)),
        Kind::Delivery => deliveries::organization(reader, &job.id),
        Kind::Incoming => Ok(None),
    }
}

/// Forgets a crash of an organization. Returns its size in bytes, or `None` if there is none.
pub(super) fn delete_next(tx: &mut Tx<'_>, organization: i64) -> Result<Option<i64>, ApiError> {
    let sql = "DELETE FROM crash WHERE (kind, job) =
                   (SELECT kind, job FROM crash WHERE organization = ?1 LIMIT 1)";
    Ok((tx.execute(sql, [organization])? > 0).then_some(0))
}

/// Forgets all crashes.
pub(super) fn clear(tx: &Tx<'_>) -> Result<(), ApiError> {
    tx.execute("DELETE FROM crash", [])?;
    Ok(())
}

pub(crate) fn is_set_aside(reader: Reader<'_>, job: &Job) -> Result<bool, ApiError> {
    Ok(crashes(reader, job)? >= MAX_CRASHES)
}

fn crashes(reader: Reader<'_>, job: &Job) -> Result<i64, ApiError> {
    let sql = "SELECT crashes FROM crash WHERE kind = ?1 AND job = ?2";
    let crashes = reader.find(sql, (job.kind.as_str(), &job.id), |row| row.get(0))?;
    Ok(crashes.unwrap_or(0))
}

/// The number of jobs that are set aside.
pub(crate) fn count_set_aside(reader: Reader<'_>) -> Result<i64, ApiError> {
    let sql = "SELECT COUNT(*) FROM crash WHERE crashes >= ?1";
    Ok(reader.find(sql, [MAX_CRASHES], |row| row.get(0))?.unwrap_or(0))
}
