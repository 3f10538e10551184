//! What was shown and may be sent, once.

use std::collections::HashMap;
use std::time::{Duration, Instant};

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
    made: Instant,
}

/// The plans of this process, by token.
#[derive(Default)]
pub struct Plans(HashMap<String, Plan>);

impl Plans {
    /// Keeps a plan.
    pub fn add(&mut self, token: String, line: CommandLine, shown: Output, now: Instant) {
        self.0.retain(|_, plan| now.duration_since(plan.made) < LIFETIME);
        if self.0.len() >= MAX_PLANS {
            let oldest = self.0.iter().min_by_key(|(_, plan)| plan.made);
            let oldest = oldest.map(|(token, _)| token.clone());
            oldest.map(|token| self.0.remove(&token));
        }
        self.0.insert(token, Plan { line, shown, made: now });
    }

    /// Takes a plan out, so that its token works once.
    pub fn take(&mut self, token: &str, now: Instant) -> Result<Plan, Failure> {
        let plan = self.0.remove(token);
        plan.filter(|plan| now.duration_since(plan.made) < LIFETIME).ok_or_else(|| {
            Failure::new(Kind::NotFound, "no plan has this token: it was used, it is older than ten minutes, or svc mcp was restarted")
                .code("no_plan")
                .hint("if it was used, look first whether it was sent: an email by its id, a bulk job in the list, in the sandbox with sandbox_emails; then plan again")
        })
    }
}

/// 128 bits that cannot be guessed.
pub fn new_token() -> String {
    // Version 4 has 122 random bits.
    let random = [Uuid::new_v4(), Uuid::new_v4()].map(Uuid::into_bytes).concat();
    hex::encode(&Sha256::digest(random)[..16])
}

/// The option with the idempotency key of a plan, from which the token cannot be told.
pub fn idempotency_option(token: &str) -> String {
    format!("--idempotency-key=svc-mcp-{}", hex::encode(&Sha256::digest(token)[..16]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(plans: &mut Plans, token: &str, now: Instant) {
        let line = CommandLine::default();
        let shown = Output { result: None, notes: Vec::new(), error: None };
        plans.add(token.to_owned(), line, shown, now);
    }

    #[test]
    fn a_token_works_once_and_for_ten_minutes() {
        let (mut plans, start) = (Plans::default(), Instant::now());
        plan(&mut plans, "one", start);
        plan(&mut plans, "two", start);
        let last = start + LIFETIME - Duration::from_millis(1);
        assert!(plans.take("one", last).is_ok());
        assert!(plans.take("one", last).is_err());
        assert!(plans.take("two", start + LIFETIME).is_err());
        assert!(plans.take("three", start).is_err());
    }

    #[test]
    fn the_oldest_plan_makes_room() {
        let (mut plans, start) = (Plans::default(), Instant::now());
        for number in 0..=100u64 {
            plan(&mut plans, &number.to_string(), start + Duration::from_millis(number));
        }
        assert!(plans.take("0", start).is_err());
        assert!(plans.take("1", start + LIFETIME / 2).is_ok());
    }

    #[test]
    fn tokens_differ_and_keys_follow_from_them() {
        let (one, other) = (new_token(), new_token());
        assert_eq!(one.len(), 32);
        assert_ne!(one, other);
        assert_eq!(idempotency_option(&one), idempotency_option(&one));
        assert!(!idempotency_option(&one).contains(&one));
    }
}
