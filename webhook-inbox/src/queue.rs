//! The statements of the inbox: store a delivery, survey what is due, claim, finish, fail, give
//! back and purge. Their SQL is in `sql/`. A claim returns `Job`s, each with a token, and `finish` and
//! `fail` change a row only if its token is still the newest. `worker.rs` decides when each of them
//! runs.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::DeserializeOwned;
use svc_sql::{Value, params, read};
use webhook_verify::Delivery;

use crate::database::{Database, within};
use crate::{Accepted, Error, ErrorKind, Inbox, Job};

/// The newest version of the tables that this crate knows.
const VERSION: i64 = 2;

/// Ends the claim of a delivery, with the parameters of `claim_of`.
pub(crate) const FINISH: &str = include_str!("sql/finish.sql");

/// Where a delivery waits: 0 if it was never tried, 1 if it is tried again, and 2 if it is tried alone,
/// because its worker has vanished. An index begins with it.
const PLACE: &str = "CASE WHEN crashes > 0 THEN 2 WHEN delay > 0 THEN 1 ELSE 0 END";

/// The columns that `Job::read` reads.
pub(crate) const COLUMNS: &str =
    "id, token, attempts, received_at, scope, service, event, key, encode(body, 'hex')";

/// The statement that stores a delivery, with the parameters of `entry`. It may notify workers of
/// other processes.
pub(crate) fn insert(notifies: bool) -> String {
    let insert = include_str!("sql/insert.sql");
    if !notifies {
        return insert.to_owned();
    }
    format!(
        "WITH stored AS ({insert} RETURNING id) SELECT pg_notify('webhook_inbox', '') FROM stored"
    )
}

/// The parameters with which `insert` stores a delivery.
pub(crate) fn entry(delivery: &Delivery, scope: Option<&str>) -> Vec<Value> {
    let key = match scope {
        Some(scope) => delivery.key_in_namespace(scope),
        None => delivery.key().to_owned(),
    };
    params![
        &key,
        scope.or(delivery.tenant()),
        delivery.service().name(),
        delivery.event().as_str(),
        &**delivery.body(),
    ]
}

/// The meaning of so many rows that `insert` has stored.
pub(crate) fn accepted(stored: u64) -> Accepted {
    match stored {
        0 => Accepted::Duplicate,
        _ => Accepted::New,
    }
}

/// The parameters with which `FINISH` ends a claim.
pub(crate) fn claim_of(job: &Job, keep_bodies: bool) -> Vec<Value> {
    let nothing: &[u8] = &[];
    params![job.id, job.token, i64::from(keep_bodies), nothing]
}

/// A tenant whose deliveries may be due.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    /// Empty for deliveries without a scope.
    pub(crate) tenant: String,
    /// Whether retries may be due.
    pub(crate) retries: bool,
    /// Where the claims have come to: what is before was claimed, but for a few that `survey`
    /// finds. So a claim does not pass over the dead versions of rows that were claimed before.
    pub(crate) after: Position,
    /// How many deliveries it may give at most.
    pub(crate) quota: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) due_at: i64,
    pub(crate) id: i64,
}

/// The deliveries that wait in the table.
#[derive(Default)]
pub(crate) struct Survey {
    /// The tenants whose deliveries are due, and whether there are retries among them.
    pub(crate) tenants: BTreeMap<String, bool>,
    pub(crate) paused: Vec<String>,
    /// Whether a delivery is due that is tried alone.
    pub(crate) alone: bool,
}

impl<D: Database> Inbox<D> {
    /// Runs a statement, and returns its rows as tuples.
    pub(crate) async fn query<T: DeserializeOwned>(
        &self,
        statement: &str,
        parameters: Vec<Value>,
    ) -> Result<Vec<T>, Error> {
        let rows = within(self.database.query(statement, parameters)).await?;
        rows.into_iter().map(read).collect()
    }

    /// Runs a statement, and returns how many rows it has changed.
    pub(crate) async fn execute(
        &self,
        statement: &str,
        parameters: Vec<Value>,
    ) -> Result<u64, Error> {
        within(self.database.execute(statement, parameters)).await
    }

    /// Whether the tables exist and can be used.
    pub(crate) async fn check_schema(&self) -> Result<(), Error> {
        let versions = include_str!("sql/schema_version.sql");
        let found: Vec<(i64, Option<i64>)> = self.query(versions, params![]).await?;
        let oldest = found.first().map_or(0, |(oldest, _)| *oldest);
        if oldest <= VERSION {
            return Ok(());
        }
        let text = format!("the tables need version {oldest} or newer, this crate has {VERSION}");
        Err(Error::new(ErrorKind::OtherSchema, text))
    }

    pub(crate) async fn survey(&self) -> Result<Survey, Error> {
        let survey = include_str!("sql/survey.sql").replace("{place}", PLACE);
        let mut found = Survey::default();
        let rows: Vec<(String, String)> = self.query(&survey, params![]).await?;
        for (what, tenant) in rows {
            match what.as_str() {
                "fresh" => _ = found.tenants.entry(tenant).or_default(),
                "retries" => _ = found.tenants.insert(tenant, true),
                "paused" => found.paused.push(tenant),
                _ => found.alone = true,
            }
        }
        Ok(found)
    }

    /// Claims up to `limit` deliveries, from each tenant what its turn allows. The attempts count.
    pub(crate) async fn claim(
        &self,
        owner: i64,
        time_limit: Duration,
        turns: &[Turn],
        limit: usize,
    ) -> Result<Vec<Job>, Error> {
        let mut parameters = params![owner, time_limit];
        let mut parts = Vec::new();
        for turn in turns {
            parameters.push(Value::from(&turn.tenant));
            let fresh = include_str!("sql/fresh.sql");
            let retries = include_str!("sql/retries.sql");
            let part = if turn.retries {
                format!("SELECT id FROM ({retries} UNION ALL {fresh} LIMIT {{quota}}) turn")
            } else {
                fresh.to_owned()
            };
            let part = part
                .replace("{tenant}", &format!("${}", parameters.len()))
                .replace("{due_at}", &turn.after.due_at.to_string())
                .replace("{id}", &turn.after.id.to_string())
                .replace("{retries}", &turn.quota.div_ceil(2).to_string())
                .replace("{quota}", &turn.quota.to_string());
            parts.push(part);
        }

        let ids = format!("{} LIMIT {limit}", parts.join(" UNION ALL "));
        self.claim_rows(&ids, parameters).await
    }

    /// Claims a delivery whose worker has vanished. The attempt counts.
    pub(crate) async fn claim_alone(
        &self,
        owner: i64,
        time_limit: Duration,
    ) -> Result<Option<Job>, Error> {
        let ids = include_str!("sql/alone.sql");
        let jobs = self.claim_rows(ids, params![owner, time_limit]).await;
        Ok(jobs?.pop())
    }

    async fn claim_rows(&self, ids: &str, parameters: Vec<Value>) -> Result<Vec<Job>, Error> {
        let claim = include_str!("sql/claim.sql")
            .replace("{ids}", ids)
            .replace("{place}", PLACE)
            .replace("{columns}", COLUMNS);
        let rows = within(self.database.query(&claim, parameters)).await?;
        let jobs = rows.into_iter().filter_map(|row| {
            let id = row[0].clone();
            let job = Job::read(row);
            if job.is_err() {
                tracing::error!(?id, "a row of webhook_inbox cannot be read");
            }
            job.ok()
        });
        Ok(jobs.collect())
    }

    /// Ends a failed attempt: the delivery is due again after `retry_in`, or is a dead letter. The
    /// attempt may not count. Returns whether the claim was still valid.
    pub(crate) async fn fail(
        &self,
        job: &Job,
        error: &str,
        retry_in: Option<Duration>,
        counts: bool,
    ) -> Result<bool, Error> {
        let status = if retry_in.is_some() {
            "pending"
        } else {
            "dead"
        };
        let delay = retry_in.unwrap_or_default();
        let uncounted = i64::from(!counts);
        let parameters = params![job.id, job.token, status, delay, error, uncounted];
        Ok(self
            .execute(include_str!("sql/fail.sql"), parameters)
            .await?
            > 0)
    }

    /// Gives back what a worker holds, and that has ended; what a transaction still holds follows
    /// when that has ended. Returns whether that is all.
    pub(crate) async fn leave(&self, owner: i64) -> Result<bool, Error> {
        self.release(owner, [].iter()).await?;
        self.remove_worker(owner).await?;
        let held = include_str!("sql/held.sql");
        let held: Vec<(u64,)> = self.query(held, params![owner]).await?;
        Ok(held == [(0,)])
    }

    /// Gives back what a worker holds, but for these deliveries.
    pub(crate) async fn release(
        &self,
        owner: i64,
        except: impl Iterator<Item = &i64>,
    ) -> Result<(), Error> {
        // No row has the id 0, and a list must not be empty.
        let mut held = "0".to_owned();
        for id in except {
            held.push_str(&format!(", {id}"));
        }
        let release = include_str!("sql/release.sql").replace("{held}", &held);
        self.execute(&release, params![owner]).await?;
        Ok(())
    }

    /// Removes a worker, if it holds nothing.
    pub(crate) async fn remove_worker(&self, owner: i64) -> Result<(), Error> {
        self.execute(include_str!("sql/leave.sql"), params![owner])
            .await?;
        Ok(())
    }

    /// Shows that a worker runs. Returns the number of its beat, and the time of the database.
    pub(crate) async fn beat(&self, owner: i64, lease: Duration) -> Result<(i64, i64), Error> {
        let beat = include_str!("sql/beat.sql");
        let beats = self.query(beat, params![owner, lease]).await?;
        let missing = || Error::new(ErrorKind::Database, "the statement returned no row");
        beats.into_iter().next().ok_or_else(missing)
    }

    /// Deletes some of the deliveries that were handled longer ago than `retention`. Returns whether there may be more.
    pub(crate) async fn purge(&self, retention: Duration) -> Result<bool, Error> {
        let purge = include_str!("sql/purge.sql");
        Ok(self.execute(purge, params![retention]).await? > 0)
    }
}
