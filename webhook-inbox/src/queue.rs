//! The statements of the inbox: store a delivery, survey what is due, claim, finish, fail, give
//! back and purge. They are PostgreSQL's; `sqlite.rs` translates them. What is true for any table
//! with claims, such as tokens and leases, is in `claims.rs`. A claim returns `Job`s, each with a
//! token, and `finish` and `fail` change a row only if its token is still the newest. `worker.rs`
//! decides when each of them runs.

use std::time::Duration;

use webhook_verify::Delivery;

use crate::claims::Claims;
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
    let insert = include_str!("sql/insert.sql");
    if !notifies {
        return insert.into();
    }
    let notify = "SELECT id, pg_notify('webhook_inbox', '') IS NULL FROM stored";
    format!("WITH stored AS ({insert}) {notify}").into()
}

/// What `insert` needs to store a delivery.
pub(crate) fn entry(delivery: &Delivery, scope: Option<&str>) -> Vec<Value> {
    // PostgreSQL does not store NUL in a text.
    let text = |text: &str| Value::Text(text.replace('\0', "\u{fffd}"));
    let key = match scope {
        Some(scope) => text(&delivery.key_in_namespace(scope)),
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

/// Ends the claim of a delivery.
pub(crate) fn finish(job: &Job, keep_bodies: bool) -> (String, Vec<Value>) {
    let body = if keep_bodies { "body" } else { "''" };
    let finish = CLAIMS.sql(include_str!("sql/finish.sql"));
    let claim = vec![Value::Int(job.id), Value::Int(job.token)];
    (finish.replace("{body}", body), claim)
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

    pub(crate) async fn survey(&self) -> Result<Survey, Error> {
        let survey = CLAIMS.sql(include_str!("sql/survey.sql"));
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
        let part = CLAIMS.sql(include_str!("sql/turn.sql"));
        for turn in turns {
            parameters.push(Value::Text(turn.tenant.clone()));
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
        let ids = CLAIMS.sql(include_str!("sql/alone.sql"));
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

    /// Deletes some of the deliveries that were handled longer ago than `retention`. Returns whether there may be more.
    pub(crate) async fn purge(&self, retention: Duration) -> Result<bool, Error> {
        let purge = CLAIMS.sql(include_str!("sql/purge.sql"));
        let rows = self.query(purge, vec![Value::millis(retention)]).await?;
        Ok(!rows.is_empty())
    }
}
