//! The statements of the inbox, which are PostgreSQL's; `sqlite.rs` translates them.

use std::time::Duration;

use webhook_verify::Delivery;

use crate::claims::{ALONE, Claims, NOW, WAITING};
use crate::database::{Database, Row, Statement, Value, within};
use crate::{Accepted, Error, ErrorKind, Inbox, Job};

/// The newest version of the tables that this crate knows.
const VERSION: i64 = 2;

pub(crate) const CLAIMS: Claims = Claims {
    rows: "webhook_inbox",
    workers: "webhook_inbox_workers",
};

/// What `Job::read` reads.
pub(crate) const COLUMNS: &str =
    "id, token, attempts, received_at, scope, service, event, key, encode(body, 'hex')";

/// The statement that stores a delivery, with the parameters of `entry`. It may notify workers of
/// other processes.
pub(crate) fn insert(notifies: bool) -> Statement {
    let insert = format!(
        "INSERT INTO webhook_inbox (key, scope, service, event, body, received_at, due_at) \
         VALUES ($1, $2, $3, $4, $5, {NOW}, {NOW}) ON CONFLICT (key) DO NOTHING RETURNING id"
    );
    if !notifies {
        return insert.into();
    }
    format!(
        "WITH stored AS ({insert}) SELECT id, pg_notify('webhook_inbox', '') IS NULL FROM stored"
    )
    .into()
}

/// What `insert` needs to store a delivery.
pub(crate) fn entry(delivery: &Delivery, scope: Option<&str>) -> Vec<Value> {
    // PostgreSQL does not store NUL in a text.
    let text = |text: &str| Value::Text(text.replace('\0', "\u{fffd}"));
    let key = match scope {
        Some(scope) => text(&delivery.key_in_scope(scope)),
        None => text(delivery.key()),
    };
    vec![
        key,
        scope.or(delivery.tenant()).map_or(Value::Null, text),
        text(delivery.service().name()),
        text(delivery.event().as_str()),
        Value::Bytes(delivery.body().to_vec()),
    ]
}

pub(crate) fn accepted(rows: &[Row]) -> Accepted {
    if rows.is_empty() {
        Accepted::Duplicate
    } else {
        Accepted::New
    }
}

/// Ends the claim of a delivery. A handler's transaction begins with it: it locks the row until
/// the commit.
pub(crate) fn finish(job: &Job, keep_bodies: bool) -> String {
    let body = if keep_bodies { "" } else { ", body = ''" };
    let (id, token) = (job.id, job.token);
    format!(
        "UPDATE webhook_inbox SET status = 'done', owner = NULL, error = NULL, ended_at = {NOW}{body} \
         WHERE id = {id} AND token = {token} AND status = 'pending' RETURNING id"
    )
}

/// A tenant whose deliveries may be due.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    /// Empty for deliveries without a scope.
    pub(crate) tenant: String,
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

/// What waits in the table.
pub(crate) struct Survey {
    pub(crate) tenants: Vec<String>,
    pub(crate) paused: Vec<String>,
    /// Whether a delivery is due that is tried alone.
    pub(crate) alone: bool,
}

impl<D: Database> Inbox<D> {
    pub(crate) async fn query(
        &self,
        statement: impl Into<Statement> + Send,
        parameters: Vec<Value>,
    ) -> Result<Vec<Row>, Error> {
        within(self.database.query(statement.into(), parameters)).await
    }

    /// Whether the tables exist and can be used.
    pub(crate) async fn check_schema(&self) -> Result<(), Error> {
        let versions = "SELECT version, (SELECT max(version) FROM webhook_inbox_expanded) \
                        FROM webhook_inbox_schema ORDER BY version DESC LIMIT 1";
        let rows = self.query(versions, vec![]).await?;
        let oldest = rows.first().map_or(0, |row| row[0].int());
        if oldest <= VERSION {
            return Ok(());
        }
        let text = format!("the tables need version {oldest} or newer, this crate has {VERSION}");
        Err(Error::new(ErrorKind::OtherSchema, text))
    }

    /// Finds the tenants whose deliveries are due, with an index probe for each. It only reads, so
    /// that an idle worker takes no write lock of SQLite.
    pub(crate) async fn survey(&self) -> Result<Survey, Error> {
        let scope = "coalesce(scope, '')";
        let next = format!("SELECT min({scope}) FROM webhook_inbox WHERE {WAITING}");
        let survey = format!(
            "WITH RECURSIVE tenants (tenant) AS ({next} UNION ALL \
             SELECT ({next} AND {scope} > tenant) FROM tenants WHERE tenant IS NOT NULL) \
             SELECT 'due', tenant FROM tenants WHERE EXISTS (SELECT 1 FROM webhook_inbox \
             WHERE {WAITING} AND {scope} = tenant AND due_at <= {NOW}) \
             UNION ALL SELECT 'paused', scope FROM webhook_inbox_paused \
             UNION ALL SELECT 'alone', '' WHERE EXISTS (SELECT 1 FROM webhook_inbox \
             WHERE {ALONE} AND due_at <= {NOW})"
        );
        let mut found = Survey {
            tenants: Vec::new(),
            paused: Vec::new(),
            alone: false,
        };
        for row in self.query(survey, vec![]).await? {
            let mut columns = row.into_iter().filter_map(Value::text);
            let (what, tenant) = (columns.next(), columns.next().unwrap_or_default());
            match what.as_deref() {
                Some("due") => found.tenants.push(tenant),
                Some("paused") => found.paused.push(tenant),
                _ => found.alone = true,
            }
        }
        let paused = &found.paused;
        found.tenants.retain(|tenant| !paused.contains(tenant));
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
        let mut parameters = vec![Value::Int(owner), Value::millis(time_limit)];
        let mut parts = Vec::new();
        for turn in turns {
            let Position { due_at, id } = turn.after;
            parameters.push(Value::Text(turn.tenant.clone()));
            let (tenant, quota) = (parameters.len(), turn.quota);
            // Retries that are due come first, because they are due now and not when all that is
            // older was handled; they take half of the turn at most.
            let retries = quota.div_ceil(2);
            let due = format!(
                "SELECT id FROM webhook_inbox WHERE {WAITING} \
                 AND coalesce(scope, '') = ${tenant} AND due_at <= {NOW}"
            );
            // A delivery that was accepted within the last second may be committed later than
            // one after it.
            parts.push(format!(
                "SELECT id FROM (SELECT id FROM ({due} AND delay > 0 \
                 ORDER BY due_at, id LIMIT {retries} FOR UPDATE SKIP LOCKED) retry{tenant} \
                 UNION ALL SELECT id FROM ({due} AND delay = 0 AND (due_at, id) > \
                 (CASE WHEN {due_at} < {NOW} - 1000 THEN {due_at} ELSE {NOW} - 1000 END, \
                 CASE WHEN {due_at} < {NOW} - 1000 THEN {id} ELSE 0 END) \
                 ORDER BY due_at, id LIMIT {quota} FOR UPDATE SKIP LOCKED) first{tenant} \
                 LIMIT {quota}) turn{tenant}"
            ));
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
        let ids = format!(
            "SELECT id FROM webhook_inbox WHERE {ALONE} AND due_at <= {NOW} \
             AND coalesce(scope, '') NOT IN (SELECT scope FROM webhook_inbox_paused) \
             ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED"
        );
        let parameters = vec![Value::Int(owner), Value::millis(time_limit)];
        Ok(self.claim_rows(&ids, parameters).await?.pop())
    }

    async fn claim_rows(&self, ids: &str, parameters: Vec<Value>) -> Result<Vec<Job>, Error> {
        let rows = self.query(CLAIMS.claim(ids, COLUMNS), parameters).await?;
        let jobs = rows.into_iter().filter_map(|row| {
            let id = row[0].int();
            let job = Job::read(row);
            if let Err(error) = &job {
                let source = error.to_string();
                tracing::error!(id, error = source, "a row of webhook_inbox cannot be read");
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
        let parameters = vec![
            Value::Int(job.id),
            Value::Int(job.token),
            Value::Text(status.to_owned()),
            Value::millis(retry_in.unwrap_or_default()),
            Value::Text(error.to_owned()),
            Value::Int(i64::from(!counts)),
        ];
        Ok(!self.query(CLAIMS.fail(), parameters).await?.is_empty())
    }

    /// Gives back what a worker holds, and that has ended; what a transaction still holds follows
    /// when that has ended. Returns whether that is all.
    pub(crate) async fn leave(&self, owner: i64) -> Result<bool, Error> {
        let owner = vec![Value::Int(owner)];
        self.query(CLAIMS.release(&[]), owner.clone()).await?;
        self.query(CLAIMS.leave(), owner.clone()).await?;
        let held = self.query(CLAIMS.held(), owner).await?;
        Ok(held[0][0].int() == 0)
    }

    /// Deletes the deliveries that were handled longer ago than `retention`, up to a thousand and
    /// 16 MB of them. Returns whether there may be more.
    pub(crate) async fn purge(&self, retention: Duration) -> Result<bool, Error> {
        let purge = format!(
            "DELETE FROM webhook_inbox WHERE id IN (SELECT id FROM (\
             SELECT id, sum(length(body)) OVER (ORDER BY ended_at, id) - length(body) AS before FROM (\
             SELECT id, ended_at, body FROM webhook_inbox WHERE status = 'done' \
             AND ended_at <= {NOW} - $1 ORDER BY ended_at, id LIMIT 1000) old) sized \
             WHERE before < 16000000) RETURNING id"
        );
        let rows = self.query(purge, vec![Value::millis(retention)]).await?;
        Ok(!rows.is_empty())
    }
}
