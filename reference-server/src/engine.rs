//! The engine: runs scheduled work when it is due by the server's clock.
//!
//! One task owns the schedule. It runs steps, each of which processes a batch of due
//! emails in one transaction, and keeps one delivery worker per webhook with due
//! deliveries. Only this task moves the clock, so that an advance can go from due time
//! to due time and complete when nothing is left
//! (`docs/control-interface.md#the-clock`).

pub(crate) mod activity;
mod back_off;
mod handle;
mod step;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};

use crate::delivery::{Delivery, local, post, relaying, webhook_worker};
use crate::model::clock::ClockMode;
use crate::model::error::ApiError;
use crate::model::time::Millis;
use crate::model::worker::Worker;
use crate::store::{crashes, deleted};
use back_off::BackOff;
use handle::Command;
pub(crate) use handle::{EngineHandle, State};
use step::StepResult;

/// State of the engine task. `Millis::MAX` means that nothing is scheduled.
struct Engine {
    delivery: Arc<Delivery>,
    commands: mpsc::UnboundedReceiver<Command>,
    /// The earliest time in the table `due`.
    next_step: Millis,
    /// Only of workers with pending work.
    routes: HashMap<Worker, Route>,
    workers: JoinSet<WorkerDone>,
    step: Option<oneshot::Receiver<Result<StepResult, ApiError>>>,
    /// After steps that failed.
    step_back_off: BackOff,
    pending_advances: VecDeque<(Millis, AdvanceSender)>,
    advancing: Option<Advancing>,
    settled_waiters: Vec<oneshot::Sender<()>>,
    state_waiters: Vec<StateSender>,
}

type StateSender = oneshot::Sender<State>;
type AdvanceSender = oneshot::Sender<Result<State, ApiError>>;

/// Schedule of one worker.
#[derive(Debug)]
struct Route {
    /// The earliest due time.
    next: Millis,
    running: Option<Running>,
    /// After failures. Workers do not wait for each other's.
    back_off: BackOff,
}

#[derive(Debug)]
struct Running {
    task: AbortHandle,
    /// Tells the worker that more deliveries are due.
    more: Arc<Notify>,
    /// Whether `more` was notified. The worker may have finished without seeing it.
    notified: bool,
}

/// Result of a finished worker: when its next work is due.
struct WorkerDone {
    worker: Worker,
    next: Result<Millis, ApiError>,
}

/// The advance of the clock in progress.
struct Advancing {
    target: Millis,
    /// Whether the clock runs on after the advance.
    was_running: bool,
    reply: AdvanceSender,
}

/// Starts the engine with the pending work found in the database.
pub(crate) fn start(
    delivery: &Arc<Delivery>,
    commands: mpsc::UnboundedReceiver<Command>,
    due: Vec<(Worker, Millis)>,
) -> tokio::task::JoinHandle<()> {
    let mut engine = Engine {
        delivery: Arc::clone(delivery),
        commands,
        // Makes the first step read the table at once.
        next_step: Millis::MIN,
        routes: HashMap::new(),
        workers: JoinSet::new(),
        step: None,
        step_back_off: BackOff::default(),
        pending_advances: VecDeque::new(),
        advancing: None,
        settled_waiters: Vec::new(),
        state_waiters: Vec::new(),
    };
    for (worker, at) in due {
        engine.route(worker, at);
    }
    tokio::spawn(engine.run())
}

/// Does the work of a worker that is due. Returns when its next work is due.
async fn run_worker(
    delivery: &Arc<Delivery>,
    worker: &Worker,
    more: &Notify,
) -> Result<Millis, ApiError> {
    let work = async {
        match worker {
            Worker::Webhook(id) => webhook_worker::run(delivery, id, more).await,
            Worker::Relay => relaying::run(delivery).await,
            Worker::Local => local::run(delivery).await,
            Worker::Events => post::run(delivery).await,
            Worker::Deleted => deleted::run(&delivery.store, &delivery.stop).await,
        }
    };
    let next = tokio::select! {
        next = work => next,
        // The relay records which messages it may have handed over.
        () = delivery.stop.until_cut(), if *worker != Worker::Relay => Ok(Millis::MAX),
    };
    after_defects(delivery, next, Millis::MIN).await
}

/// Counts the jobs that met a defect of this server. If that made the work fail, it is done
/// again at once: either the job succeeds, or after a few times it is set aside, and the others
/// go on.
async fn after_defects<T>(
    delivery: &Delivery,
    result: Result<T, ApiError>,
    again: T,
) -> Result<T, ApiError> {
    if crashes::count_failed(&delivery.store).await? && result.is_err() {
        Ok(again)
    } else {
        result
    }
}

impl Engine {
    async fn run(mut self) {
        let stop = Arc::clone(&self.delivery.stop);
        let stopped = stop.requested();
        tokio::pin!(stopped);
        loop {
            self.drain_wakeups();
            self.start_due_work();
            self.send_state();
            if self.is_settled() && self.finish_or_advance() {
                continue;
            }
            let sleep = self.sleep();
            let wake = Arc::clone(&self.delivery.store.wake);
            tokio::select! {
                () = &mut stopped => break,
                () = wake.notify.notified() => {}
                Some(done) = self.workers.join_next_with_id() => self.on_worker_done(done),
                result = async { self.step.as_mut().expect("the branch requires a step").await }, if self.step.is_some() => {
                    self.on_step_done(result.unwrap_or_else(|_| Err(ApiError::internal("a step ended without a result"))));
                }
                Some(command) = self.commands.recv() => self.handle_command(command).await,
                () = tokio::time::sleep(sleep) => {}
            }
        }
        // What is in progress is completed and recorded, or cut and done again by the next
        // server.
        while self.workers.join_next().await.is_some() {}
    }

    /// Takes over the work that recent commits made due.
    fn drain_wakeups(&mut self) {
        let (step, workers) = self.delivery.store.wake.take();
        self.next_step = self.next_step.min(step);
        for (worker, at) in workers {
            self.route(worker, at);
        }
    }

    fn route(&mut self, worker: Worker, at: Millis) {
        let new = || Route { next: Millis::MAX, running: None, back_off: BackOff::default() };
        let route = self.routes.entry(worker).or_insert_with(new);
        route.next = route.next.min(at);
    }

    /// Starts all due work that is not running yet.
    fn start_due_work(&mut self) {
        let now = self.delivery.clock.now();
        if self.step.is_none() && self.next_step <= now && self.step_back_off.is_over() {
            self.step = Some(self.start_step(now));
        }
        for (worker, route) in &mut self.routes {
            if route.next > now || !route.back_off.is_over() {
                continue;
            }
            route.next = Millis::MAX;
            if let Some(running) = &mut route.running {
                running.notified = true;
                running.more.notify_one();
                continue;
            }
            let (delivery, worker) = (Arc::clone(&self.delivery), worker.clone());
            let more = Arc::new(Notify::new());
            let notified = Arc::clone(&more);
            let task = self.workers.spawn(async move {
                let next = run_worker(&delivery, &worker, &notified).await;
                WorkerDone { worker, next }
            });
            route.running = Some(Running { task, more, notified: false });
        }
    }

    /// Sends the state to those who wait for it, unless a running step is about to change it.
    fn send_state(&mut self) {
        if self.step.is_some() {
            return;
        }
        for waiter in std::mem::take(&mut self.state_waiters) {
            let _ = waiter.send(self.state());
        }
    }

    /// Starts a step. During an advance, one step goes through many due times in one
    /// transaction, as long as no delivery is due in between.
    fn start_step(&mut self, now: Millis) -> oneshot::Receiver<Result<StepResult, ApiError>> {
        self.next_step = Millis::MAX;
        let until = match &self.advancing {
            Some(advancing) if self.workers.is_empty() => {
                advancing.target.min(self.next_delivery())
            }
            _ => now,
        };
        let (sender, receiver) = oneshot::channel();
        let delivery = Arc::clone(&self.delivery);
        tokio::spawn(async move {
            let context = Arc::clone(&delivery);
            let step = delivery.store.write_relaxed(move |tx| step::run(tx, &context, until)).await;
            let again = StepResult { next: Millis::MIN, reached: Millis::MIN };
            let _ = sender.send(after_defects(&delivery, step, again).await);
        });
        receiver
    }

    fn on_step_done(&mut self, result: Result<StepResult, ApiError>) {
        self.step = None;
        match result {
            Ok(result) => {
                self.step_back_off.reset();
                self.next_step = self.next_step.min(result.next);
                if self.advancing.is_some() && result.reached > self.delivery.clock.now() {
                    self.delivery.clock.freeze(result.reached);
                }
            }
            Err(error) => {
                tracing::error!(message = error.message(), "a step failed and will be retried");
                self.next_step = Millis::MIN;
                self.step_back_off.fail();
                self.fail_advances(&error);
            }
        }
    }

    /// Fails all pending advances. The clock stays at the time that it has reached.
    fn fail_advances(&mut self, error: &ApiError) {
        if let Some(advancing) = self.advancing.take() {
            if advancing.was_running {
                self.delivery.clock.run(self.delivery.clock.now());
            }
            let _ = advancing.reply.send(Err(error.clone()));
        }
        for (_, reply) in self.pending_advances.drain(..) {
            let _ = reply.send(Err(error.clone()));
        }
    }

    fn on_worker_done(&mut self, done: Result<(Id, WorkerDone), JoinError>) {
        match done {
            Ok((task, WorkerDone { worker, next })) => {
                let Some(route) = self.routes.get_mut(&worker) else { return };
                let Some(running) = route.running.take_if(|running| running.task.id() == task)
                else {
                    return;
                };
                if running.notified {
                    route.next = Millis::MIN;
                }
                let failed = match next {
                    Ok(next) => {
                        route.back_off.reset();
                        route.next = route.next.min(next);
                        None
                    }
                    Err(error) => {
                        route.back_off.fail();
                        route.next = Millis::MIN;
                        Some(error)
                    }
                };
                if route.next == Millis::MAX {
                    self.routes.remove(&worker);
                }
                if let Some(error) = failed {
                    tracing::error!(
                        message = error.message(),
                        "deliveries are waiting for the database"
                    );
                    self.fail_advances(&error);
                }
            }
            Err(error) if error.is_cancelled() => {}
            Err(error) => {
                tracing::error!(%error, "a delivery worker failed; starting another one");
                let is_failed_worker = |running: &mut Running| running.task.id() == error.id();
                for route in self.routes.values_mut() {
                    if route.running.take_if(is_failed_worker).is_some() {
                        route.back_off.fail();
                        route.next = Millis::MIN;
                    }
                }
            }
        }
    }

    fn is_settled(&self) -> bool {
        let now = self.delivery.clock.now();
        self.step.is_none()
            && self.workers.is_empty()
            && self.next_step > now
            && self.next_delivery() > now
    }

    fn next_delivery(&self) -> Millis {
        self.routes.values().map(|route| route.next).min().unwrap_or(Millis::MAX)
    }

    fn next_due(&self) -> Option<Millis> {
        let next = self.next_step.min(self.next_delivery());
        (next != Millis::MAX).then_some(next)
    }

    /// Called when everything is settled. Moves an advance to the next due time, starts
    /// the next advance, or notifies those that wait for the engine to settle. Returns
    /// whether there may be more work now.
    fn finish_or_advance(&mut self) -> bool {
        let clock = &self.delivery.clock;
        if let Some(advancing) = &self.advancing {
            match self.next_due() {
                Some(next) if next <= advancing.target => clock.freeze(next),
                _ if clock.now() < advancing.target => clock.freeze(advancing.target),
                _ => {
                    let advancing = self.advancing.take().expect("checked above");
                    if advancing.was_running {
                        clock.run(advancing.target);
                    }
                    let _ = advancing.reply.send(Ok(self.state()));
                }
            }
            return true;
        }
        if let Some((by, reply)) = self.pending_advances.pop_front() {
            let now = clock.now();
            let advancing = Advancing {
                target: now.saturating_add(by),
                was_running: !clock.is_frozen(),
                reply,
            };
            clock.freeze(now);
            self.advancing = Some(advancing);
            return true;
        }
        for waiter in self.settled_waiters.drain(..) {
            let _ = waiter.send(());
        }
        false
    }

    /// How long the engine can sleep if nothing wakes it.
    fn sleep(&self) -> Duration {
        const LONG: Duration = Duration::from_secs(3600);
        let now = self.delivery.clock.now();
        let runs = matches!(self.delivery.clock.mode(), ClockMode::Running { .. });
        let until = |next: Millis, back_off: &BackOff| {
            if next == Millis::MAX || next > now && !runs {
                return LONG;
            }
            let wait = Duration::from_millis(next.saturating_sub(now).max(1).unsigned_abs());
            wait.max(back_off.remaining())
        };
        let step = match self.step {
            Some(_) => LONG,
            None => until(self.next_step, &self.step_back_off),
        };
        let workers = self.routes.values().map(|route| until(route.next, &route.back_off));
        workers.min().unwrap_or(LONG).min(step).min(LONG)
    }

    async fn handle_command(&mut self, command: Command) {
        self.drain_wakeups();
        match command {
            // Answered after the next step, which determines what is due next.
            Command::State(reply) => self.state_waiters.push(reply),
            Command::Settled(reply) => self.settled_waiters.push(reply),
            Command::Advance(by, reply) => self.pending_advances.push_back((by, reply)),
            Command::Freeze(reply) => {
                self.delivery.clock.freeze(self.delivery.clock.now());
                if let Some(advancing) = &mut self.advancing {
                    advancing.was_running = false;
                }
                let _ = reply.send(self.state());
            }
            Command::Resume(reply) => {
                match &mut self.advancing {
                    Some(advancing) => advancing.was_running = true,
                    None if self.delivery.clock.is_frozen() => {
                        self.delivery.clock.run(self.delivery.clock.now());
                    }
                    None => {}
                }
                let _ = reply.send(self.state());
            }
            Command::Reload(reply) => {
                self.reload().await;
                let _ = reply.send(self.state());
            }
        }
    }

    /// Aborts the workers of deleted webhooks, and reads the table `due` again. Other
    /// webhooks, including those of other organizations, are not affected.
    async fn reload(&mut self) {
        let webhooks = Arc::clone(&self.delivery.webhooks);
        let mut aborted = Vec::new();
        self.routes.retain(|worker, route| {
            let keep = match worker {
                Worker::Webhook(id) => webhooks.get(id).is_some(),
                Worker::Relay | Worker::Local | Worker::Events | Worker::Deleted => {
                    // What it waited for may be deleted, or the clock set back.
                    route.next = Millis::MIN;
                    true
                }
            };
            if let Some(running) = route.running.take_if(|_| !keep) {
                running.task.abort();
                aborted.push(running.task);
            }
            keep
        });
        self.next_step = Millis::MIN;
        while aborted.iter().any(|task| !task.is_finished())
            && let Some(done) = self.workers.join_next_with_id().await
        {
            self.on_worker_done(done);
        }
    }

    fn state(&self) -> State {
        let mut settled = self.is_settled() && self.advancing.is_none();
        settled &= self.pending_advances.is_empty();
        State {
            now: self.delivery.clock.now(),
            frozen: self.delivery.clock.is_frozen(),
            settled,
            next_due: self.next_due().filter(|at| *at != Millis::MIN),
        }
    }
}
