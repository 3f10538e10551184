//! Whose deliveries a worker claims next: tenants take turns.

use std::collections::{HashMap, VecDeque};

use crate::Job;
use crate::inbox::News;
use crate::queue::{Position, Survey, Turn};

/// How many tenants one claim asks at most.
const MAX_TURNS: usize = 32;

pub(crate) struct Turns {
    /// The tenants whose deliveries may be due, in the order of their turns.
    ready: VecDeque<Turn>,
    paused: Vec<String>,
    /// The tenant that was asked last.
    last: String,
    /// The deliveries that are being handled, and their tenants.
    pub(crate) held: HashMap<i64, String>,
    /// How many may be of one tenant.
    limit: usize,
}

impl Turns {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            ready: VecDeque::new(),
            paused: Vec::new(),
            last: String::new(),
            held: HashMap::new(),
            limit,
        }
    }

    /// Begins again with what waits in the table: after the tenant that was asked last.
    pub(crate) fn restart(&mut self, survey: Survey) {
        let turns = survey.tenants.into_iter();
        let mut turns: Vec<Turn> = turns
            .map(|(tenant, retries)| new_turn(tenant, retries))
            .collect();
        let next = turns.partition_point(|turn| turn.tenant <= self.last);
        turns.rotate_left(next);
        self.ready = turns.into();
        self.paused = survey.paused;
    }

    /// Adds those of whom this process has accepted a delivery.
    pub(crate) fn add(&mut self, news: News) {
        for tenant in news.tenants {
            let is_known = self.ready.iter().any(|turn| turn.tenant == tenant);
            if !is_known && !self.paused.contains(&tenant) {
                self.ready.push_back(new_turn(tenant, false));
            }
        }
    }

    /// Whether a claim may find something.
    pub(crate) fn any(&self) -> bool {
        self.ready.iter().any(|turn| self.allowance(turn) > 0)
    }

    /// The next tenants, who share what is free.
    pub(crate) fn next(&self, free: usize) -> Vec<Turn> {
        let allowed = self.ready.iter().filter(|turn| self.allowance(turn) > 0);
        let mut next: Vec<Turn> = allowed.take(free.min(MAX_TURNS)).cloned().collect();
        let share = free.div_ceil(next.len().max(1));
        for turn in &mut next {
            turn.quota = share.min(self.allowance(turn));
        }
        next
    }

    /// Notes what was claimed. Who was asked goes to the end, or leaves if nothing more is due.
    pub(crate) fn claimed(&mut self, asked: &[Turn], jobs: &[Job], free: usize) {
        for turn in asked {
            let is_asked = |other: &Turn| other.tenant == turn.tenant;
            let Some(at) = self.ready.iter().position(is_asked) else {
                continue;
            };
            let mut turn = turn.clone();
            self.ready.remove(at);
            self.last.clone_from(&turn.tenant);
            let of_tenant = |job: &&Job| job.scope().unwrap_or_default() == turn.tenant;
            let given = jobs.iter().filter(of_tenant);
            let count = given.clone().count();
            let last = given.filter_map(Job::position).max();
            turn.after = last.unwrap_or_default().max(turn.after);
            // Retries take half of a turn.
            let full = if turn.retries {
                turn.quota.div_ceil(2)
            } else {
                turn.quota
            };
            if count >= full || jobs.len() >= free {
                self.ready.push_back(turn);
            }
        }
    }

    fn allowance(&self, turn: &Turn) -> usize {
        let held = self.held.values().filter(|tenant| **tenant == turn.tenant);
        self.limit.saturating_sub(held.count())
    }
}

fn new_turn(tenant: String, retries: bool) -> Turn {
    Turn {
        tenant,
        retries,
        after: Position::default(),
        quota: 0,
    }
}
