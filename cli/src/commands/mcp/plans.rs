//! What was shown and may be sent, once.

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::arguments::CommandLine;

/// How long a plan can be sent.
pub const LIFETIME: TimeDelta = TimeDelta::minutes(10);

/// Most plans at a time. The oldest makes room for a new one.
const MAX_PLANS: usize = 100;

/// What was shown.
#[derive(Clone, Debug)]
pub struct Plan {
    pub token: String,
    /// The command with its input, without `--dry-run`.
    pub line: CommandLine,
    /// What the dry run has printed.
    pub shown: Value,
    pub made: DateTime<Utc>,
}

/// The plans of this process, the oldest first.
#[derive(Default)]
pub struct Plans(Vec<Plan>);

impl Plans {
    /// Keeps a plan.
    pub fn add(&mut self, plan: Plan) {
        self.0.retain(|old| old.is_recent(plan.made));
        if self.0.len() >= MAX_PLANS {
            self.0.remove(0);
        }
        self.0.push(plan);
    }

    /// Takes a plan out, so that its token works once.
    pub fn take(&mut self, token: &str, now: DateTime<Utc>) -> Option<Plan> {
        let index = self.0.iter().position(|plan| plan.token == token)?;
        Some(self.0.remove(index)).filter(|plan| plan.is_recent(now))
    }
}

impl Plan {
    /// Whether it can be sent. The clock goes on while the machine is suspended.
    fn is_recent(&self, now: DateTime<Utc>) -> bool {
        (TimeDelta::zero()..LIFETIME).contains(&(now - self.made))
    }
}

/// The idempotency key of a plan, from which the token cannot be told.
pub fn idempotency_key(token: &str) -> String {
    format!("svc-mcp-{}", hex::encode(&Sha256::digest(token)[..16]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(plans: &mut Plans, token: &str, made: DateTime<Utc>) {
        let (token, line) = (token.to_owned(), CommandLine::default());
        plans.add(Plan {
            token,
            line,
            shown: Value::Null,
            made,
        });
    }

    #[test]
    fn a_token_works_once_and_for_ten_minutes() {
        let (mut plans, start) = (Plans::default(), Utc::now());
        plan(&mut plans, "one", start);
        plan(&mut plans, "two", start);
        let last = start + LIFETIME - TimeDelta::milliseconds(1);
        assert!(plans.take("one", last).is_some());
        assert!(plans.take("one", last).is_none());
        assert!(plans.take("two", start + LIFETIME).is_none());
        assert!(plans.take("three", start).is_none());
    }

    #[test]
    fn the_oldest_plan_makes_room() {
        let (mut plans, start) = (Plans::default(), Utc::now());
        for number in 0..=100 {
            plan(
                &mut plans,
                &number.to_string(),
                start + TimeDelta::milliseconds(number),
            );
        }
        assert!(plans.take("0", start).is_none());
        assert!(plans.take("1", start + LIFETIME / 2).is_some());
    }

    #[test]
    fn a_key_follows_from_the_token_and_does_not_tell_it() {
        assert_eq!(idempotency_key("one"), idempotency_key("one"));
        assert_ne!(idempotency_key("one"), idempotency_key("two"));
        assert!(!idempotency_key("one").contains("one"));
    }
}
