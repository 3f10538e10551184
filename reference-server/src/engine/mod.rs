//! The engine: does what is due, when it is due by the server's clock.
//!
//! One task owns the schedule. It runs steps (emails that fall due, in batches
//! inside one transaction) and keeps one delivery_worker for each webhook with
//! deliveries due; it alone moves the clock, so an advance can go from due time
//! to due time and answer when nothing is left (`docs/control-interface.md#the-clock`).

mod course;
pub(crate) mod delivery_worker;
mod handle;
pub(crate) mod local_delivery;
pub(crate) mod payload;
pub(crate) mod post;
pub(crate) mod relaying;
mod sign;
mod step;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};

use crate::app::Shared;
use crate::clock::Course;
use crate::error::ApiError;
use crate::id::Prefix;
use crate::time::Millis;
pub(crate) use course::{Change, RecipientState, Status};
use handle::Command;
pub(crate) use handle::{EngineHandle, State};
use step::Stepped;
pub(crate) use step::happen;

/// What the engine knows of the future. `Millis::MAX` stands for "nothing".
struct Engine {
    app: Shared,
    commands: mpsc::UnboundedReceiver<Command>,
    /// The earliest time in the table `due`.
    next_step: Millis,
    /// The earliest delivery of each webhook that has one to come.
    routes: HashMap<String, Route>,
    couriers: JoinSet<Delivered>,
    step: Option<oneshot::Receiver<Result<Stepped, ApiError>>>,
    advances: VecDeque<(Millis, Advanced)>,
    advancing: Option<Advancing>,
    waiting: Vec<oneshot::Sender<()>>,
    asking: Vec<Answer>,
    /// After a failure of the database, so that it is not asked without pause.
    pause: bool,
}

type Answer = oneshot::Sender<State>;
type Advanced = oneshot::Sender<Result<State, ApiError>>;

#[derive(Debug)]
struct Route {
    next: Millis,
    delivery_worker: Option<DeliveryWorker>,
}

#[derive(Debug)]
struct DeliveryWorker {
    task: AbortHandle,
    /// Tells it that more is due.
    more: Arc<Notify>,
    /// Whether it was told: it may have been on its way home already.
    told: bool,
}

/// A delivery_worker came home: the webhook, and when its next delivery is due.
struct Delivered {
    webhook: String,
    next: Result<Millis, ApiError>,
}

struct Advancing {
    target: Millis,
    /// Whether the clock goes on afterwards.
    was_running: bool,
    answer: Advanced,
}

/// Starts the engine on what the database says is due.
pub(crate) fn start(
    app: &Shared,
    commands: mpsc::UnboundedReceiver<Command>,
    due: Vec<(String, Millis)>,
) -> tokio::task::JoinHandle<()> {
    let mut engine = Engine {
        app: Arc::clone(app),
        commands,
        // Looks into the table at once.
        next_step: Millis::MIN,
        routes: HashMap::new(),
        couriers: JoinSet::new(),
        step: None,
        advances: VecDeque::new(),
        advancing: None,
        waiting: Vec::new(),
        asking: Vec::new(),
        pause: false,
    };
    for (webhook, at) in due {
        engine.route(webhook, at);
    }
    tokio::spawn(engine.run())
}

impl Engine {
    async fn run(mut self) {
        let app = Arc::clone(&self.app);
        let stopped = app.stopped();
        tokio::pin!(stopped);
        loop {
            self.absorb();
            self.work();
            self.answer();
            if self.is_settled() && self.go_on() {
                continue;
            }
            let sleep = self.sleep();
            let wake = Arc::clone(&self.app.store.wake);
            tokio::select! {
                () = &mut stopped => break,
                () = wake.notify.notified() => {}
                Some(delivered) = self.couriers.join_next_with_id() => self.on_worker_done(delivered),
                stepped = async { self.step.as_mut().expect("guarded").await }, if self.step.is_some() => {
                    self.stepped(stepped.unwrap_or_else(|_| Err(ApiError::internal("a step was lost"))));
                }
                Some(command) = self.commands.recv() => self.obey(command).await,
                () = tokio::time::sleep(sleep) => self.pause = false,
            }
        }
        // What is in flight ends with its own time-out; it is recorded or done again.
        let all = async { while self.couriers.join_next().await.is_some() {} };
        if tokio::time::timeout(self.app.settings.limits.stop_timeout, all).await.is_err() {
            tracing::warn!("stopping with deliveries in flight; the next start repeats them");
        }
    }

    /// Takes word of what commits made due.
    fn absorb(&mut self) {
        let (step, deliveries) = self.app.store.wake.take();
        self.next_step = self.next_step.min(step);
        for (webhook, at) in deliveries {
            self.route(webhook, at);
        }
    }

    fn route(&mut self, webhook: String, at: Millis) {
        let route = self
            .routes
            .entry(webhook)
            .or_insert(Route { next: Millis::MAX, delivery_worker: None });
        route.next = route.next.min(at);
    }

    /// Starts whatever is due and not yet under way.
    fn work(&mut self) {
        if self.pause {
            return;
        }
        let now = self.app.clock.now();
        if self.step.is_none() && self.next_step <= now {
            self.step = Some(self.start_step(now));
        }
        for (webhook, route) in &mut self.routes {
            if route.next > now {
                continue;
            }
            route.next = Millis::MAX;
            if let Some(delivery_worker) = &mut route.delivery_worker {
                delivery_worker.told = true;
                delivery_worker.more.notify_one();
                continue;
            }
            let (app, webhook) = (Arc::clone(&self.app), webhook.clone());
            let more = Arc::new(Notify::new());
            let told = Arc::clone(&more);
            let task = self.couriers.spawn(async move {
                let next = match webhook.as_str() {
                    relaying::ROUTE => relaying::run(&app).await,
                    local_delivery::ROUTE => local_delivery::run(&app).await,
                    webhook => delivery_worker::run(&app, webhook, &told).await,
                };
                Delivered { webhook, next }
            });
            route.delivery_worker = Some(DeliveryWorker { task, more, told: false });
        }
    }

    /// Tells who asked how things are, unless a step is about to change that.
    fn answer(&mut self) {
        if self.step.is_some() {
            return;
        }
        for asking in std::mem::take(&mut self.asking) {
            let _ = asking.send(self.state());
        }
    }

    /// An advance lets a step go through many due times in one transaction, as
    /// far as no delivery is due in between.
    fn start_step(&mut self, now: Millis) -> oneshot::Receiver<Result<Stepped, ApiError>> {
        self.next_step = Millis::MAX;
        let until = match &self.advancing {
            Some(advancing) if self.couriers.is_empty() => {
                advancing.target.min(self.next_delivery())
            }
            _ => now,
        };
        let (sender, receiver) = oneshot::channel();
        let app = Arc::clone(&self.app);
        tokio::spawn(async move {
            let context = Arc::clone(&app);
            let stepped = app.store.write_relaxed(move |tx| step::run(tx, &context, until)).await;
            let _ = sender.send(stepped);
        });
        receiver
    }

    fn stepped(&mut self, stepped: Result<Stepped, ApiError>) {
        self.step = None;
        match stepped {
            Ok(stepped) => {
                self.next_step = self.next_step.min(stepped.next);
                if self.advancing.is_some() && stepped.reached > self.app.clock.now() {
                    self.app.clock.freeze(stepped.reached);
                }
            }
            Err(error) => {
                tracing::error!(message = error.message(), "a step failed and is done again");
                self.next_step = Millis::MIN;
                self.pause = true;
                self.break_off(&error);
            }
        }
    }

    /// Who waits for an advance is told why there will be none for now. The
    /// clock stays where it has come to.
    fn break_off(&mut self, error: &ApiError) {
        if let Some(advancing) = self.advancing.take() {
            if advancing.was_running {
                self.app.clock.run(self.app.clock.now());
            }
            let _ = advancing.answer.send(Err(error.clone()));
        }
        for (_, answer) in self.advances.drain(..) {
            let _ = answer.send(Err(error.clone()));
        }
    }

    fn on_worker_done(&mut self, delivered: Result<(Id, Delivered), JoinError>) {
        match delivered {
            Ok((task, Delivered { webhook, next })) => {
                let Some(route) = self.routes.get_mut(&webhook) else { return };
                let Some(delivery_worker) = route
                    .delivery_worker
                    .take_if(|delivery_worker| delivery_worker.task.id() == task)
                else {
                    return;
                };
                if delivery_worker.told {
                    route.next = Millis::MIN;
                }
                let failed = match next {
                    Ok(next) => {
                        route.next = route.next.min(next);
                        None
                    }
                    Err(error) => {
                        route.next = Millis::MIN;
                        Some(error)
                    }
                };
                if route.next == Millis::MAX {
                    self.routes.remove(&webhook);
                }
                if let Some(error) = failed {
                    tracing::error!(message = error.message(), "deliveries wait for the database");
                    self.pause = true;
                    self.break_off(&error);
                }
            }
            Err(error) if error.is_cancelled() => {}
            Err(error) => {
                tracing::error!(%error, "a delivery_worker was lost; another one takes its route");
                let of_it =
                    |delivery_worker: &mut DeliveryWorker| delivery_worker.task.id() == error.id();
                for route in self.routes.values_mut() {
                    if route.delivery_worker.take_if(of_it).is_some() {
                        route.next = Millis::MIN;
                    }
                }
                self.pause = true;
            }
        }
    }

    fn is_settled(&self) -> bool {
        let now = self.app.clock.now();
        self.step.is_none()
            && self.couriers.is_empty()
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

    /// Called when all is settled: tells who waits for it, or takes an advance
    /// one due time further. Says whether there may be more to do now.
    fn go_on(&mut self) -> bool {
        let clock = &self.app.clock;
        if let Some(advancing) = &self.advancing {
            match self.next_due() {
                Some(next) if next <= advancing.target => clock.freeze(next),
                _ if clock.now() < advancing.target => clock.freeze(advancing.target),
                _ => {
                    let advancing = self.advancing.take().expect("matched above");
                    if advancing.was_running {
                        clock.run(advancing.target);
                    }
                    let _ = advancing.answer.send(Ok(self.state()));
                }
            }
            return true;
        }
        if let Some((by, answer)) = self.advances.pop_front() {
            let now = clock.now();
            let advancing = Advancing {
                target: now.saturating_add(by),
                was_running: !clock.is_frozen(),
                answer,
            };
            clock.freeze(now);
            self.advancing = Some(advancing);
            return true;
        }
        for waiting in self.waiting.drain(..) {
            let _ = waiting.send(());
        }
        false
    }

    /// How long there is nothing to do, if nobody calls.
    fn sleep(&self) -> Duration {
        const LONG: Duration = Duration::from_secs(3600);
        if self.pause {
            return Duration::from_millis(200);
        }
        let Course::Running { .. } = self.app.clock.course() else { return LONG };
        let Some(next) = self.next_due() else { return LONG };
        let wait = next.saturating_sub(self.app.clock.now()).max(1);
        Duration::from_millis(wait.unsigned_abs()).min(LONG)
    }

    async fn obey(&mut self, command: Command) {
        self.absorb();
        match command {
            // Only a step knows what is due next.
            Command::State(answer) => self.asking.push(answer),
            Command::Settled(answer) => self.waiting.push(answer),
            Command::Advance(by, answer) => self.advances.push_back((by, answer)),
            Command::Freeze(answer) => {
                self.app.clock.freeze(self.app.clock.now());
                if let Some(advancing) = &mut self.advancing {
                    advancing.was_running = false;
                }
                let _ = answer.send(self.state());
            }
            Command::Resume(answer) => {
                match &mut self.advancing {
                    Some(advancing) => advancing.was_running = true,
                    None if self.app.clock.is_frozen() => self.app.clock.run(self.app.clock.now()),
                    None => {}
                }
                let _ = answer.send(self.state());
            }
            Command::Forget(answer) => {
                self.forget().await;
                let _ = answer.send(self.state());
            }
        }
    }

    /// Ends what is in flight for webhooks that are gone. Others, and other
    /// organizations' among them, notice nothing.
    async fn forget(&mut self) {
        let webhooks = Arc::clone(&self.app.webhooks);
        let mut ending = Vec::new();
        self.routes.retain(|webhook, route| {
            let is_webhook = webhook.starts_with(Prefix::Webhook.as_str());
            let stays = !is_webhook || webhooks.get(webhook).is_some();
            if let Some(delivery_worker) = route.delivery_worker.take_if(|_| !stays) {
                delivery_worker.task.abort();
                ending.push(delivery_worker.task);
            }
            stays
        });
        self.next_step = Millis::MIN;
        while ending.iter().any(|task| !task.is_finished())
            && let Some(delivered) = self.couriers.join_next_with_id().await
        {
            self.on_worker_done(delivered);
        }
    }

    fn state(&self) -> State {
        let mut settled = self.is_settled() && self.advancing.is_none();
        settled &= self.advances.is_empty();
        State {
            now: self.app.clock.now(),
            frozen: self.app.clock.is_frozen(),
            settled,
            next_due: self.next_due().filter(|at| *at != Millis::MIN),
        }
    }
}
