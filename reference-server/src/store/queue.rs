//! The queue of jobs for the writer thread. Jobs that a request waits for take
//! precedence over background jobs of the engine.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Condvar, Mutex, PoisonError};

use super::job::Job;
use super::lock::lock;
use super::pressure::Pressure;

/// Maximum number of jobs in one transaction: enough to share the cost of a sync, few
/// enough that none waits long.
const MAX_JOBS: usize = 256;

/// Maximum number of background jobs in a transaction with awaited jobs.
const MAX_BACKGROUND: usize = 32;

#[derive(Default)]
pub(super) struct Queue {
    jobs: Mutex<Jobs>,
    available: Condvar,
    pressure: Pressure,
}

#[derive(Default)]
struct Jobs {
    awaited: VecDeque<Job>,
    background: VecDeque<Job>,
    rejects: bool,
    closed: bool,
}

impl Queue {
    /// Returns `false` if the queue accepts no more jobs.
    pub(super) fn push(&self, job: Job) -> bool {
        let mut jobs = lock(&self.jobs);
        if jobs.rejects {
            return false;
        }
        if job.awaited {
            jobs.awaited.push_back(job);
            self.pressure.waiting.store(jobs.awaited.len(), Ordering::Relaxed);
        } else {
            jobs.background.push_back(job);
        }
        drop(jobs);
        self.available.notify_one();
        true
    }

    /// Takes the jobs of the next transaction, awaited jobs first. Takes none if the
    /// queue is closed and empty.
    pub(super) fn next_group(&self, group: &mut VecDeque<Job>) {
        let mut jobs = lock(&self.jobs);
        while jobs.awaited.is_empty() && jobs.background.is_empty() && !jobs.closed {
            jobs = self.available.wait(jobs).unwrap_or_else(PoisonError::into_inner);
        }
        let awaited = jobs.awaited.len().min(MAX_JOBS);
        group.extend(jobs.awaited.drain(..awaited));
        let background = if awaited > 0 { MAX_BACKGROUND } else { MAX_JOBS };
        let background = jobs.background.len().min(background);
        group.extend(jobs.background.drain(..background));
        self.pressure.in_group.store(awaited, Ordering::Relaxed);
        self.pressure.deliveries.store(0, Ordering::Relaxed);
        self.pressure.waiting.store(jobs.awaited.len(), Ordering::Relaxed);
    }

    /// Accepts no more jobs; queued jobs are still run. Then the writer ends.
    pub(super) fn close(&self) {
        let mut jobs = lock(&self.jobs);
        (jobs.rejects, jobs.closed) = (true, true);
        drop(jobs);
        self.available.notify_one();
    }

    /// Accepts no more jobs and drops the queued ones, which fails their callers. The writer ends
    /// only when the queue is [closed](Self::close): after the readers, as its connection has to be
    /// the last one.
    pub(super) fn abandon(&self) {
        let mut jobs = lock(&self.jobs);
        jobs.rejects = true;
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
    use std::sync::atomic::AtomicBool;

    use super::super::job::JobResult;
    use super::super::pressure::MIN_SHARE;
    use super::*;

    fn job(awaited: bool) -> Job {
        let run = Box::new(|_: Result<&mut crate::store::Tx<'_>, _>| JobResult {
            keep: true,
            respond: Box::new(|_| {}),
        });
        Job { durable: awaited, awaited, run }
    }

    fn group(queue: &Queue) -> (usize, usize) {
        let mut group = VecDeque::new();
        queue.next_group(&mut group);
        let awaited = group.iter().take_while(|job| job.awaited).count();
        assert!(group.iter().skip(awaited).all(|job| !job.awaited), "awaited jobs come first");
        (awaited, group.len() - awaited)
    }

    #[test]
    fn awaited_jobs_come_first_and_background_jobs_always_progress() {
        let queue = Queue::default();
        for number in 0..600 {
            assert!(queue.push(job(number % 2 == 0)));
        }
        assert_eq!(group(&queue), (256, MAX_BACKGROUND));
        assert_eq!(group(&queue), (44, MAX_BACKGROUND));
        assert_eq!(group(&queue), (0, 300 - 2 * MAX_BACKGROUND));
        queue.close();
        assert!(!queue.push(job(true)));
        assert_eq!(group(&queue), (0, 0));
    }

    #[test]
    fn the_writer_of_an_abandoned_queue_ends_once_the_queue_is_closed() {
        let queue = Queue::default();
        queue.push(job(true));
        queue.abandon();
        assert!(!queue.push(job(true)));
        let is_closed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(group(&queue), (0, 0));
                assert!(is_closed.load(Ordering::SeqCst), "it has ended before the readers");
            });
            // Enough for a thread that does not wait.
            std::thread::sleep(std::time::Duration::from_millis(50));
            is_closed.store(true, Ordering::SeqCst);
            queue.close();
        });
    }

    #[test]
    fn background_work_is_limited_while_requests_wait() {
        let queue = Queue::default();
        queue.push(job(false));
        group(&queue);
        let pressure = queue.pressure();
        assert_eq!(pressure.share(1000), 1000);
        assert!(!pressure.is_enough(1000));
        // A request arrives during the background job.
        queue.push(job(true));
        assert!(!pressure.is_enough(MIN_SHARE - 1));
        assert!(pressure.is_enough(MIN_SHARE));
        for _ in 0..40 {
            queue.push(job(true));
        }
        group(&queue);
        assert_eq!((pressure.share(1000), pressure.share(5)), (41, 5));
    }
}
