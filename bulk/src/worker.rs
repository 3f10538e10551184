//! What a worker does in the ledger. Each operation may be repeated when it is not known whether it
//! was committed: the worker chooses the ids of its requests.

use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

use crate::database::{Durability, Row, Transaction, Value};
use crate::ledger::millis;
use crate::record::{RowOutcome, RowRefusal};
use crate::request::{Cause, Request};
use crate::{Ledger, LedgerError, LedgerErrorKind, SendState, Totals};

/// How long a worker waits for a database that is not available.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long one operation may take.
const OPERATION: Duration = Duration::from_secs(20);

/// One that sends the rows of a send.
pub(crate) struct Worker {
    ledger: Ledger,
    send: i64,
    id: String,
    /// How long the service remembers the keys of requests, if it does.
    key_life: Option<Duration>,
}

/// A row that was claimed.
pub(crate) struct ClaimedRow {
    pub(crate) number: u64,
    pub(crate) data: String,
}

/// Rows that are to be sent in one request.
pub(crate) struct Claim {
    pub(crate) request: String,
    pub(crate) rows: Vec<ClaimedRow>,
    /// Whether the request was sent before, and is repeated with its key.
    pub(crate) repeats: bool,
}

/// What a worker may do next.
pub(crate) enum Claimed {
    Rows(Claim),
    /// Nothing can be claimed now, but others hold rows or send them, which may wait again.
    Others,
    Nothing,
    /// The send is paused or cancelled.
    Not(SendState),
    /// Others have taken the rows of the worker over.
    Lost,
}

/// Whether a request may be sent.
pub(crate) enum Begin {
    Now,
    /// Ask again after this time.
    Later(Duration),
    /// The send was paused; the rows stay held.
    Paused,
    /// Not at all: the send was cancelled, or others have taken the rows over.
    Lost,
    /// Not at all: the service has forgotten its key. Its rows are unknown.
    Forgotten,
}

/// A send as its workers see it.
pub(crate) struct Seen {
    pub(crate) state: SendState,
    /// Why the service refuses the emails, if that has paused the send.
    pub(crate) cause: Option<RowRefusal>,
    /// Whether the worker still has its rows.
    pub(crate) is_alive: bool,
}

impl Worker {
    /// Joins those who send this send.
    pub(crate) async fn join(
        ledger: &Ledger,
        send: i64,
        key_life: Option<Duration>,
    ) -> Result<Self, LedgerError> {
        let worker = Self {
            ledger: ledger.clone(),
            send,
            id: Uuid::new_v4().simple().to_string(),
            key_life,
        };
        worker.persist(|| Box::pin(worker.register())).await?;
        Ok(worker)
    }

    async fn register(&self) -> Result<(), LedgerError> {
        const INSERT: &str = "INSERT INTO bulk_workers (id, send, lease_until) \
            VALUES ($1, $2, NOW() + $3) ON CONFLICT (id) DO NOTHING";
        let mut tx = self.begin_transaction(Durability::Process).await?;
        let values = vec![self.id(), self.send.into(), millis(self.ledger.lease)];
        tx.query(INSERT, values).await?;
        tx.query(CHANGED, vec![self.send.into()]).await?;
        tx.commit().await
    }

    /// Leaves: what it holds waits again. Requests in flight, if there are any, are unknown.
    pub(crate) async fn leave(&self) -> Result<(), LedgerError> {
        self.persist(|| {
            Box::pin(async move {
                let mut tx = self.begin_transaction(Durability::Full).await?;
                tx.query("DELETE FROM bulk_workers WHERE id = $1", vec![self.id()])
                    .await?;
                release(&mut tx, &self.id).await?;
                tx.query(CHANGED, vec![self.send.into()]).await?;
                tx.commit().await
            })
        })
        .await
    }

    /// Tells that it is alive, and takes over from those who are not. It has to be called several
    /// times in the time of a lease.
    pub(crate) async fn beat(&self) -> Result<Seen, LedgerError> {
        const RENEW: &str =
            "UPDATE bulk_workers SET lease_until = NOW() + $2 WHERE id = $1 RETURNING id";
        const DEAD: &str = "SELECT id FROM bulk_workers WHERE lease_until < NOW() AND send = $1";
        const BURY: &str =
            "DELETE FROM bulk_workers WHERE id = $1 AND lease_until < NOW() RETURNING id";
        self.persist(|| {
            Box::pin(async move {
                let mut tx = self.begin_transaction(Durability::Process).await?;
                let renewed = tx
                    .query(RENEW, vec![self.id(), millis(self.ledger.lease)])
                    .await?;
                tx.commit().await?;

                let dead = self.ledger.database.query(DEAD, vec![self.send.into()]);
                for row in dead.await? {
                    let Some(id) = row.into_iter().next().and_then(Value::text) else {
                        continue;
                    };
                    let mut tx = self.begin_transaction(Durability::Full).await?;
                    let buried = tx.query(BURY, vec![id.as_str().into()]).await?;
                    if !buried.is_empty() {
                        release(&mut tx, &id).await?;
                        tx.query(CHANGED, vec![self.send.into()]).await?;
                    }
                    tx.commit().await?;
                }

                let mut seen = self.look().await?;
                seen.is_alive = !renewed.is_empty();
                Ok(seen)
            })
        })
        .await
    }

    async fn look(&self) -> Result<Seen, LedgerError> {
        const SELECT: &str =
            "SELECT state, paused_cause, code, message FROM bulk_sends WHERE send = $1";
        let found = self.ledger.database.query(SELECT, vec![self.send.into()]);
        let Some(row) = found.await?.into_iter().next() else {
            // Somebody has removed it.
            return Ok(Seen {
                state: SendState::Cancelled,
                cause: None,
                is_alive: false,
            });
        };
        let mut row = row.into_iter().map(Value::text);
        let [state, cause, code, message] = std::array::from_fn(|_| row.next().flatten());
        let state = state.as_deref().and_then(SendState::parse);
        let state = state.ok_or_else(LedgerError::unreadable)?;
        let is_refused = cause.is_some() && state == SendState::Paused;
        Ok(Seen {
            state,
            cause: is_refused.then_some(RowRefusal { code, message }),
            is_alive: true,
        })
    }

    pub(crate) async fn totals(&self) -> Result<Totals, LedgerError> {
        self.persist(|| Box::pin(self.ledger.totals_of(self.send)))
            .await
    }

    /// Claims up to `size` rows that wait, or a request that can be repeated.
    pub(crate) async fn claim(&self, size: usize) -> Result<Claimed, LedgerError> {
        let request = Uuid::new_v4().simple().to_string();
        self.persist(|| Box::pin(self.try_claim(&request, size)))
            .await
    }

    async fn try_claim(&self, request: &str, size: usize) -> Result<Claimed, LedgerError> {
        const STATE: &str = "SELECT run, space, state FROM bulk_sends WHERE send = $1";
        // PostgreSQL may run a subquery several times, each of which locks other rows.
        const CLAIM: &str = "WITH due AS MATERIALIZED (SELECT number FROM bulk_rows \
            WHERE send = $1 AND status = 'waiting' ORDER BY number LIMIT $3 \
            FOR UPDATE SKIP LOCKED) UPDATE bulk_rows SET status = 'held', request = $2 \
            WHERE send = $1 AND number IN (SELECT number FROM due) RETURNING number, data";
        const INSERT: &str = "INSERT INTO bulk_requests (id, send, worker) VALUES ($1, $2, $3)";
        const HAVE: &str = "SELECT number, data FROM bulk_rows WHERE request = $1";
        const HAVE_REPEAT: &str =
            "SELECT id FROM bulk_requests WHERE send = $1 AND state = 'in_flight' AND claim = $2";
        const OTHERS: &str = "SELECT number FROM bulk_rows WHERE send = $1 \
            AND status IN ('waiting', 'held', 'in_flight') LIMIT 1";
        let mut tx = self.begin_transaction(Durability::Process).await?;
        if !self.is_alive(&mut tx).await? {
            return Ok(Claimed::Lost);
        }
        // An earlier attempt may have been committed, whatever the state of the send is since.
        let rows = tx.query(HAVE, vec![request.into()]).await?;
        if !rows.is_empty() {
            return Ok(Claimed::Rows(Claim {
                request: request.to_owned(),
                rows: claimed(rows),
                repeats: false,
            }));
        }
        let values = vec![self.send.into(), request.into()];
        let repeated = tx.query(HAVE_REPEAT, values).await?;
        if let Some(claim) = self.repeat(&mut tx, repeated).await? {
            tx.commit().await?;
            return Ok(Claimed::Rows(claim));
        }

        let found = tx.query(STATE, vec![self.send.into()]).await?;
        let Some(found) = found.into_iter().next() else {
            return Ok(Claimed::Lost);
        };
        let run = found[0].int();
        // No request takes more than the emails of a second.
        let space = found[1].int().max(1);
        let size = (1_000_000 / space).clamp(1, size as i64);
        let state = found.into_iter().nth(2).and_then(Value::text);
        match state.as_deref().and_then(SendState::parse) {
            Some(SendState::Running) => {}
            Some(state) => return Ok(Claimed::Not(state)),
            None => return Err(LedgerError::unreadable()),
        }
        if let Some(claim) = self.claim_repeat(&mut tx, request, run).await? {
            tx.commit().await?;
            return Ok(Claimed::Rows(claim));
        }

        let values = vec![self.send.into(), request.into(), size.into()];
        let rows = tx.query(CLAIM, values).await?;
        if rows.is_empty() {
            let others = tx.query(OTHERS, vec![self.send.into()]).await?;
            return Ok(match others.is_empty() {
                true => Claimed::Nothing,
                false => Claimed::Others,
            });
        }
        let values = vec![request.into(), self.send.into(), self.id()];
        tx.query(INSERT, values).await?;
        tx.commit().await?;
        Ok(Claimed::Rows(Claim {
            request: request.to_owned(),
            rows: claimed(rows),
            repeats: false,
        }))
    }

    /// Claims a request whose outcome is unknown, and that the service does not process twice.
    async fn claim_repeat(
        &self,
        tx: &mut Transaction,
        claim: &str,
        run: i64,
    ) -> Result<Option<Claim>, LedgerError> {
        const CLAIM: &str = "WITH due AS MATERIALIZED (SELECT id FROM bulk_requests \
            WHERE send = $1 AND state = 'unknown' AND keyed = 1 AND tried < $3 \
            AND sent_at > NOW() - $4 ORDER BY sent_at LIMIT 1 FOR UPDATE SKIP LOCKED) \
            UPDATE bulk_requests SET state = 'in_flight', worker = $2, tried = $3, claim = $5 \
            WHERE id IN (SELECT id FROM due) RETURNING id";
        let Some(life) = self.key_life else {
            return Ok(None);
        };
        let run = run.into();
        let values = vec![self.send.into(), self.id(), run, millis(life), claim.into()];
        let found = tx.query(CLAIM, values).await?;
        self.repeat(tx, found).await
    }

    /// The claim of a request that was found, if one was.
    async fn repeat(
        &self,
        tx: &mut Transaction,
        found: Vec<Row>,
    ) -> Result<Option<Claim>, LedgerError> {
        const ROWS: &str = "UPDATE bulk_rows SET status = 'in_flight' WHERE request = $1 \
            RETURNING number, data";
        let Some(id) = found
            .into_iter()
            .next()
            .and_then(|mut row| row.remove(0).text())
        else {
            return Ok(None);
        };
        let rows = tx.query(ROWS, vec![id.as_str().into()]).await?;
        Ok(Some(Claim {
            request: id,
            rows: claimed(rows),
            repeats: true,
        }))
    }

    /// Records that no valid email can be made of rows.
    pub(crate) async fn invalid(&self, rows: &[(u64, String)]) -> Result<(), LedgerError> {
        const UPDATE: &str = "UPDATE bulk_rows SET status = 'invalid', request = NULL, \
            message = $3, at = NOW() WHERE send = $1 AND number = $2 AND status = 'held'";
        self.persist(|| {
            Box::pin(async move {
                let values = rows.iter().map(|(number, message)| {
                    let refusal = RowRefusal::new(None, Some(message));
                    let message = Value::option(refusal.message.as_deref());
                    vec![self.send.into(), (*number).into(), message]
                });
                let mut tx = self.begin_transaction(Durability::Process).await?;
                if self.is_alive(&mut tx).await? {
                    tx.each(UPDATE, values.collect()).await?;
                }
                tx.commit().await
            })
        })
        .await
    }

    /// Makes several requests of one that was not sent: the first has the rows up to the first of
    /// these numbers, and so on. Returns their ids, and none if others have taken the rows over.
    pub(crate) async fn split(
        &self,
        request: &str,
        last_rows: &[u64],
    ) -> Result<Vec<String>, LedgerError> {
        const INSERT: &str = "INSERT INTO bulk_requests (id, send, worker) VALUES ($1, $2, $3) \
            ON CONFLICT (id) DO NOTHING";
        const MOVE: &str = "UPDATE bulk_rows SET request = $2 WHERE request = $1 AND number <= $3";
        const DELETE: &str = "DELETE FROM bulk_requests WHERE id = $1";
        let ids = last_rows
            .iter()
            .map(|_| Uuid::new_v4().simple().to_string());
        let ids = &ids.collect::<Vec<_>>();
        self.persist(|| {
            Box::pin(async move {
                let mut tx = self.begin_transaction(Durability::Process).await?;
                if !self.is_alive(&mut tx).await? {
                    return Ok(Vec::new());
                }
                for (id, last) in ids.iter().zip(last_rows) {
                    let values = vec![id.as_str().into(), self.send.into(), self.id()];
                    tx.query(INSERT, values).await?;
                    let values = vec![request.into(), id.as_str().into(), (*last).into()];
                    tx.query(MOVE, values).await?;
                }
                tx.query(DELETE, vec![request.into()]).await?;
                tx.commit().await?;
                Ok(ids.clone())
            })
        })
        .await
    }

    /// Removes a request of which no row is left.
    pub(crate) async fn drop_request(&self, request: &str) -> Result<(), LedgerError> {
        let delete = "DELETE FROM bulk_requests WHERE id = $1 RETURNING id";
        let values = || vec![request.into()];
        self.persist(|| {
            Box::pin(async move { self.ledger.database.query(delete, values()).await.map(drop) })
        })
        .await
    }

    /// Records, durably, that a request is about to be sent, if it may be sent now.
    pub(crate) async fn begin(&self, request: &Request) -> Result<Begin, LedgerError> {
        self.persist(|| Box::pin(self.try_begin(request))).await
    }

    async fn try_begin(&self, request: &Request) -> Result<Begin, LedgerError> {
        const STATE: &str = "SELECT space, not_before - NOW() * 1000, state FROM bulk_sends \
            WHERE send = $1";
        const LOCKED: &str = "SELECT space, not_before - NOW() * 1000, state FROM bulk_sends \
            WHERE send = $1 FOR UPDATE";
        const SPACE: &str = "UPDATE bulk_sends SET not_before = NOW() * 1000 + $2 WHERE send = $1";
        const SENT: &str = "UPDATE bulk_requests SET state = 'in_flight', sent_at = NOW(), \
            keyed = $3 WHERE id = $1 AND worker = $2 AND state <> 'unknown' RETURNING id";
        const REPEATED: &str = "SELECT id FROM bulk_requests WHERE id = $1 AND worker = $2 \
            AND state = 'in_flight' AND sent_at > NOW() - $3";
        const ROWS: &str = "UPDATE bulk_rows SET status = 'in_flight', at = NOW(), \
            code = NULL, message = NULL WHERE request = $1 AND status = 'held'";
        let mut tx = self.begin_transaction(Durability::Full).await?;
        if !self.is_alive(&mut tx).await? {
            return Ok(Begin::Lost);
        }
        let mut found = tx.query(STATE, vec![self.send.into()]).await?;
        if found.first().is_some_and(|row| row[0].int() > 0) {
            // Only a rate needs the lock, for which all workers wait.
            found = tx.query(LOCKED, vec![self.send.into()]).await?;
        }
        let Some(found) = found.into_iter().next() else {
            return Ok(Begin::Lost);
        };
        let space = found[0].int();
        let wait = found[1].int();
        let state = found.into_iter().nth(2).and_then(Value::text);
        match state.as_deref().and_then(SendState::parse) {
            Some(SendState::Running) => {}
            Some(SendState::Paused) => return Ok(Begin::Paused),
            _ => return Ok(Begin::Lost),
        }
        if wait > 0 {
            return Ok(Begin::Later(Duration::from_micros(wait as u64)));
        }

        let id = request.id.as_str();
        if request.repeats {
            let life = millis(self.key_life.unwrap_or_default());
            let values = vec![id.into(), self.id(), life];
            if tx.query(REPEATED, values).await?.is_empty() {
                return Ok(Begin::Forgotten);
            }
        } else {
            let keyed = i64::from(self.key_life.is_some());
            let values = vec![id.into(), self.id(), keyed.into()];
            if tx.query(SENT, values).await?.is_empty() {
                return Ok(Begin::Lost);
            }
            tx.query(ROWS, vec![id.into()]).await?;
        }
        if space > 0 {
            let space = space.saturating_mul(request.rows.len() as i64);
            tx.query(SPACE, vec![self.send.into(), space.into()])
                .await?;
        }
        tx.commit().await?;
        Ok(Begin::Now)
    }

    /// Records the outcome of each row of a request. `cause` is that of all, if they were refused
    /// for one. Returns what has paused the send, if this request has.
    pub(crate) async fn conclude(
        &self,
        request: &str,
        outcomes: &[(u64, RowOutcome)],
        cause: Option<&(Cause, RowRefusal)>,
    ) -> Result<bool, LedgerError> {
        self.persist(|| Box::pin(self.try_conclude(request, outcomes, cause)))
            .await
    }

    async fn try_conclude(
        &self,
        request: &str,
        outcomes: &[(u64, RowOutcome)],
        cause: Option<&(Cause, RowRefusal)>,
    ) -> Result<bool, LedgerError> {
        const OWN: &str = "SELECT id FROM bulk_requests WHERE id = $1 AND worker = $2 FOR UPDATE";
        const ACCEPTED: &str = "UPDATE bulk_rows SET status = 'accepted', id = $4, request = NULL, \
            code = NULL, message = NULL, at = NOW() WHERE send = $1 AND number = $2 \
            AND request = $3";
        const REFUSED: &str = "UPDATE bulk_rows SET status = 'refused', request = NULL, \
            code = $4, message = $5, cause = $6, at = NOW(), \
            run = (SELECT run FROM bulk_sends WHERE send = $1) \
            WHERE send = $1 AND number = $2 AND request = $3";
        const UNKNOWN: &str = "UPDATE bulk_rows SET status = 'unknown', code = 'not_told' \
            WHERE request = $1";
        const DONE: &str = "DELETE FROM bulk_requests WHERE id = $1";
        // Its key belongs to more rows than are left of it.
        const PART: &str = "UPDATE bulk_requests SET state = 'unknown', keyed = 0 WHERE id = $1";
        const END_STREAK: &str = "UPDATE bulk_sends SET streak = 0, streak_cause = NULL \
            WHERE send = $1 AND streak > 0";
        let cause_text = cause.map(|(cause, _)| cause.to_string());
        let (mut accepted, mut refused) = (Vec::new(), Vec::new());
        for (number, outcome) in outcomes {
            let row = vec![self.send.into(), (*number).into(), request.into()];
            match outcome {
                RowOutcome::Accepted(id) => {
                    accepted.push([row, vec![id.as_str().into()]].concat());
                }
                RowOutcome::Refused(why) => {
                    let why = vec![
                        Value::option(why.code.as_deref()),
                        Value::option(why.message.as_deref()),
                        Value::option(cause_text.as_deref()),
                    ];
                    refused.push([row, why].concat());
                }
                RowOutcome::Unknown => {}
            }
        }
        let is_complete = accepted.len() + refused.len() == outcomes.len();

        let mut tx = self.begin_transaction(Durability::Process).await?;
        self.is_alive(&mut tx).await?;
        // Also if it is not alive: its outcome is the only one that its request has, unless others
        // repeat it. Then theirs counts, and a refusal here says nothing about it.
        let values = vec![request.into(), self.id()];
        if tx.query(OWN, values).await?.is_empty() {
            return Ok(false);
        }
        tx.each(ACCEPTED, accepted).await?;
        tx.each(REFUSED, refused).await?;
        if is_complete {
            tx.query(DONE, vec![request.into()]).await?;
        } else {
            tx.query(UNKNOWN, vec![request.into()]).await?;
            tx.query(PART, vec![request.into()]).await?;
        }
        let is_paused = match cause {
            Some((cause, why)) => {
                let count = outcomes.len() as i64;
                self.count_refusals(&mut tx, cause, why, count).await?
            }
            None => {
                tx.query(END_STREAK, vec![self.send.into()]).await?;
                false
            }
        };
        tx.commit().await?;
        Ok(is_paused)
    }

    /// Counts refusals for one cause, and pauses the send after too many of them. Rows that were
    /// refused for a cause of the whole send in this run wait again, also those of requests that
    /// were in flight when it was paused.
    async fn count_refusals(
        &self,
        tx: &mut Transaction,
        cause: &Cause,
        why: &RowRefusal,
        count: i64,
    ) -> Result<bool, LedgerError> {
        const COUNT: &str = "UPDATE bulk_sends SET \
            streak = CASE WHEN streak_cause = $2 THEN streak + $3 ELSE $3 END, streak_cause = $2 \
            WHERE send = $1 RETURNING streak, paused_cause";
        let text = cause.to_string();
        let values = vec![self.send.into(), text.as_str().into(), count.into()];
        let found = tx.query(COUNT, values).await?;
        let Some(found) = found.into_iter().next() else {
            return Ok(false);
        };
        let streak = found[0].int();
        let paused = found.into_iter().nth(1).and_then(Value::text);
        let is_paused = paused.as_deref() == Some(text.as_str());
        if !is_paused && streak < cause.limit() {
            return Ok(false);
        }
        self.pause_for(tx, cause, why).await?;
        Ok(true)
    }

    async fn pause_for(
        &self,
        tx: &mut Transaction,
        cause: &Cause,
        why: &RowRefusal,
    ) -> Result<(), LedgerError> {
        const PAUSE: &str = "UPDATE bulk_sends SET state = 'paused', paused_cause = $2, \
            code = $3, message = $4 WHERE send = $1 AND state <> 'cancelled'";
        const SPARE: &str = "UPDATE bulk_rows SET status = 'waiting', code = NULL, \
            message = NULL, cause = NULL WHERE send = $1 AND status = 'refused' AND cause = $2 \
            AND run = (SELECT run FROM bulk_sends WHERE send = $1)";
        const ACCEPTED: &str =
            "SELECT number FROM bulk_rows WHERE send = $1 AND status = 'accepted' LIMIT 1";
        let text = cause.to_string();
        let values = vec![
            self.send.into(),
            text.as_str().into(),
            Value::option(why.code.as_deref()),
            Value::option(why.message.as_deref()),
        ];
        tx.query(PAUSE, values).await?;
        let is_none_accepted = tx.query(ACCEPTED, vec![self.send.into()]).await?.is_empty();
        // If not, rows that are refused whatever their sender does would stop every run.
        if cause.concerns_send() || is_none_accepted {
            let values = vec![self.send.into(), text.as_str().into()];
            tx.query(SPARE, values).await?;
        }
        Ok(())
    }

    /// At the end of a short send, all of whose rows were refused for a cause of the whole send:
    /// pauses it, and its rows wait again. Returns whether that is so.
    pub(crate) async fn spare_all(
        &self,
        cause: &Cause,
        why: &RowRefusal,
    ) -> Result<bool, LedgerError> {
        const OTHERS: &str = "SELECT number FROM bulk_rows WHERE send = $1 \
            AND status IN ('accepted', 'waiting', 'held', 'in_flight') LIMIT 1";
        if !cause.concerns_send() {
            return Ok(false);
        }
        self.persist(|| {
            Box::pin(async move {
                let mut tx = self.begin_transaction(Durability::Full).await?;
                let others = tx.query(OTHERS, vec![self.send.into()]).await?;
                if !others.is_empty() {
                    return Ok(false);
                }
                self.pause_for(&mut tx, cause, why).await?;
                tx.commit().await?;
                Ok(true)
            })
        })
        .await
    }

    /// Records that the service has certainly not processed a request: its rows are held again.
    pub(crate) async fn not_sent(&self, request: &str) -> Result<(), LedgerError> {
        const REQUEST: &str = "UPDATE bulk_requests SET state = 'held' WHERE id = $1 \
            AND worker = $2 AND state = 'in_flight' RETURNING id";
        const ROWS: &str =
            "UPDATE bulk_rows SET status = 'held' WHERE request = $1 AND status = 'in_flight'";
        self.persist(|| {
            Box::pin(async move {
                let mut tx = self.begin_transaction(Durability::Process).await?;
                self.is_alive(&mut tx).await?;
                let values = vec![request.into(), self.id()];
                if !tx.query(REQUEST, values).await?.is_empty() {
                    tx.query(ROWS, vec![request.into()]).await?;
                }
                tx.commit().await
            })
        })
        .await
    }

    /// Records that a request may have been processed.
    pub(crate) async fn unknown(&self, request: &str, code: &str) -> Result<(), LedgerError> {
        const REQUEST: &str = "UPDATE bulk_requests SET state = 'unknown', \
            tried = (SELECT run FROM bulk_sends WHERE send = $3) WHERE id = $1 AND worker = $2 \
            AND state = 'in_flight' RETURNING id";
        const ROWS: &str = "UPDATE bulk_rows SET status = 'unknown', code = $2 \
            WHERE request = $1 AND status = 'in_flight'";
        self.persist(|| {
            Box::pin(async move {
                let mut tx = self.begin_transaction(Durability::Process).await?;
                self.is_alive(&mut tx).await?;
                let values = vec![request.into(), self.id(), self.send.into()];
                if !tx.query(REQUEST, values).await?.is_empty() {
                    tx.query(ROWS, vec![request.into(), code.into()]).await?;
                }
                tx.commit().await
            })
        })
        .await
    }

    /// No request of the send starts within this time.
    pub(crate) async fn hold_back(&self, time: Duration) -> Result<(), LedgerError> {
        const UPDATE: &str = "UPDATE bulk_sends SET not_before = NOW() * 1000 + $2 \
            WHERE send = $1 AND not_before < NOW() * 1000 + $2 RETURNING send";
        let micros = i64::try_from(time.as_micros()).unwrap_or(i64::MAX / 4);
        let values = || vec![self.send.into(), micros.into()];
        self.persist(|| {
            Box::pin(async move { self.ledger.database.query(UPDATE, values()).await.map(drop) })
        })
        .await
    }

    fn id(&self) -> Value {
        self.id.as_str().into()
    }

    async fn begin_transaction(&self, durability: Durability) -> Result<Transaction, LedgerError> {
        self.ledger.database.begin(durability).await
    }

    /// Whether its rows are still its own, and stay so until the end of the transaction. Every
    /// change of its requests begins with it, so that it is not halfway when it is taken over.
    async fn is_alive(&self, tx: &mut Transaction) -> Result<bool, LedgerError> {
        const SELECT: &str = "SELECT id FROM bulk_workers WHERE id = $1 FOR KEY SHARE";
        Ok(!tx.query(SELECT, vec![self.id()]).await?.is_empty())
    }

    /// Runs an operation until the database is available.
    async fn persist<'a, T>(
        &self,
        operation: impl Fn() -> BoxFuture<'a, Result<T, LedgerError>>,
    ) -> Result<T, LedgerError> {
        let start = Instant::now();
        let mut pause = Duration::from_millis(20);
        loop {
            let ended = timeout(OPERATION, operation()).await;
            let ended = ended
                .unwrap_or_else(|error| Err(LedgerError::new(LedgerErrorKind::Unavailable, error)));
            match ended {
                Err(error) if error.is_unavailable() && start.elapsed() < PATIENCE => {}
                ended => return ended,
            }
            sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }
}

const CHANGED: &str = "UPDATE bulk_sends SET changed_at = NOW() WHERE send = $1";

/// Ends the requests of a worker: rows that are held wait again, and those in flight are unknown.
async fn release(tx: &mut Transaction, worker: &str) -> Result<(), LedgerError> {
    for statement in [
        "UPDATE bulk_rows SET status = 'waiting', request = NULL WHERE status = 'held' \
         AND request IN (SELECT id FROM bulk_requests WHERE worker = $1)",
        "UPDATE bulk_rows SET status = 'unknown', code = 'interrupted' \
         WHERE status = 'in_flight' \
         AND request IN (SELECT id FROM bulk_requests WHERE worker = $1 AND state = 'in_flight')",
        "DELETE FROM bulk_requests WHERE worker = $1 AND state = 'held'",
        "UPDATE bulk_requests SET state = 'unknown' WHERE worker = $1 AND state = 'in_flight'",
    ] {
        tx.query(statement, vec![worker.into()]).await?;
    }
    Ok(())
}

fn claimed(rows: Vec<Row>) -> Vec<ClaimedRow> {
    let claimed = |row: Row| {
        let number = row[0].int() as u64;
        let data = row.into_iter().nth(1).and_then(Value::text);
        ClaimedRow {
            number,
            data: data.unwrap_or_default(),
        }
    };
    let mut rows = rows.into_iter().map(claimed).collect::<Vec<_>>();
    // The database returns them in any order.
    rows.sort_unstable_by_key(|row| row.number);
    rows
}
