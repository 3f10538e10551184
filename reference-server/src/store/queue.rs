//! The jobs that wait for the writer: those that somebody waits for, and those
//! that the engine does on its own, which give way to them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use super::lock;
use super::writer::Job;

/// Jobs in one transaction: enough to share the cost of a sync, few enough
/// that none of them waits long.
const GROUP: usize = 256;

/// Background jobs in a transaction that somebody waits for.
const BESIDE: usize = 32;

/// Pieces of background work that are done whoever waits.
const LEAST: usize = 16;

#[derive(Default)]
pub(super) struct Queue {
    jobs: Mutex<Jobs>,
    came: Condvar,
    pressure: Pressure,
}

#[derive(Default)]
struct Jobs {
    awaited: VecDeque<Job>,
    background: VecDeque<Job>,
    closed: bool,
}

/// How much somebody waits for: background jobs ask it how much they may do.
#[derive(Debug, Default)]
pub(crate) struct Pressure {
    /// In the transaction that is under way.
    in_group: AtomicUsize,
    /// Still to come.
    waiting: AtomicUsize,
}

impl Pressure {
    /// How many pieces of work a background job may do in this transaction: as
    /// many as it likes while nobody waits, else about as many as those who
    /// wait have brought, so that what requests cause does not pile up.
    pub(super) fn share(&self, wanted: usize) -> usize {
        match self.in_group.load(Ordering::Relaxed) {
            0 => wanted,
            awaited => wanted.min(awaited.max(LEAST)),
        }
    }

    /// Whether a background job that has done so many pieces should leave the
    /// rest to another transaction.
    pub(super) fn is_enough(&self, done: usize) -> bool {
        done >= LEAST && self.waiting.load(Ordering::Relaxed) > 0 && done >= self.share(done)
    }
}

impl Queue {
    /// Says `false` where the queue is closed.
    pub(super) fn push(&self, job: Job) -> bool {
        let mut jobs = lock(&self.jobs);
        if jobs.closed {
            return false;
        }
        if job.awaited {
            jobs.awaited.push_back(job);
            self.pressure.waiting.store(jobs.awaited.len(), Ordering::Relaxed);
        } else {
            jobs.background.push_back(job);
        }
        drop(jobs);
        self.came.notify_one();
        true
    }

    /// The jobs of the next transaction, those that are awaited first; none
    /// once the queue is closed and empty.
    pub(super) fn next_group(&self, group: &mut VecDeque<Job>) {
        let mut jobs = lock(&self.jobs);
        while jobs.awaited.is_empty() && jobs.background.is_empty() && !jobs.closed {
            jobs = self.came.wait(jobs).unwrap_or_else(PoisonError::into_inner);
        }
        let awaited = jobs.awaited.len().min(GROUP);
        group.extend(jobs.awaited.drain(..awaited));
        let beside = if awaited > 0 { BESIDE } else { GROUP };
        let beside = jobs.background.len().min(beside);
        group.extend(jobs.background.drain(..beside));
        self.pressure.in_group.store(awaited, Ordering::Relaxed);
        self.pressure.waiting.store(jobs.awaited.len(), Ordering::Relaxed);
    }

    /// What waits is still done; nothing more is taken.
    pub(super) fn close(&self) {
        lock(&self.jobs).closed = true;
        self.came.notify_one();
    }

    /// Closes it, and drops what waits: whoever waits for that learns of it.
    pub(super) fn abandon(&self) {
        let mut jobs = lock(&self.jobs);
        jobs.closed = true;
        let dropped = (std::mem::take(&mut jobs.awaited), std::mem::take(&mut jobs.background));
        drop(jobs);
        drop(dropped);
    }

    pub(super) fn pressure(&self) -> &Pressure {
        &self.pressure
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::writer::Finished;

    fn job(awaited: bool) -> Job {
        let run = Box::new(|_: Result<&mut super::super::Tx<'_>, _>| Finished {
            keep: true,
            answer: Box::new(|_| {}),
        });
        Job { durable: awaited, awaited, run }
    }

    fn group(queue: &Queue) -> (usize, usize) {
        let mut group = VecDeque::new();
        queue.next_group(&mut group);
        let awaited = group.iter().take_while(|job| job.awaited).count();
        assert!(group.iter().skip(awaited).all(|job| !job.awaited), "awaited ones come first");
        (awaited, group.len() - awaited)
    }

    #[test]
    fn what_is_awaited_comes_first_and_the_rest_is_never_left_out() {
        let queue = Queue::default();
        for number in 0..600 {
            assert!(queue.push(job(number % 2 == 0)));
        }
        assert_eq!(group(&queue), (256, BESIDE));
        assert_eq!(group(&queue), (44, BESIDE));
        assert_eq!(group(&queue), (0, 300 - 2 * BESIDE));
        queue.close();
        assert!(!queue.push(job(true)));
        assert_eq!(group(&queue), (0, 0));
    }

    #[test]
    fn background_work_does_its_share() {
        let queue = Queue::default();
        queue.push(job(false));
        group(&queue);
        let pressure = queue.pressure();
        assert_eq!(pressure.share(1000), 1000);
        assert!(!pressure.is_enough(1000));
        // Somebody comes while it is at it.
        queue.push(job(true));
        assert!(!pressure.is_enough(LEAST - 1));
        assert!(pressure.is_enough(LEAST));
        for _ in 0..40 {
            queue.push(job(true));
        }
        group(&queue);
        assert_eq!((pressure.share(1000), pressure.share(5)), (41, 5));
    }
}
