//! The engine: does the work in the table `job` when it is due by the server's clock.
//!
//! One task takes what is due from each queue and runs it, a limited number of jobs at once. Only
//! this task moves the clock, so that an advance can go from due time to due time and complete
//! when nothing is left (`docs/control-interface.md#the-clock`).

mod mail;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::Instant;

use crate::app::engine_handle::{Command, Reply, State};
use crate::app::{App, Shared};
use crate::delivery::{local, relaying, webhook};
use crate::model::error::{ApiError, Code};
use crate::model::job::{Due, Job, Queue};
use crate::model::time::{self, Millis};
use crate::store::deliveries::{self, Pending, State as DeliveryState};
use crate::store::{Reader, Tx, emails, jobs, meta, webhooks};

/// Maximum number of attempts in progress: of all webhooks, and of each, so that a slow endpoint
/// delays only its own deliveries.
const MAX_ATTEMPTS: usize = 64;
const MAX_ATTEMPTS_EACH: usize = 16;
/// Maximum number of messages that are announced at the same time.
const MAX_ANNOUNCED: usize = 8;

struct Engine {
    app: Shared,
    commands: mpsc::UnboundedReceiver<(Command, Reply)>,
    /// Those that have work.
    queues: HashMap<Queue, Schedule>,
    tasks: JoinSet<Result<Done, ApiError>>,
    /// The job of each task.
    running: HashMap<Id, Job>,
    pending_advances: VecDeque<(Millis, Reply)>,
    advancing: Option<Advancing>,
    settled_waiters: Vec<Reply>,
}

/// What is known about the work of a queue.
struct Schedule {
    /// When the first of its jobs that do not run is due; `Millis::MAX` for never.
    next: Millis,
    running: HashMap<Job, AbortHandle>,
    /// Whether jobs were added since the last end of one: the same one may be due again.
    is_changed: bool,
    /// The number of failures in a row, and when the next job may begin, in real time.
    failures: u32,
    not_before: Option<Instant>,
}

/// The end of a job: for [`Queue::Mail`], when its next step is due, and the time that this one has
/// reached.
type Done = Option<mail::Step>;

/// The advance of the clock in progress.
struct Advancing {
    target: Millis,
    /// Whether the clock runs on after the advance.
    was_running: bool,
    reply: Reply,
}

/// Runs the engine, until the server stops, with the jobs in the database, which are in these
/// queues.
pub(crate) async fn run_jobs(
    app: Shared,
    commands: mpsc::UnboundedReceiver<(Command, Reply)>,
    due: Vec<(Queue, Millis)>,
) {
    let mut engine = Engine {
        app,
        commands,
        queues: HashMap::new(),
        tasks: JoinSet::new(),
        running: HashMap::new(),
        pending_advances: VecDeque::new(),
        advancing: None,
        settled_waiters: Vec::new(),
    };
    engine.schedule(due);
    engine.run().await;
}

impl Engine {
    async fn run(mut self) {
        let (stop, wake) = (Arc::clone(&self.app.stop), Arc::clone(&self.app.store.wake));
        let stopped = stop.requested();
        tokio::pin!(stopped);
        loop {
            self.schedule(wake.take());
            self.start_due().await;
            if self.is_settled() && self.finish_or_advance().await {
                continue;
            }
            let sleep = self.sleep();
            tokio::select! {
                () = &mut stopped => break,
                () = wake.notify.notified() => {}
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

    /// Takes over work that became due.
    fn schedule(&mut self, due: Vec<(Queue, Millis)>) {
        for (queue, at) in due {
            // Without a relay, its jobs wait for a server that has one.
            if queue == Queue::Relay && self.app.relay.is_none() {
                continue;
            }
            let schedule = self.queues.entry(queue).or_insert_with(Schedule::new);
            schedule.next = schedule.next.min(at);
            schedule.is_changed = true;
        }
    }

    /// Starts the jobs that are due, within the limits. Queues with few running jobs come first.
    async fn start_due(&mut self) {
        let (now, instant) = (self.app.clock.now(), Instant::now());
        let is_due = |(queue, schedule): &(&Queue, &Schedule)| {
            let limit = limit(queue);
            schedule.next <= now
                && schedule.running.len() < limit
                && schedule.not_before.is_none_or(|not_before| not_before <= instant)
        };
        let due = self.queues.iter().filter(is_due);
        let mut due: Vec<_> =
            due.map(|(queue, schedule)| (schedule.running.len(), queue.clone())).collect();
        due.sort_by_key(|(running, _)| *running);
        for (running, queue) in due {
            let free = match &queue {
                Queue::Webhook(_) => {
                    (limit(&queue) - running).min(MAX_ATTEMPTS.saturating_sub(self.attempts()))
                }
                _ => limit(&queue) - running,
            };
            if free == 0 {
                continue;
            }
            if let Err(error) = self.start_jobs(&queue, now, free).await {
                self.fail(&queue, &error);
            }
        }
    }

    /// The number of attempts in progress.
    fn attempts(&self) -> usize {
        self.running.values().filter(|job| matches!(job.queue, Queue::Webhook(_))).count()
    }

    /// Starts up to `free` jobs of a queue.
    async fn start_jobs(
        &mut self,
        queue: &Queue,
        now: Millis,
        free: usize,
    ) -> Result<(), ApiError> {
        if *queue == Queue::Mail {
            let until = self.step_end(now);
            self.set_next(queue, Millis::MAX);
            let step = mail::step(Arc::clone(&self.app), until);
            self.spawn(Job::new(Queue::Mail, ""), async { step.await.map(Some) });
            return Ok(());
        }
        let running = self.queues.get(queue).map(|schedule| &schedule.running);
        let running: HashSet<Job> = running.into_iter().flat_map(HashMap::keys).cloned().collect();
        let (wanted, limit) = (queue.clone(), running.len() + free);
        let found = self.app.store.read(move |reader: Reader<'_>| {
            let mut due = jobs::due(reader, &wanted, now, limit)?;
            let next = match due.len() == limit {
                true => Some(now),
                false => jobs::next_after(reader, &wanted, now)?,
            };
            due.retain(|due| !running.contains(&due.job));
            let with_delivery = |due: Due| match &wanted {
                Queue::Webhook(_) => Ok((deliveries::pending(reader, &due)?, due.job)),
                _ => Ok((None, due.job)),
            };
            let new = due.into_iter().map(with_delivery).collect::<Result<Vec<_>, ApiError>>()?;
            Ok((new, next))
        });
        let (mut new, next) = found.await?;
        // Jobs that have ended, but are still counted, leave fewer to start than are due.
        let is_cut = new.len() > free;
        new.truncate(free);
        self.set_next(queue, if is_cut { now } else { next.unwrap_or(Millis::MAX) });
        for (pending, job) in new {
            let work = run(Arc::clone(&self.app), job.clone(), pending);
            self.spawn(job, work);
        }
        self.queues.retain(|_, schedule| !schedule.is_idle());
        Ok(())
    }

    fn set_next(&mut self, queue: &Queue, next: Millis) {
        if let Some(schedule) = self.queues.get_mut(queue) {
            schedule.next = next;
        }
    }

    fn spawn(
        &mut self,
        job: Job,
        work: impl Future<Output = Result<Done, ApiError>> + Send + 'static,
    ) {
        let task = self.tasks.spawn(work);
        self.running.insert(task.id(), job.clone());
        let schedule = self.queues.entry(job.queue.clone()).or_insert_with(Schedule::new);
        schedule.running.insert(job, task);
    }

    /// How far a step of [`Queue::Mail`] may go: during an advance, through many due times in one
    /// transaction, as long as nothing else is due in between.
    fn step_end(&self, now: Millis) -> Millis {
        match &self.advancing {
            Some(advancing) if self.tasks.is_empty() => {
                let others = self.queues.iter().filter(|(queue, _)| **queue != Queue::Mail);
                let next = others.map(|(_, schedule)| schedule.next).min();
                advancing.target.min(next.unwrap_or(Millis::MAX))
            }
            _ => now,
        }
    }

    async fn on_end(&mut self, ended: Result<(Id, Result<Done, ApiError>), JoinError>) {
        let (task, result) =
            ended.unwrap_or_else(|error| (error.id(), Err(ApiError::internal("a job panicked"))));
        // None if the job was aborted.
        let Some(job) = self.running.remove(&task) else { return };
        let Some(schedule) = self.queues.get_mut(&job.queue) else { return };
        schedule.running.remove(&job);
        if std::mem::take(&mut schedule.is_changed) {
            schedule.next = Millis::MIN;
        }
        let result = match result {
            Err(error) if error.code() == Code::Internal && job.queue != Queue::Mail => {
                set_aside(&self.app, job.clone()).await.map(|()| None)
            }
            result => result,
        };
        let Some(schedule) = self.queues.get_mut(&job.queue) else { return };
        match result {
            Ok(step) => {
                (schedule.failures, schedule.not_before) = (0, None);
                if let Some(mail::Step { next, reached }) = step {
                    schedule.next = schedule.next.min(next);
                    if self.advancing.is_some() && reached > self.app.clock.now() {
                        self.app.clock.freeze(reached);
                    }
                }
                if schedule.is_idle() {
                    self.queues.remove(&job.queue);
                }
            }
            Err(error) => self.fail(&job.queue, &error),
        }
    }

    /// Holds back a queue after a failure, such as a full disk. Fails all pending advances: the
    /// clock stays at the time that it has reached.
    fn fail(&mut self, queue: &Queue, error: &ApiError) {
        tracing::error!(message = error.message(), "work failed and will be tried again");
        if let Some(schedule) = self.queues.get_mut(queue) {
            schedule.failures = schedule.failures.saturating_add(1);
            let wait = Duration::from_millis(100 << schedule.failures.min(6));
            schedule.not_before = Some(Instant::now() + wait);
            schedule.next = Millis::MIN;
        }
        self.fail_advances(error);
    }

    fn fail_advances(&mut self, error: &ApiError) {
        let advancing = self.advancing.take().map(|advancing| {
            if advancing.was_running {
                self.app.clock.run(self.app.clock.now());
            }
            advancing.reply
        });
        let pending = self.pending_advances.drain(..).map(|(_, reply)| reply);
        for reply in advancing.into_iter().chain(pending) {
            let _ = reply.send(Err(error.clone()));
        }
    }

    fn is_settled(&self) -> bool {
        let now = self.app.clock.now();
        self.tasks.is_empty() && self.queues.values().all(|schedule| schedule.next > now)
    }

    /// Called when everything is settled. Moves an advance to the next due time, starts
    /// the next advance, or notifies those that wait for the engine to settle. Returns
    /// whether there may be more work now.
    async fn finish_or_advance(&mut self) -> bool {
        let clock = Arc::clone(&self.app.clock);
        if let Some(advancing) = &self.advancing {
            match self.queues.values().map(|schedule| schedule.next).min() {
                Some(next) if next <= advancing.target => clock.freeze(next),
                _ if clock.now() < advancing.target => clock.freeze(advancing.target),
                _ => {
                    let advancing = self.advancing.take().expect("checked above");
                    if advancing.was_running {
                        clock.run(advancing.target);
                    }
                    self.reply_saved(advancing.reply).await;
                }
            }
            return true;
        }
        if let Some((by, reply)) = self.pending_advances.pop_front() {
            let now = clock.now();
            let was_running = !clock.is_frozen();
            clock.freeze(now);
            self.advancing = Some(Advancing { target: now.saturating_add(by), was_running, reply });
            return true;
        }
        for waiter in std::mem::take(&mut self.settled_waiters) {
            let _ = waiter.send(self.state().await);
        }
        false
    }

    /// How long the engine can sleep if nothing wakes it.
    fn sleep(&self) -> Duration {
        const LONG: Duration = Duration::from_secs(3600);
        let (now, instant) = (self.app.clock.now(), Instant::now());
        let runs = !self.app.clock.is_frozen();
        let attempts = self.attempts();
        let until = |(queue, schedule): (&Queue, &Schedule)| {
            // The end of a job wakes the engine.
            let is_full = schedule.running.len() >= limit(queue)
                || matches!(queue, Queue::Webhook(_)) && attempts >= MAX_ATTEMPTS;
            if is_full || schedule.next == Millis::MAX || schedule.next > now && !runs {
                return LONG;
            }
            let back_off = schedule.not_before.map(|not_before| not_before - instant);
            let wait = Duration::from_millis(schedule.next.saturating_sub(now).max(1) as u64);
            wait.max(back_off.unwrap_or_default()).min(LONG)
        };
        self.queues.iter().map(until).min().unwrap_or(LONG)
    }

    async fn handle(&mut self, command: Command, reply: Reply) {
        let clock = Arc::clone(&self.app.clock);
        match command {
            Command::State => drop(reply.send(self.state().await)),
            Command::Settle => self.settled_waiters.push(reply),
            Command::Reload => drop(reply.send(self.reload().await)),
            Command::FailAdvances(error) => self.fail_advances(&error),
            Command::Freeze | Command::Resume | Command::Advance(_) => {
                // Fail before the change if the database is not writable: an advance cannot be
                // undone.
                if let Err(error) = self.save_clock().await {
                    let _ = reply.send(Err(error));
                    return;
                }
                match (command, &mut self.advancing) {
                    (Command::Advance(by), _) => {
                        self.pending_advances.push_back((by, reply));
                        return;
                    }
                    (Command::Freeze, advancing) => {
                        clock.freeze(clock.now());
                        if let Some(advancing) = advancing {
                            advancing.was_running = false;
                        }
                    }
                    (_, Some(advancing)) => advancing.was_running = true,
                    (_, None) if clock.is_frozen() => clock.run(clock.now()),
                    (_, None) => {}
                }
                self.reply_saved(reply).await;
            }
        }
    }

    /// Saves the state of the clock, so that it continues from there after a restart.
    async fn save_clock(&self) -> Result<(), ApiError> {
        let mode = self.app.clock.mode();
        self.app.store.write(move |tx| meta::set_clock(tx, mode)).await
    }

    /// Replies after a change of the clock. It has changed, even if that cannot be saved.
    async fn reply_saved(&self, reply: Reply) {
        let state = match self.save_clock().await {
            Ok(()) => self.state().await,
            Err(error) => Err(ApiError::new(
                error.code(),
                format!(
                    "the clock is now at {}, but this was not saved: {}",
                    time::rfc3339(self.app.clock.now()),
                    error.message()
                ),
            )),
        };
        let _ = reply.send(state);
    }

    /// Aborts the attempts to deleted webhooks, and reads the queues again. Other
    /// webhooks, including those of other organizations, are not affected.
    async fn reload(&mut self) -> Result<State, ApiError> {
        self.app.store.wake.take();
        let read = |reader: Reader<'_>| Ok((webhooks::ids(reader)?, jobs::queues(reader)?));
        let (webhooks, due) = self.app.store.read(read).await?;
        for (queue, schedule) in &mut self.queues {
            schedule.next = Millis::MAX;
            if let Queue::Webhook(id) = queue
                && !webhooks.contains(id)
            {
                for (_, task) in schedule.running.drain() {
                    self.running.remove(&task.id());
                    task.abort();
                }
            }
        }
        self.queues.retain(|_, schedule| !schedule.is_idle());
        self.schedule(due);
        self.state().await
    }

    async fn state(&self) -> Result<State, ApiError> {
        let now = self.app.clock.now();
        let queues: Vec<_> = self.queues.keys().cloned().collect();
        let next_due = self.app.store.read(move |reader| {
            let next = queues.iter().map(|queue| jobs::next_after(reader, queue, now));
            Ok(next.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().min())
        });
        let is_settled = self.is_settled() && self.advancing.is_none();
        Ok(State {
            now,
            frozen: self.app.clock.is_frozen(),
            settled: is_settled && self.pending_advances.is_empty(),
            next_due: next_due.await?,
        })
    }
}

impl Schedule {
    fn new() -> Self {
        let (running, is_changed) = (HashMap::new(), false);
        Self { next: Millis::MAX, running, is_changed, failures: 0, not_before: None }
    }

    fn is_idle(&self) -> bool {
        self.next == Millis::MAX && self.running.is_empty()
    }
}

/// How many jobs of a queue run at the same time.
fn limit(queue: &Queue) -> usize {
    match queue {
        Queue::Mail | Queue::Relay => 1,
        Queue::Received => MAX_ANNOUNCED,
        Queue::Webhook(_) => MAX_ATTEMPTS_EACH,
    }
}

/// Does a job.
async fn run(app: Shared, job: Job, pending: Option<Pending>) -> Result<Done, ApiError> {
    match (&job.queue, pending) {
        (Queue::Relay, _) => relaying::hand_over(&app, job.subject).await?,
        (Queue::Received, _) => local::announce(&app, job).await?,
        (_, Some(pending)) => webhook::deliver(&app, pending).await?,
        // The delivery was deleted.
        (_, None) => app.store.write_relaxed(move |tx| jobs::done(tx, &job).map(drop)).await?,
    }
    Ok(None)
}

/// Gives up a job that the server cannot do because of a defect, so that it is not repeated for
/// ever.
async fn set_aside(app: &App, job: Job) -> Result<(), ApiError> {
    app.set_aside.fetch_add(1, Ordering::Relaxed);
    tracing::error!(?job, "a job was set aside: it fails by a defect of this server");
    let write = move |tx: &mut Tx<'_>| match &job.queue {
        Queue::Webhook(id) => deliveries::end(tx, id, &job.subject, DeliveryState::Failed),
        queue => {
            if *queue != Queue::Received {
                emails::fail(tx, &job.subject)?;
            }
            jobs::done(tx, &job).map(drop)
        }
    };
    app.store.write_relaxed(write).await
}
