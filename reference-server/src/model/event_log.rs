//! [`EventLog`]: the newest changes on the server, for clients that watch them live.
//!
//! It is empty and costs nothing while no client watches. Each client reads at its own position,
//! so a slow one delays nothing: what it did not read in time, it misses, and is told so.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::sync::watch;
use uuid::Uuid;

/// Maximum number of events in the log, and of their bytes.
const MAX_EVENTS: usize = 4096;
const MAX_BYTES: usize = 8 << 20;
/// Maximum number of clients that watch at the same time.
pub(crate) const MAX_WATCHERS: usize = 64;
/// How long the log continues after the last client is gone, in real time: it may come back.
const GRACE: Duration = Duration::from_secs(60);

pub(crate) struct EventLog {
    /// Distinguishes the positions in this log from those in the log of another server.
    epoch: String,
    /// Whether events are recorded.
    is_watched: AtomicBool,
    state: Mutex<State>,
    /// The number of the next event.
    changed: watch::Sender<u64>,
}

struct State {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    /// The number of the next event.
    next: u64,
    watchers: usize,
    /// When the last client left.
    left: Instant,
}

/// A change.
pub(crate) struct Event {
    number: u64,
    /// The number of the organization; `None` for a change that concerns all of them.
    organization: Option<i64>,
    /// The value of `type` in the JSON.
    pub(crate) kind: &'static str,
    pub(crate) json: String,
}

/// An event that has no place in the log yet.
pub(crate) struct NewEvent {
    organization: Option<i64>,
    kind: &'static str,
    json: String,
}

impl NewEvent {
    /// An event with the fields of `data`, which serializes to an object.
    pub(crate) fn new(
        organization: Option<i64>,
        kind: &'static str,
        data: &impl Serialize,
    ) -> Option<Self> {
        #[derive(Serialize)]
        struct Tagged<'a, T> {
            r#type: &'static str,
            #[serde(flatten)]
            data: &'a T,
        }
        let json = serde_json::to_string(&Tagged { r#type: kind, data }).ok()?;
        Some(Self { organization, kind, json })
    }
}

impl Default for EventLog {
    fn default() -> Self {
        let state =
            State { events: VecDeque::new(), bytes: 0, next: 1, watchers: 0, left: Instant::now() };
        Self {
            epoch: Uuid::new_v4().simple().to_string()[..12].to_owned(),
            is_watched: AtomicBool::new(false),
            state: Mutex::new(state),
            changed: watch::Sender::new(1),
        }
    }
}

impl EventLog {
    /// Whether a client watches, or may come back. If not, events need not be created.
    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched.load(Ordering::Relaxed)
    }

    /// Adds an event if a client watches. `data` is created only then.
    pub(crate) fn publish<T: Serialize>(
        &self,
        organization: Option<i64>,
        kind: &'static str,
        data: impl FnOnce() -> T,
    ) {
        if self.is_watched() {
            self.add(NewEvent::new(organization, kind, &data()));
        }
    }

    /// Adds events in this order.
    pub(crate) fn add(&self, events: impl IntoIterator<Item = NewEvent>) {
        let mut state = self.lock();
        if state.watchers == 0 && state.left.elapsed() > GRACE {
            self.is_watched.store(false, Ordering::Relaxed);
            state.events.clear();
            state.bytes = 0;
            // What happens from now on is not recorded, so no older position can be resumed.
            state.next += 1;
            return;
        }
        for NewEvent { organization, kind, json } in events {
            let number = state.next;
            state.next += 1;
            state.bytes += json.len();
            state.events.push_back(Arc::new(Event { number, organization, kind, json }));
        }
        while (state.events.len() > MAX_EVENTS || state.bytes > MAX_BYTES)
            && let Some(oldest) = state.events.pop_front()
        {
            state.bytes -= oldest.json.len();
        }
        self.changed.send_replace(state.next);
    }

    /// Begins to watch, after the event that `after` names. Returns `None` if too many clients
    /// watch.
    pub(crate) fn watch(self: &Arc<Self>, after: Option<&str>) -> Option<Watch> {
        let mut state = self.lock();
        if state.watchers >= MAX_WATCHERS {
            return None;
        }
        if !self.is_watched() {
            self.is_watched.store(true, Ordering::Relaxed);
            state.next += 1;
        }
        state.watchers += 1;
        let mut missed = None;
        let position = match after.map(|after| self.position(after)) {
            None => state.next,
            Some(None) => {
                missed = Some(Missed::Restarted);
                state.next
            }
            Some(Some(position)) if position >= state.first() && position <= state.next => position,
            Some(Some(_)) => {
                missed = Some(Missed::Gap);
                state.next
            }
        };
        Some(Watch { changed: self.changed.subscribe(), log: Arc::clone(self), position, missed })
    }

    /// The position after the event with this ID; `None` if it is the ID of another server.
    fn position(&self, id: &str) -> Option<u64> {
        let (epoch, number) = id.split_once('-')?;
        (epoch == self.epoch).then_some(number.parse::<u64>().ok()?.saturating_add(1))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The number of the oldest event.
    fn first(&self) -> u64 {
        self.events.front().map_or(self.next, |oldest| oldest.number)
    }
}

/// Why events are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missed {
    /// They are not in the log any more.
    Gap,
    /// They are in the log of an earlier server.
    Restarted,
}

/// A client's position in the log.
pub(crate) struct Watch {
    log: Arc<EventLog>,
    changed: watch::Receiver<u64>,
    position: u64,
    missed: Option<Missed>,
}

impl Watch {
    /// Why events before those that follow are missing, once.
    pub(crate) fn take_missed(&mut self) -> Option<Missed> {
        self.missed.take()
    }

    /// The ID of the newest event that was read.
    pub(crate) fn id(&self) -> String {
        self.id_of(self.position - 1)
    }

    fn id_of(&self, number: u64) -> String {
        format!("{}-{number}", self.log.epoch)
    }

    /// Takes up to `limit` events of an organization, each with its ID. There are none if there
    /// are none now, or if some were missed.
    pub(crate) fn take(&mut self, organization: i64, limit: usize) -> Vec<(String, Arc<Event>)> {
        self.changed.mark_unchanged();
        let state = self.log.lock();
        if self.position < state.first() {
            (self.position, self.missed) = (state.next, Some(Missed::Gap));
            return Vec::new();
        }
        let first = state.first();
        let start = usize::try_from(self.position - first).unwrap_or(usize::MAX);
        let mut taken = Vec::new();
        for event in state.events.iter().skip(start) {
            if taken.len() == limit {
                break;
            }
            self.position = event.number + 1;
            if event.organization.is_none_or(|of| of == organization) {
                taken.push((self.id_of(event.number), Arc::clone(event)));
            }
        }
        taken
    }

    /// Waits for an event after those that were read.
    pub(crate) async fn changed(&mut self) {
        let position = self.position;
        // The sender lives as long as `self` does.
        let _ = self.changed.wait_for(|next| *next > position).await;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut state = self.log.lock();
        state.watchers -= 1;
        state.left = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(organization: Option<i64>) -> Option<NewEvent> {
        NewEvent::new(organization, "change", &serde_json::json!({"resource": "clock"}))
    }

    #[test]
    fn nothing_is_recorded_until_a_client_watches() {
        let log = Arc::new(EventLog::default());
        log.publish(None, "change", || -> () { panic!("created without a client") });
        let mut watch = log.watch(None).expect("a watch");
        log.publish(Some(1), "change", || serde_json::json!({"resource": "clock"}));
        log.publish(Some(2), "change", || serde_json::json!({}));
        let taken = watch.take(1, 10);
        assert_eq!(taken.len(), 1);
        assert_eq!(taken[0].1.json, r#"{"type":"change","resource":"clock"}"#);
    }

    #[test]
    fn a_position_is_resumed_while_the_log_has_it() {
        let log = Arc::new(EventLog::default());
        let mut watch = log.watch(None).expect("a watch");
        let start = watch.id();
        log.add([event(Some(1)), event(None), event(Some(1))].into_iter().flatten());
        let second = watch.take(1, 2).pop().expect("two events").0;
        drop(watch);
        let mut again = log.watch(Some(&second)).expect("a watch");
        assert_eq!((again.take_missed(), again.take(1, 10).len()), (None, 1));
        let mut again = log.watch(Some(&start)).expect("a watch");
        assert_eq!((again.take_missed(), again.take(1, 10).len()), (None, 3));

        let other = Arc::new(EventLog::default()).watch(Some(&start)).expect("a watch").missed;
        assert_eq!(other, Some(Missed::Restarted));
    }

    #[test]
    fn a_slow_client_is_told_that_it_missed_events() {
        let log = Arc::new(EventLog::default());
        let mut watch = log.watch(None).expect("a watch");
        let start = watch.id();
        log.add((0..=MAX_EVENTS).filter_map(|_| event(None)));
        assert!(watch.take(1, 10).is_empty());
        assert_eq!(watch.take_missed(), Some(Missed::Gap));
        assert_eq!(log.lock().events.len(), MAX_EVENTS);
        assert_eq!(log.watch(Some(&start)).expect("a watch").missed, Some(Missed::Gap));
    }

    #[test]
    fn the_number_of_clients_is_limited() {
        let log = Arc::new(EventLog::default());
        let mut all: Vec<_> = (0..MAX_WATCHERS).filter_map(|_| log.watch(None)).collect();
        assert_eq!(all.len(), MAX_WATCHERS);
        assert!(log.watch(None).is_none());
        all.pop();
        assert!(log.watch(None).is_some());
    }
}
