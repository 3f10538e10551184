//! What a worker does in the ledger. Each operation may be repeated when it is not known whether it
//! was committed: the worker chooses the ids of its requests.

use std::time::Duration;

use futures_util::future::BoxFuture;
use svc_sql::params;
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

use crate::database::{Durability, Transaction};
use crate::record::{RowOutcome, RowRefusal};
use crate::request::{Cause, Request};
use crate::{Ledger, LedgerError, LedgerErrorKind, SendState};

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

/// A row that was claimed: its number and data.
pub(crate) type ClaimedRow = (u64, String);

/// Rows that are to be sent in one request.
pub(crate) struct Claim {
    pub(crate) request: String,
    pub(crate) rows: Vec<ClaimedRow>,
    /// Whether the request was sent before, and is repeated with its key.
    pub(crate) repeats: bool,
}

impl Claim {
    fn new(request: &str, mut rows: Vec<ClaimedRow>, repeats: bool) -> Self {
        // The database returns them in any order.
        rows.sort_unstable();
        Self {
            request: request.to_owned(),
            rows,
            repeats,
        }
    }
}

/// The next step of a worker.
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
        worker.register().await?;
        Ok(worker)
    }

    async fn register(&self) -> Result<(), LedgerError> {
        const INSERT: &str = "INSERT INTO bulk_workers (id, send, lease_until) \
            VALUES ($1, $2, now_ms() + $3) ON CONFLICT (id) DO NOTHING";
        self.persist(Durability::Process, |mut tx| {
            Box::pin(async move {
                let values = params![&self.id, self.send, self.ledger.lease];
                tx.execute(INSERT, values).await?;
                tx.execute(CHANGED, params![self.send]).await?;
                tx.commit().await
            })
        })
        .await
    }

    /// Leaves: what it holds waits again. Requests in flight, if there are any, are unknown.
    pub(crate) async fn leave(&self) -> Result<(), LedgerError> {
        self.persist(Durability::Full, |mut tx| {
            Box::pin(async move {
                let delete = "DELETE FROM bulk_workers WHERE id = $1";
                tx.execute(delete, params![&self.id]).await?;
                release(&mut tx, &self.id).await?;
                tx.execute(CHANGED, params![self.send]).await?;
                tx.commit().await
            })
        })
        .await
    }

    /// Tells that it is alive, and takes over from those who are not. It has to be called several
    /// times in the time of a lease.
    pub(crate) async fn beat(&self) -> Result<Seen, LedgerError> {
        const RENEW: &str = "UPDATE bulk_workers SET lease_until = now_ms() + $2 WHERE id = $1";
        const DEAD: &str = "SELECT id FROM bulk_workers WHERE lease_until < now_ms() AND send = $1";
        const BURY: &str = "DELETE FROM bulk_workers WHERE id = $1 AND lease_until < now_ms()";

        self.persist(Durability::Process, |mut tx| {
            Box::pin(async move {
                let values = params![&self.id, self.ledger.lease];
                let is_alive = tx.execute(RENEW, values).await? > 0;
                tx.commit().await?;

                let dead = self.ledger.database.query(DEAD, params![self.send]);
                let dead: Vec<(String,)> = dead.await?;
                for (id,) in &dead {
                    let mut tx = self.ledger.database.begin(Durability::Full).await?;
                    if tx.execute(BURY, params![id]).await? > 0 {
                        release(&mut tx, id).await?;
                        tx.execute(CHANGED, params![self.send]).await?;
                    }
                    tx.commit().await?;
                }
                self.look(is_alive).await
            })
        })
        .await
    }

    async fn look(&self, is_alive: bool) -> Result<Seen, LedgerError> {
        const SELECT: &str =
            "SELECT state, paused_cause, code, message FROM bulk_sends WHERE send = $1";
        type Text = Option<String>;

        let found = self.ledger.database.first(SELECT, params![self.send]);
        let found: Option<(SendState, Text, Text, Text)> = found.await?;
        // Somebody may have removed it.
        let removed = (SendState::Cancelled, None, None, None);
        let is_found = found.is_some();
        let (state, cause, code, message) = found.unwrap_or(removed);
        let is_refused = cause.is_some() && state == SendState::Paused;
        Ok(Seen {
            state,
            cause: is_refused.then_some(RowRefusal { code, message }),
            is_alive: is_alive && is_found,
        })
    }

    /// Claims up to `size` rows that wait, or a request that can be repeated.
    pub(crate) async fn claim(&self, size: usize) -> Result<Claimed, LedgerError> {
        let request = Uuid::new_v4().simple().to_string();
        let request = request.as_str();
        self.persist(Durability::Process, |tx| {
            Box::pin(self.try_claim(tx, request, size))
        })
        .await
    }

    async fn try_claim(
        &self,
        mut tx: Transaction,
        request: &str,
        size: usize,
    ) -> Result<Claimed, LedgerError> {
        const STATE: &str = "SELECT run, space, state FROM bulk_sends WHERE send = $1";
        const INSERT: &str = "INSERT INTO bulk_requests (id, send, worker) VALUES ($1, $2, $3)";
        const HAVE: &str = "SELECT number, data FROM bulk_rows WHERE request = $1";
        const HAVE_REPEAT: &str =
            "SELECT id FROM bulk_requests WHERE send = $1 AND state = 'in_flight' AND claim = $2";
        const OTHERS: &str = "SELECT number FROM bulk_rows WHERE send = $1 \
            AND status IN ('waiting', 'held', 'in_flight') LIMIT 1";

        if !self.is_alive(&mut tx).await? {
            return tx.end(Claimed::Lost).await;
        }

        // An earlier attempt may have been committed, whatever the state of the send is since.
        let rows = tx.query(HAVE, params![request]).await?;
        if !rows.is_empty() {
            let claim = Claim::new(request, rows, false);
            return tx.end(Claimed::Rows(claim)).await;
        }

        let values = params![self.send, request];
        let repeated = tx.first(HAVE_REPEAT, values).await?;
        if let Some(claim) = self.repeat(&mut tx, repeated).await? {
            return tx.end(Claimed::Rows(claim)).await;
        }

        let found: Option<(i64, i64, SendState)> = tx.first(STATE, params![self.send]).await?;
        let Some((run, space, state)) = found else {
            return tx.end(Claimed::Lost).await;
        };
        if state != SendState::Running {
            return tx.end(Claimed::Not(state)).await;
        }
        if let Some(claim) = self.claim_repeat(&mut tx, request, run).await? {
            return tx.end(Claimed::Rows(claim)).await;
        }

        // No request takes more than the emails of a second.
        let size = (1_000_000 / space.max(1)).clamp(1, size as i64);
        let claim = include_str!("sql/claim.sql");
        let rows = tx.query(claim, params![self.send, request, size]).await?;
        if rows.is_empty() {
            let nothing = if tx.any(OTHERS, params![self.send]).await? {
                Claimed::Others
            } else {
                Claimed::Nothing
            };
            return tx.end(nothing).await;
        }

        let values = params![request, self.send, &self.id];
        tx.execute(INSERT, values).await?;
        let claim = Claim::new(request, rows, false);
        tx.end(Claimed::Rows(claim)).await
    }

    /// Claims a request whose outcome is unknown, and that the service does not process twice.
    async fn claim_repeat(
        &self,
        tx: &mut Transaction,
        claim: &str,
        run: i64,
    ) -> Result<Option<Claim>, LedgerError> {
        let Some(life) = self.key_life else {
            return Ok(None);
        };
        let claim_repeat = include_str!("sql/claim_repeat.sql");
        let values = params![self.send, &self.id, run, life, claim];
        let found = tx.first(claim_repeat, values).await?;
        self.repeat(tx, found).await
    }

    /// The claim of a request that was found, if one was.
    async fn repeat(
        &self,
        tx: &mut Transaction,
        found: Option<(String,)>,
    ) -> Result<Option<Claim>, LedgerError> {
        const ROWS: &str = "UPDATE bulk_rows SET status = 'in_flight' WHERE request = $1 \
            RETURNING number, data";
        let Some((id,)) = found else {
            return Ok(None);
        };
        let rows = tx.query(ROWS, params![&id]).await?;
        Ok(Some(Claim::new(&id, rows, true)))
    }

    /// Makes several requests of one that was not sent, or none: the first has the rows up to the first
    /// of these numbers, and so on. Of the `invalid` rows no valid email can be made. Returns the ids, or
    /// `None` if others have taken the rows over.
    pub(crate) async fn split(
        &self,
        request: &str,
        invalid: &[(u64, String)],
        last_rows: &[u64],
    ) -> Result<Option<Vec<String>>, LedgerError> {
        const INSERT: &str = "INSERT INTO bulk_requests (id, send, worker) VALUES ($1, $2, $3) \
            ON CONFLICT (id) DO NOTHING";
        const MOVE: &str = "UPDATE bulk_rows SET request = $2 WHERE request = $1 AND number <= $3";
        const DELETE: &str = "DELETE FROM bulk_requests WHERE id = $1";

        let ids = last_rows
            .iter()
            .map(|_| Uuid::new_v4().simple().to_string());
        let ids = &ids.collect::<Vec<_>>();
        self.persist(Durability::Process, |mut tx| {
            Box::pin(async move {
                if !self.is_alive(&mut tx).await? {
                    return tx.end(None).await;
                }
                let rows = invalid.iter().map(|(number, problem)| {
                    let why = RowRefusal::new(None, Some(problem));
                    params![self.send, *number, why.message.as_deref()]
                });
                tx.execute_each(include_str!("sql/invalid.sql"), rows.collect())
                    .await?;
                for (id, last) in ids.iter().zip(last_rows) {
                    tx.execute(INSERT, params![id, self.send, &self.id]).await?;
                    tx.execute(MOVE, params![request, id, *last]).await?;
                }
                tx.execute(DELETE, params![request]).await?;
                tx.end(Some(ids.clone())).await
            })
        })
        .await
    }

    /// Records, durably, that a request is about to be sent, if it may be sent now.
    pub(crate) async fn begin(&self, request: &Request) -> Result<Begin, LedgerError> {
        self.persist(Durability::Full, |tx| Box::pin(self.try_begin(tx, request)))
            .await
    }

    async fn try_begin(
        &self,
        mut tx: Transaction,
        request: &Request,
    ) -> Result<Begin, LedgerError> {
        const STATE: &str = "SELECT space, not_before - now_ms() * 1000, state FROM bulk_sends \
            WHERE send = $1";
        const SPACE: &str =
            "UPDATE bulk_sends SET not_before = now_ms() * 1000 + $2 WHERE send = $1";
        const SENT: &str = "UPDATE bulk_requests SET state = 'in_flight', sent_at = now_ms(), \
            keyed = $3 WHERE id = $1 AND worker = $2 AND state <> 'unknown'";
        const REPEATED: &str = "SELECT id FROM bulk_requests WHERE id = $1 AND worker = $2 \
            AND state = 'in_flight' AND sent_at > now_ms() - $3";
        const ROWS: &str = "UPDATE bulk_rows SET status = 'in_flight', at = now_ms(), \
            code = NULL, message = NULL WHERE request = $1 AND status = 'held'";

        if !self.is_alive(&mut tx).await? {
            return tx.end(Begin::Lost).await;
        }

        let mut found: Option<(i64, i64, SendState)> = tx.first(STATE, params![self.send]).await?;
        if found.is_some_and(|(space, ..)| space > 0) {
            // Only a rate needs the lock, for which all workers wait.
            let locked = format!("{STATE} FOR UPDATE");
            found = tx.first(&locked, params![self.send]).await?;
        }
        let Some((space, wait, state)) = found else {
            return tx.end(Begin::Lost).await;
        };

        match state {
            SendState::Running => {}
            SendState::Paused => return tx.end(Begin::Paused).await,
            SendState::Cancelled => return tx.end(Begin::Lost).await,
        }
        if wait > 0 {
            let later = Duration::from_micros(wait as u64);
            return tx.end(Begin::Later(later)).await;
        }

        let id = request.id.as_str();
        if request.repeats {
            let life = self.key_life.unwrap_or_default();
            let values = params![id, &self.id, life];
            if !tx.any(REPEATED, values).await? {
                return tx.end(Begin::Forgotten).await;
            }
        } else {
            let keyed = i64::from(self.key_life.is_some());
            let values = params![id, &self.id, keyed];
            if tx.execute(SENT, values).await? == 0 {
                return tx.end(Begin::Lost).await;
            }
            tx.execute(ROWS, params![id]).await?;
        }

        if space > 0 {
            let space = space.saturating_mul(request.rows.len() as i64);
            tx.execute(SPACE, params![self.send, space]).await?;
        }
        tx.end(Begin::Now).await
    }

    /// Records the outcome of each row of a request. `cause` is that of all, if they were refused
    /// for one. Returns what has paused the send, if this request has.
    pub(crate) async fn conclude(
        &self,
        request: &str,
        outcomes: &[(u64, RowOutcome)],
        cause: Option<&(Cause, RowRefusal)>,
    ) -> Result<bool, LedgerError> {
        self.persist(Durability::Process, |tx| {
            Box::pin(self.try_conclude(tx, request, outcomes, cause))
        })
        .await
    }

    async fn try_conclude(
        &self,
        mut tx: Transaction,
        request: &str,
        outcomes: &[(u64, RowOutcome)],
        cause: Option<&(Cause, RowRefusal)>,
    ) -> Result<bool, LedgerError> {
        const OWN: &str = "SELECT id FROM bulk_requests WHERE id = $1 AND worker = $2 FOR UPDATE";
        const UNKNOWN: &str = "UPDATE bulk_rows SET status = 'unknown', code = 'not_told' \
            WHERE request = $1";
        const DONE: &str = "DELETE FROM bulk_requests WHERE id = $1";
        // Its key belongs to more rows than are left of it.
        const PART: &str = "UPDATE bulk_requests SET state = 'unknown', keyed = 0 WHERE id = $1";
        const END_STREAK: &str = "UPDATE bulk_sends SET streak = 0, streak_cause = NULL \
            WHERE send = $1 AND streak > 0";

        let cause_text = cause.map(|(cause, _)| cause.to_string());
        let mut accepted = Vec::new();
        let mut refused = Vec::new();
        for (number, outcome) in outcomes {
            match outcome {
                RowOutcome::Accepted(id) => {
                    accepted.push(params![self.send, *number, request, id]);
                }
                RowOutcome::Refused(why) => {
                    let code = why.code.as_deref();
                    let message = why.message.as_deref();
                    let cause = cause_text.as_deref();
                    refused.push(params![self.send, *number, request, code, message, cause]);
                }
                RowOutcome::Unknown => {}
            }
        }

        let is_complete = accepted.len() + refused.len() == outcomes.len();

        self.is_alive(&mut tx).await?;
        // Also if it is not alive: its outcome is the only one that its request has, unless others
        // repeat it. Then theirs counts, and a refusal here says nothing about it.
        if !tx.any(OWN, params![request, &self.id]).await? {
            return tx.end(false).await;
        }

        tx.execute_each(include_str!("sql/accepted.sql"), accepted)
            .await?;
        tx.execute_each(include_str!("sql/refused.sql"), refused)
            .await?;
        if is_complete {
            tx.execute(DONE, params![request]).await?;
        } else {
            tx.execute(UNKNOWN, params![request]).await?;
            tx.execute(PART, params![request]).await?;
        }

        let is_paused = match cause {
            Some((cause, why)) => {
                let count = outcomes.len() as i64;
                self.count_refusals(&mut tx, cause, why, count).await?
            }
            None => {
                tx.execute(END_STREAK, params![self.send]).await?;
                false
            }
        };
        tx.end(is_paused).await
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
        let text = cause.to_string();
        let update = include_str!("sql/count_refusals.sql");
        let values = params![self.send, &text, count];
        let found: Option<(i64, bool)> = tx.first(update, values).await?;
        let Some((streak, is_paused)) = found else {
            return Ok(false);
        };
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
        const ACCEPTED: &str =
            "SELECT number FROM bulk_rows WHERE send = $1 AND status = 'accepted' LIMIT 1";

        let text = cause.to_string();
        let code = why.code.as_deref();
        let message = why.message.as_deref();
        let values = params![self.send, &text, code, message];
        tx.execute(include_str!("sql/pause_for.sql"), values)
            .await?;
        let is_accepted = tx.any(ACCEPTED, params![self.send]).await?;
        // If not, rows that are refused whatever their sender does would stop every run.
        if cause.concerns_send() || !is_accepted {
            let values = params![self.send, &text];
            tx.execute(include_str!("sql/spare.sql"), values).await?;
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
        self.persist(Durability::Full, |mut tx| {
            Box::pin(async move {
                if tx.any(OTHERS, params![self.send]).await? {
                    return tx.end(false).await;
                }
                self.pause_for(&mut tx, cause, why).await?;
                tx.end(true).await
            })
        })
        .await
    }

    /// Records that the service has certainly not processed a request: its rows are held again.
    pub(crate) async fn not_sent(&self, request: &str) -> Result<(), LedgerError> {
        const REQUEST: &str = "UPDATE bulk_requests SET state = 'held' WHERE id = $1 \
            AND worker = $2 AND state = 'in_flight'";
        const ROWS: &str =
            "UPDATE bulk_rows SET status = 'held' WHERE request = $1 AND status = 'in_flight'";
        self.persist(Durability::Process, |mut tx| {
            Box::pin(async move {
                self.is_alive(&mut tx).await?;
                let values = params![request, &self.id];
                if tx.execute(REQUEST, values).await? > 0 {
                    tx.execute(ROWS, params![request]).await?;
                }
                tx.commit().await
            })
        })
        .await
    }

    /// Records that a request may have been processed.
    pub(crate) async fn unknown(
        &self,
        request: &str,
        code: &str,
        message: Option<&str>,
    ) -> Result<(), LedgerError> {
        const ROWS: &str = "UPDATE bulk_rows SET status = 'unknown', code = $2, message = $3 \
            WHERE request = $1 AND status = 'in_flight'";
        self.persist(Durability::Process, |mut tx| {
            Box::pin(async move {
                self.is_alive(&mut tx).await?;
                let values = params![request, &self.id, self.send];
                if tx.execute(include_str!("sql/unknown.sql"), values).await? > 0 {
                    tx.execute(ROWS, params![request, code, message]).await?;
                }
                tx.commit().await
            })
        })
        .await
    }

    /// No request of the send starts within this time.
    pub(crate) async fn hold_back(&self, time: Duration) -> Result<(), LedgerError> {
        const UPDATE: &str = "UPDATE bulk_sends SET not_before = now_ms() * 1000 + $2 \
            WHERE send = $1 AND not_before < now_ms() * 1000 + $2";
        let micros = i64::try_from(time.as_micros()).unwrap_or(i64::MAX / 4);
        self.persist(Durability::Process, |mut tx| {
            Box::pin(async move {
                tx.execute(UPDATE, params![self.send, micros]).await?;
                tx.commit().await
            })
        })
        .await
    }

    /// Whether its rows are still its own, and stay so until the end of the transaction. Every
    /// change of its requests begins with it, so that it is not halfway when it is taken over.
    async fn is_alive(&self, tx: &mut Transaction) -> Result<bool, LedgerError> {
        const SELECT: &str = "SELECT id FROM bulk_workers WHERE id = $1 FOR KEY SHARE";
        tx.any(SELECT, params![&self.id]).await
    }

    /// Runs an operation in a transaction, which it commits, until the database is available.
    async fn persist<'a, T>(
        &'a self,
        durability: Durability,
        operation: impl Fn(Transaction) -> BoxFuture<'a, Result<T, LedgerError>>,
    ) -> Result<T, LedgerError> {
        let start = Instant::now();
        let mut pause = Duration::from_millis(20);
        loop {
            let attempt = async {
                let tx = self.ledger.database.begin(durability).await?;
                operation(tx).await
            };
            let ended = timeout(OPERATION, attempt).await;
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

const CHANGED: &str = "UPDATE bulk_sends SET changed_at = now_ms() WHERE send = $1";

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
        tx.execute(statement, params![worker]).await?;
    }
    Ok(())
}
