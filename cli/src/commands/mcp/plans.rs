//! What was shown and may be sent, once.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::arguments::CommandLine;
use super::runner::Output;
use crate::failure::{Failure, Kind};

/// How long a plan can be sent.
pub const LIFETIME: Duration = Duration::from_secs(600);

/// Most plans at a time. The oldest makes room for a new one.
const MAX_PLANS: usize = 100;

/// What was shown.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The command with its input, without `--dry-run`.
    pub line: CommandLine,
    /// What the dry run has printed.
    pub shown: Output,
    /// What is recorded before it is sent: a digest of the request, and its idempotency key.
    pub record: Map<String, Value>,
    /// A digest of the files with keys.
    pub keys: [u8; 32],
    pub made: Moment,
}

/// A time on the clock, which a person may set, and one that stands still in suspend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub Instant, pub SystemTime);

impl Moment {
    pub fn now() -> Self {
        Self(Instant::now(), SystemTime::now())
    }

    fn is_recent(self, now: Self) -> bool {
        let passed = now.1.duration_since(self.1).unwrap_or_default();
        passed.max(now.0.duration_since(self.0)) < LIFETIME
    }
}

/// The plans of this process, by token.
#[derive(Default)]
pub struct Plans(HashMap<String, Plan>);

impl Plans {
    /// Keeps a plan.
    pub fn add(&mut self, token: String, new: Plan) {
        self.0.retain(|_, plan| plan.made.is_recent(new.made));
        if self.0.len() >= MAX_PLANS {
            let oldest = self.0.iter().min_by_key(|(_, plan)| plan.made);
            let oldest = oldest.map(|(token, _)| token.clone());
            oldest.map(|token| self.0.remove(&token));
        }
        self.0.insert(token, new);
    }

    /// What is recorded before a plan is sent.
    pub fn record(&self, token: &str) -> Map<String, Value> {
        self.0.get(token).map(|plan| plan.record.clone()).unwrap_or_default()
    }

    /// Takes a plan out, so that its token works once.
    pub fn take(&mut self, token: &str, now: Moment) -> Result<Plan, Failure> {
        let plan = self.0.remove(token);
        plan.filter(|plan| plan.made.is_recent(now)).ok_or_else(|| {
            let problem = "no plan has this token: it was used, it is older than ten minutes, or svc mcp \
                           was restarted";
            Failure::new(Kind::NotFound, problem).code("no_plan").hint(
                "if it was used and no answer came, the outcome is unknown: look in mcp.ndjson of the state \
                 directory for `started` without an end, and at the recipient or, in the sandbox, with \
                 sandbox_emails; do not plan the same email again before",
            )
        })
    }
}

/// 128 bits that cannot be guessed.
pub fn new_token() -> String {
    // Version 4 has 122 random bits.
    let random = [Uuid::new_v4(), Uuid::new_v4()].map(Uuid::into_bytes).concat();
    hex::encode(&Sha256::digest(random)[..16])
}

/// The idempotency key of a plan, from which the token cannot be told.
pub fn idempotency_key(token: &str) -> String {
    format!("svc-mcp-{}", hex::encode(&Sha256::digest(token)[..16]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(plans: &mut Plans, token: &str, made: Moment) {
        let (line, record) = (CommandLine::default(), Map::new());
        let shown = Output { result: None, notes: Vec::new(), error: None };
        plans.add(token.to_owned(), Plan { line, shown, record, keys: [0; 32], made });
    }

    fn after(start: Moment, passed: Duration) -> Moment {
        Moment(start.0 + passed, start.1 + passed)
    }

    #[test]
    fn a_token_works_once_and_for_ten_minutes() {
        let (mut plans, start) = (Plans::default(), Moment::now());
        plan(&mut plans, "one", start);
        plan(&mut plans, "two", start);
        let last = after(start, LIFETIME - Duration::from_millis(1));
        assert!(plans.take("one", last).is_ok());
        assert!(plans.take("one", last).is_err());
        // The clock goes on while the machine is suspended.
        assert!(plans.take("two", Moment(start.0, start.1 + LIFETIME)).is_err());
        assert!(plans.take("three", start).is_err());
    }

    #[test]
    fn the_oldest_plan_makes_room() {
        let (mut plans, start) = (Plans::default(), Moment::now());
        for number in 0..=100u64 {
            plan(&mut plans, &number.to_string(), after(start, Duration::from_millis(number)));
        }
        assert!(plans.take("0", start).is_err());
        assert!(plans.take("1", after(start, LIFETIME / 2)).is_ok());
    }

    #[test]
    fn tokens_differ_and_keys_follow_from_them() {
        let (one, other) = (new_token(), new_token());
        assert_eq!(one.len(), 32);
        assert_ne!(one, other);
        assert_eq!(idempotency_key(&one), idempotency_key(&one));
        assert!(!idempotency_key(&one).contains(&one));
    }
}
