//! [`Notifications`]: the newest changes on the server, for clients that watch them as they happen.
//!
//! Nothing is recorded until the first client watches. Each client reads at its own position, so a
//! slow one delays nothing: what it did not read in time, it misses, and is told so.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::watch;
use uuid::Uuid;

use super::lock::lock;
use crate::notifications::notification_wire::{Notification, ResetReason};

/// Maximum number of notifications that are kept, and of their bytes.
const MAX_KEPT: usize = 4096;
const MAX_BYTES: usize = 4 << 20;
/// Maximum number of clients that watch at the same time.
pub(crate) const MAX_WATCHERS: usize = 64;

pub(crate) struct Notifications {
    /// Distinguishes these positions from those of another server.
    epoch: String,
    /// Whether a client has watched.
    is_watched: AtomicBool,
    state: Mutex<State>,
    /// The number of the next notification.
    next: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    kept: VecDeque<Arc<Published>>,
    bytes: usize,
    /// The number of the oldest one.
    first: u64,
}

impl State {
    fn next(&self) -> u64 {
        self.first + self.kept.len() as u64
    }
}

/// A notification as clients get it.
pub(crate) struct Published {
    /// The number of the organization; `None` for what concerns all of them.
    organization: Option<i64>,
    pub(crate) kind: &'static str,
    pub(crate) json: String,
    /// Whether the organization has another number from here on.
    pub(crate) is_last: bool,
}

impl Published {
    pub(crate) fn of(organization: Option<i64>, notification: &Notification) -> Option<Arc<Self>> {
        Some(Arc::new(Self {
            organization,
            kind: notification.kind(),
            json: serde_json::to_string(notification).ok()?,
            is_last: notification.is_last(),
        }))
    }
}

impl Default for Notifications {
    fn default() -> Self {
        Self {
            epoch: Uuid::new_v4().simple().to_string()[..12].to_owned(),
            is_watched: AtomicBool::new(false),
            state: Mutex::default(),
            next: watch::Sender::new(0),
        }
    }
}

impl Notifications {
    /// Whether a client watches, or may come back. If not, notifications need not be created.
    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched.load(Ordering::Relaxed)
    }

    /// Adds a notification if a client watches. It is created only then.
    pub(crate) fn publish(&self, organization: Option<i64>, create: impl FnOnce() -> Notification) {
        if self.is_watched() {
            self.add(Published::of(organization, &create()));
        }
    }

    /// Adds notifications in this order.
    pub(crate) fn add(&self, new: impl IntoIterator<Item = Arc<Published>>) {
        let mut state = lock(&self.state);
        for new in new {
            state.bytes += new.json.len();
            state.kept.push_back(new);
        }

        while (state.kept.len() > MAX_KEPT || state.bytes > MAX_BYTES)
            && let Some(oldest) = state.kept.pop_front()
        {
            state.bytes -= oldest.json.len();
            state.first += 1;
        }

        self.next.send_replace(state.next());
    }

    /// Begins to watch, after the notification that `after` names. Returns `None` if too many
    /// clients watch.
    pub(crate) fn watch(self: &Arc<Self>, after: Option<&str>) -> Option<Watch> {
        let state = lock(&self.state);
        if self.next.receiver_count() >= MAX_WATCHERS {
            return None;
        }

        self.is_watched.store(true, Ordering::Relaxed);
        let (position, missed) = match after.map(|after| self.position(after)) {
            None => (state.next(), None),
            Some(None) => (state.next(), Some(ResetReason::Restarted)),
            Some(Some(position)) if (state.first..=state.next()).contains(&position) => {
                (position, None)
            }
            Some(Some(_)) => (state.next(), Some(ResetReason::Gap)),
        };
        Some(Watch {
            next: self.next.subscribe(),
            log: Arc::clone(self),
            position,
            missed,
        })
    }

    /// The position that an ID names; `None` if it is the ID of another server.
    fn position(&self, id: &str) -> Option<u64> {
        let (epoch, position) = id.split_once('-')?;
        (epoch == self.epoch)
            .then(|| position.parse().ok())
            .flatten()
    }
}

/// A client's position.
pub(crate) struct Watch {
    log: Arc<Notifications>,
    next: watch::Receiver<u64>,
    /// The number of the first notification that was not read.
    position: u64,
    missed: Option<ResetReason>,
}

impl Watch {
    /// Why notifications before those that follow are missing, once.
    pub(crate) fn take_missed(&mut self) -> Option<ResetReason> {
        self.missed.take()
    }

    /// The ID of the position after what was read.
    pub(crate) fn id(&self) -> String {
        format!("{}-{}", self.log.epoch, self.position)
    }

    /// Takes up to `limit` notifications of an organization, each with its ID. There are none if
    /// there are none now, or if some were missed.
    pub(crate) fn take(
        &mut self,
        organization: i64,
        limit: usize,
    ) -> Vec<(String, Arc<Published>)> {
        self.next.mark_unchanged();
        let log = Arc::clone(&self.log);
        let state = lock(&log.state);
        if self.position < state.first {
            (self.position, self.missed) = (state.next(), Some(ResetReason::Gap));
            return Vec::new();
        }

        let mut taken = Vec::new();
        let start = (self.position - state.first) as usize;
        for published in state.kept.iter().skip(start) {
            if taken.len() == limit {
                break;
            }
            self.position += 1;
            if published.organization.is_none_or(|of| of == organization) {
                taken.push((self.id(), Arc::clone(published)));
            }
        }

        taken
    }

    /// Waits for a notification after those that were read.
    pub(crate) async fn changed(&mut self) {
        let position = self.position;
        // The sender lives as long as `self` does.
        let _ = self.next.wait_for(|next| *next > position).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change() -> Notification {
        let resource = "clock".to_owned();
        let method = "POST".to_owned();
        Notification::Change { resource, method }
    }

    #[test]
    fn nothing_is_recorded_until_a_client_watches() {
        let log = Arc::new(Notifications::default());
        log.publish(None, || panic!("created without a client"));
        let mut watch = log.watch(None).expect("a watch");
        log.publish(Some(1), change);
        log.publish(Some(2), change);
        let taken = watch.take(1, 10);
        assert_eq!(taken.len(), 1);
        assert_eq!(
            &*taken[0].1.json,
            r#"{"type":"change","resource":"clock","method":"POST"}"#
        );
    }

    #[test]
    fn a_position_is_resumed_while_it_is_kept() {
        let log = Arc::new(Notifications::default());
        let mut watch = log.watch(None).expect("a watch");
        let start = watch.id();
        for organization in [Some(1), None, Some(1)] {
            log.publish(organization, change);
        }

        let second = watch.take(1, 2).pop().expect("two notifications").0;
        drop(watch);
        let mut again = log.watch(Some(&second)).expect("a watch");
        assert_eq!((again.take_missed(), again.take(1, 10).len()), (None, 1));
        let mut again = log.watch(Some(&start)).expect("a watch");
        assert_eq!((again.take_missed(), again.take(1, 10).len()), (None, 3));

        let other = Arc::new(Notifications::default())
            .watch(Some(&start))
            .expect("a watch")
            .missed;
        assert_eq!(other, Some(ResetReason::Restarted));
    }

    #[test]
    fn a_slow_client_is_told_that_it_missed_notifications() {
        let log = Arc::new(Notifications::default());
        let mut watch = log.watch(None).expect("a watch");
        let start = watch.id();
        log.add((0..=MAX_KEPT).filter_map(|_| Published::of(None, &change())));
        assert!(watch.take(1, 10).is_empty());
        assert_eq!(watch.take_missed(), Some(ResetReason::Gap));
        assert_eq!(lock(&log.state).kept.len(), MAX_KEPT);
        assert_eq!(
            log.watch(Some(&start)).expect("a watch").missed,
            Some(ResetReason::Gap)
        );
    }

    #[test]
    fn the_number_of_clients_is_limited() {
        let log = Arc::new(Notifications::default());
        let mut all: Vec<_> = (0..MAX_WATCHERS).filter_map(|_| log.watch(None)).collect();
        assert_eq!(all.len(), MAX_WATCHERS);
        assert!(log.watch(None).is_none());
        all.pop();
        assert!(log.watch(None).is_some());
    }
}
