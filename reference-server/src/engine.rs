//! The engine: does the work in the table `job` when it is due by the server's clock.
//!
//! One task reads what is due in each queue and runs it, a limited number of jobs at once. Only this
//! task moves the clock, so that an advance can go from due time to due time and complete
//! when nothing is left (`docs/control-interface.md#the-clock`).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::Instant;

use crate::app::{App, Shared};
use crate::clock::clock_wire::Clock;
use crate::deliveries::delivery_rows::{self, Pending, State as DeliveryState};
use crate::emails::{email_rows, email_rules};
use crate::jobs::engine_handle::Reply;
use crate::jobs::{Command, Job, Queue, clock, job_rows};
use crate::messages::message_rules;
use crate::model::{Code, Failure, Millis, Result, time};
use crate::relaying::relaying_rules;
use crate::store::{Reader, Tx, meta};
use crate::webhooks::{webhook_rows, webhook_rules};

/// How many attempts are in progress at the same time: webhooks share them, and one is left for a
/// webhook that has none, so that slow endpoints delay only their own deliveries.
const SHARED_ATTEMPTS: usize = 64;
/// Maximum number of attempts in progress of one webhook.
const MAX_ATTEMPTS_EACH: usize = 16;
/// Maximum number of attempts in progress: with this many busy webhooks, each has one.
const MAX_ATTEMPTS: usize = 256;
/// Maximum number of emails that are handed over to the relay at the same time.
const MAX_RELAYED: usize = 8;
/// Maximum number of messages that are announced at the same time.
const MAX_ANNOUNCED: usize = 8;
/// How long the engine waits after a failure, in real time: twice as long after each further one.
const PAUSE: Duration = Duration::from_millis(100);

struct Engine {
    app: Shared,
    commands: mpsc::UnboundedReceiver<(Command, Reply)>,
    tasks: JoinSet<Result<Done>>,
    /// The job of each task that was not aborted.
    running: HashMap<Id, (Job, AbortHandle)>,
    /// The number of failures in a row, and when the next job may begin, in real time.
    failures: u32,
    not_before: Instant,
    advancing: Option<Advancing>,
    settled_waiters: Vec<Reply>,
}

/// The end of a job: for [`Queue::Mail`], the time that it has reached.
type Done = Option<Millis>;

/// The advance of the clock in progress, which begins with the first request for one. Further ones
/// add to it.
struct Advancing {
    target: Millis,
    /// Whether the clock runs on after the advance.
    was_running: bool,
    replies: Vec<Reply>,
}

/// Runs the engine, until the server stops.
pub(crate) async fn run_jobs(app: Shared, commands: mpsc::UnboundedReceiver<(Command, Reply)>) {
    let engine = Engine {
        app,
        commands,
        tasks: JoinSet::new(),
        running: HashMap::new(),
        failures: 0,
        not_before: Instant::now(),
        advancing: None,
        settled_waiters: Vec::new(),
    };
    engine.run().await;
}

impl Engine {
    async fn run(mut self) {
        let stop = Arc::clone(&self.app.stop);
        let wake = Arc::clone(&self.app.store.wake);
        let stopped = stop.requested();
        tokio::pin!(stopped);
        loop {
            let pause = self.not_before.saturating_duration_since(Instant::now());
            let sleep = if pause.is_zero() {
                match self.start_due().await {
                    Ok(next) if self.running.is_empty() && next > self.app.clock.now() => {
                        if self.finish_or_advance(next).await {
                            continue;
                        }
                        self.sleep(next)
                    }
                    Ok(next) => self.sleep(next),
                    Err(error) => {
                        self.fail(&error);
                        continue;
                    }
                }
            } else {
                pause
            };
            tokio::select! {
                () = &mut stopped => break,
                () = wake.jobs.notified() => {}
                Some(ended) = self.tasks.join_next_with_id() => {
                    self.on_end(ended).await;
                    // All at once, so that one read finds the next jobs for all of them.
                    while let Some(ended) = self.tasks.try_join_next_with_id() {
                        self.on_end(ended).await;
                    }
                }
                Some((command, reply)) = self.commands.recv() => self.handle(command, reply).await,
                () = tokio::time::sleep(sleep) => {}
            }
        }

        // What is in progress is completed and recorded, or aborted with this task, and done again by
        // the next server.
        while self.tasks.join_next().await.is_some() {}
    }

    /// Starts the jobs that are due, within the limits. Returns when the first of the others is due.
    async fn start_due(&mut self) -> Result<Millis> {
        let now = self.app.clock.now();
        let has_relay = self.app.relay.is_some();
        let running = self.running.values().map(|(job, _)| job.clone()).collect();
        let find = move |reader: Reader<'_>| find(reader, now, &running, has_relay);
        let found = self.app.store.read(find).await?;
        for (job, pending) in found.jobs {
            let app = Arc::clone(&self.app);
            let started = job.clone();
            let task = if job.queue == Queue::Mail {
                // During an advance, one transaction goes through many due times, as long as nothing
                // else is due in between.
                let until = self
                    .advancing
                    .as_ref()
                    .map_or(now, |advancing| advancing.target);
                self.tasks
                    .spawn(async move { send_due(app, until).await.map(Some) })
            } else {
                // Its future is large, and moved several times.
                self.tasks.spawn(Box::pin(run(app, job, pending)))
            };
            self.running.insert(task.id(), (started, task));
        }

        Ok(found.next)
    }

    async fn on_end(&mut self, ended: Result<(Id, Result<Done>), JoinError>) {
        let task = ended.as_ref().map_or_else(JoinError::id, |(task, _)| *task);
        // None if the job was aborted.
        let Some((job, _)) = self.running.remove(&task) else {
            return;
        };

        let result = ended.map_or_else(|_| Err(Failure::internal("a job panicked")), |it| it.1);
        let result = match result {
            Err(error) if error.code() == Code::Internal && job.queue != Queue::Mail => {
                set_aside(&self.app, job.clone()).await.map(|()| None)
            }
            result => result,
        };
        match result {
            Ok(reached) => {
                self.failures = 0;
                if let Some(reached) = reached.filter(|at| *at > self.app.clock.now())
                    && let Some(advancing) = &self.advancing
                {
                    self.app.clock.advance(reached, advancing.was_running);
                }
            }
            Err(error) => self.fail(&error),
        }
    }

    /// Holds back all work after a failure, such as a full disk. Fails the advance in progress: the
    /// clock stays at the time that it has reached.
    fn fail(&mut self, error: &Failure) {
        tracing::error!(
            message = error.message(),
            "work failed and will be tried again"
        );
        self.failures = self.failures.saturating_add(1);
        self.not_before = Instant::now() + PAUSE * (1 << self.failures.min(6));
        self.fail_advances(error);
    }

    fn fail_advances(&mut self, error: &Failure) {
        let Some(advancing) = self.advancing.take() else {
            return;
        };
        if advancing.was_running {
            self.app.clock.run(self.app.clock.now());
        }
        for reply in advancing.replies {
            let _ = reply.send(Err(error.clone()));
        }
    }

    /// Called when everything is settled, and more is due at `next`. Moves an advance to that time, or
    /// notifies those that wait for the engine to settle. Returns whether there may be more work now.
    async fn finish_or_advance(&mut self, next: Millis) -> bool {
        let clock = Arc::clone(&self.app.clock);
        if let Some(advancing) = self.advancing.take() {
            if next.min(clock.now() + 1) <= advancing.target {
                clock.advance(next.min(advancing.target), advancing.was_running);
                self.advancing = Some(advancing);
            } else {
                if advancing.was_running {
                    clock.run(advancing.target);
                }
                self.reply_saved(advancing.replies).await;
            }
            return true;
        }

        for waiter in std::mem::take(&mut self.settled_waiters) {
            let _ = waiter.send(self.state().await);
        }
        false
    }

    /// How long the engine can sleep if nothing wakes it, and more is due at `next`.
    fn sleep(&self, next: Millis) -> Duration {
        const LONG: Duration = Duration::from_secs(3600);
        let until = next.saturating_sub(self.app.clock.now()).max(0);
        if self.app.clock.is_frozen() && until > 0 {
            LONG
        } else {
            LONG.min(Duration::from_millis(until as u64))
        }
    }

    async fn handle(&mut self, command: Command, reply: Reply) {
        let clock = Arc::clone(&self.app.clock);
        match command {
            Command::State => drop(reply.send(self.state().await)),
            Command::Settle => self.settled_waiters.push(reply),
            Command::Reload => drop(reply.send(self.reload().await)),
            Command::Restart => drop(reply.send(self.restart().await)),
            Command::FailAdvances(error) => self.fail_advances(&error),
            Command::Freeze | Command::Resume | Command::Real | Command::Advance(_) => {
                // Fail before the change if the database is not writable: an advance cannot be
                // undone.
                if let Err(error) = self.save_clock().await {
                    let _ = reply.send(Err(error));
                    return;
                }
                match (command, &mut self.advancing) {
                    (Command::Advance(by), advancing) => {
                        let from = advancing.as_ref().map_or(clock.now(), |it| it.target);
                        let target = from.saturating_add(by);
                        if !time::is_representable(target) {
                            let message = "must not move the clock beyond the year 9999";
                            let _ = reply.send(Err(Failure::field("advance", message)));
                            return;
                        }
                        let was_running = !clock.is_frozen();
                        let begun = Advancing {
                            target,
                            was_running,
                            replies: Vec::new(),
                        };
                        let advancing = advancing.get_or_insert(begun);
                        advancing.target = target;
                        advancing.replies.push(reply);
                        clock.advance(clock.now(), advancing.was_running);
                        return;
                    }
                    (Command::Freeze, advancing) => {
                        clock.freeze(clock.now());
                        if let Some(advancing) = advancing {
                            advancing.was_running = false;
                        }
                    }
                    (Command::Real, _) => {
                        let message = "the clock was set to real time during the advance";
                        self.fail_advances(&Failure::new(Code::Conflict, message));
                        clock.restart();
                    }
                    (_, Some(advancing)) => advancing.was_running = true,
                    (_, None) if clock.is_frozen() => clock.run(clock.now()),
                    (_, None) => {}
                }
                self.reply_saved(vec![reply]).await;
            }
        }
    }

    /// Saves the state of the clock, so that it continues from there after a restart.
    async fn save_clock(&self) -> Result<()> {
        let mode = self.app.clock.lasting_mode();
        self.app
            .store
            .write(move |tx| meta::set_clock(tx, mode))
            .await
    }

    /// Replies after a change of the clock. It has changed, even if that cannot be saved.
    async fn reply_saved(&self, replies: Vec<Reply>) {
        let state = match self.save_clock().await {
            Ok(()) => self.state().await,
            Err(error) => Err(Failure::new(
                error.code(),
                format!(
                    "the clock is now at {}, but this was not saved: {}",
                    time::rfc3339(self.app.clock.now()),
                    error.message()
                ),
            )),
        };
        for reply in replies {
            let _ = reply.send(state.clone());
        }
    }

    /// Follows the clock of the system again, after a reset of the whole server.
    async fn restart(&mut self) -> Result<Clock> {
        self.fail_advances(&Failure::new(
            Code::Unavailable,
            "the server was reset during the advance",
        ));
        self.app.clock.restart();
        self.save_clock().await?;
        self.reload().await
    }

    /// Aborts the attempts to deleted webhooks. Other webhooks, including those of other
    /// organizations, are not affected.
    async fn reload(&mut self) -> Result<Clock> {
        let webhooks = self.app.store.read(webhook_rows::ids).await?;
        self.running.retain(|_, (job, task)| {
            let is_wanted = !matches!(&job.queue, Queue::Webhook(id) if !webhooks.contains(id));
            if !is_wanted {
                task.abort();
            }
            is_wanted
        });
        self.state().await
    }

    async fn state(&self) -> Result<Clock> {
        let computer = clock::system();
        let now = self.app.clock.now();
        let has_relay = self.app.relay.is_some();
        let read = self.app.store.read(move |reader| {
            let queues = job_rows::queues(reader, has_relay)?;
            let is_due = queues.iter().any(|(_, at)| *at <= now);
            let next = queues
                .iter()
                .map(|(queue, _)| job_rows::next_after(reader, queue, now));
            Ok((
                is_due,
                next.collect::<Result<Vec<_>, _>>()?
                    .into_iter()
                    .flatten()
                    .min(),
            ))
        });
        let (is_due, next_due) = read.await?;
        Ok(Clock {
            now: now.into(),
            frozen: self.app.clock.is_frozen(),
            settled: self.running.is_empty() && !is_due && self.advancing.is_none(),
            next_due: next_due.map(Into::into),
            ahead: now - computer,
        })
    }
}

/// Jobs that can begin.
struct Found {
    /// Each with its delivery, or why that cannot be read.
    jobs: Vec<(Job, Result<Option<Pending>>)>,
    /// When the first of the other jobs is due, but for those that wait for the end of one.
    next: Millis,
}

/// Finds jobs within the limits, besides those that run. Queues with few running jobs come first.
fn find(reader: Reader<'_>, now: Millis, running: &HashSet<Job>, has_relay: bool) -> Result<Found> {
    let mut queues = job_rows::queues(reader, has_relay)?;
    let busy = |queue: &Queue| running.iter().filter(|job| job.queue == *queue).count();
    queues.sort_by_cached_key(|(queue, _)| busy(queue));

    let attempts = running.iter().filter(|job| is_webhook(&job.queue)).count();
    let mut free_attempts = MAX_ATTEMPTS.saturating_sub(attempts);
    let busy_webhooks = queues
        .iter()
        .filter(|(queue, at)| is_webhook(queue) && *at <= now)
        .count();
    let attempts_each = (SHARED_ATTEMPTS / (busy_webhooks + 1)).clamp(1, MAX_ATTEMPTS_EACH);

    let mut found = Found {
        jobs: Vec::new(),
        next: Millis::MAX,
    };
    for (queue, at) in queues {
        if at > now {
            found.next = found.next.min(at);
            continue;
        }
        let busy = busy(&queue);
        let limit = match queue {
            Queue::Mail => 1,
            Queue::Relay => MAX_RELAYED,
            Queue::Received => MAX_ANNOUNCED,
            Queue::Webhook(_) => attempts_each,
        };
        let mut free = limit.saturating_sub(busy);
        if is_webhook(&queue) {
            free = free.min(free_attempts);
        }
        if free == 0 {
            continue;
        }
        if queue == Queue::Mail {
            found.jobs.push((Job::new(queue, ""), Ok(None)));
            continue;
        }
        let due = job_rows::due(reader, &queue, now, busy + free)?;
        let due = due
            .into_iter()
            .map(|(job, _)| job)
            .filter(|job| !running.contains(job));
        for job in due.take(free) {
            let pending = match queue {
                Queue::Webhook(_) => delivery_rows::pending(reader, &job),
                _ => Ok(None),
            };
            free_attempts -= usize::from(is_webhook(&queue));
            found.jobs.push((job, pending));
        }
        let next = job_rows::next_after(reader, &queue, now)?;
        found.next = found.next.min(next.unwrap_or(Millis::MAX));
    }

    Ok(found)
}

fn is_webhook(queue: &Queue) -> bool {
    matches!(queue, Queue::Webhook(_))
}

/// Does a job.
async fn run(app: Shared, job: Job, pending: Result<Option<Pending>>) -> Result<Done> {
    match (&job.queue, pending?) {
        (Queue::Relay, _) => relaying_rules::hand_over(&app, job.subject).await?,
        (Queue::Received, _) => message_rules::announce(&app, job).await?,
        (_, Some(pending)) => webhook_rules::deliver(&app, pending).await?,
        // The delivery was deleted.
        (_, None) => {
            app.store
                .write_relaxed(move |tx| job_rows::done(tx, &job).map(drop))
                .await?;
        }
    }
    Ok(None)
}

/// Gives up a job that the server cannot do because of a defect, so that it is not repeated for
/// ever.
async fn set_aside(app: &App, job: Job) -> Result<()> {
    app.set_aside.fetch_add(1, Ordering::Relaxed);
    tracing::error!(
        ?job,
        "a job was set aside: it fails by a defect of this server"
    );
    let write = move |tx: &mut Tx<'_>| match &job.queue {
        Queue::Webhook(id) => delivery_rows::end(tx, id, &job.subject, DeliveryState::Failed),
        queue => {
            if *queue != Queue::Received {
                email_rows::fail(tx, &job.subject)?;
            }
            job_rows::done(tx, &job).map(drop)
        }
    };

    app.store.write_relaxed(write).await
}

/// Processes emails that are due up to `until`. Moves on to the next due time only if nothing else
/// is due before it. Returns the time that it has reached.
async fn send_due(app: Shared, until: Millis) -> Result<Millis> {
    let write = |limit| {
        let context = Arc::clone(&app);
        app.store
            .write_relaxed(move |tx| email_rules::send_due(tx, &context, until, limit))
    };

    // If the server has a defect, the first email by itself shows whether it is the cause.
    for limit in [EMAILS_AT_ONCE, 1] {
        match write(limit).await {
            Err(error) if error.code() == Code::Internal => {}
            step => return step,
        }
    }

    let now = app.clock.now();
    let read = move |reader: Reader<'_>| job_rows::due(reader, &Queue::Mail, until.max(now), 1);
    for (job, _) in app.store.read(read).await? {
        set_aside(&app, job).await?;
    }

    Ok(now)
}

/// Maximum number of emails in one step.
const EMAILS_AT_ONCE: usize = 128;
