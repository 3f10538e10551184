//! Plans that were shown and may be sent, once.

use chrono::{DateTime, TimeDelta, Utc};

use super::runner::Run;

/// How long a plan can be sent.
pub const LIFETIME: TimeDelta = TimeDelta::minutes(10);

/// Most plans at a time. The oldest makes room for a new one.
const MAX_PLANS: usize = 100;

/// A plan that was shown.
pub struct Plan {
    pub token: String,
    /// The command, with everything resolved. It waits.
    pub run: Run,
    /// How many recipients it has.
    pub recipients: u64,
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

    /// Drops all plans.
    pub fn clear(&mut self) {
        self.0.clear();
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

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(plans: &mut Plans, token: &str, made: DateTime<Utc>) {
        plans.add(Plan {
            token: token.to_owned(),
            run: Run::ended(),
            recipients: 1,
            made,
        });
    }

    #[test]
    fn a_token_works_once_and_for_ten_minutes() {
        let mut plans = Plans::default();
        let start = Utc::now();
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
        let mut plans = Plans::default();
        let start = Utc::now();
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
}
