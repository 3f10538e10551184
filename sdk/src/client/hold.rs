//! Holds back all clones of a client after a 429 with `Retry-After`.
//!
//! If all waiting calls started when the pause is over, the service would refuse most of
//! them again. So they start in the order of their calls, one at first, and each attempt
//! that is not limited lets two more start, until the next 429. A slow attempt does not hold
//! up the others: at least one starts each second.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::time::{Instant, timeout_at};

#[derive(Debug)]
pub(crate) struct Hold {
    /// Whether calls must wait for their turn.
    active: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The end of the pause.
    until: Instant,
    /// How many attempts may run at once after the pause.
    window: u32,
    running: u32,
    /// When the latest attempt started.
    last_start: Instant,
    next_place: Place,
    waiting: BTreeMap<Place, Arc<Notify>>,
}

/// The place of a call in the queue. A call keeps it over all its attempts.
pub(crate) type Place = u64;

impl Hold {
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        let state = State {
            until: now,
            window: 1,
            running: 0,
            last_start: now,
            next_place: 0,
            waiting: BTreeMap::new(),
        };
        Self { active: AtomicBool::new(false), state: Mutex::new(state) }
    }

    /// Holds back all attempts until this time.
    pub(crate) fn pause_until(&self, until: Instant) {
        let mut state = self.state();
        state.until = state.until.max(until);
        state.window = 1;
        self.active.store(true, Ordering::Release);
    }

    /// Waits until an attempt may start. Returns the end of the pause if that is not
    /// possible before the deadline.
    pub(crate) async fn turn(
        &self,
        place: &mut Option<Place>,
        deadline: Instant,
    ) -> Result<Turn<'_>, Instant> {
        if !self.active.load(Ordering::Acquire) {
            return Ok(Turn(None));
        }
        let waiter = self.join(place);
        loop {
            match waiter.step(Instant::now(), deadline) {
                Step::Start => return Ok(Turn(Some(self))),
                Step::TooLate(until) => return Err(until),
                // Either a change, or the time has come: look again.
                Step::Wait(wake) => {
                    let _ = timeout_at(wake.min(deadline), waiter.changed.notified()).await;
                }
            }
        }
    }

    fn join(&self, place: &mut Option<Place>) -> Waiter<'_> {
        let mut state = self.state();
        let place = *place.get_or_insert_with(|| {
            state.next_place += 1;
            state.next_place
        });
        let changed = Arc::new(Notify::new());
        state.waiting.insert(place, Arc::clone(&changed));
        Waiter { hold: self, place, changed }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the first in the queue, or lets everything through if nothing waits or runs.
    fn after_change(&self, state: &State) {
        if let Some(first) = state.waiting.values().next() {
            first.notify_one();
        } else if state.running == 0 && Instant::now() >= state.until {
            self.active.store(false, Ordering::Release);
        }
    }
}

/// A call in the queue. Leaves it on drop.
struct Waiter<'a> {
    hold: &'a Hold,
    place: Place,
    changed: Arc<Notify>,
}

enum Step {
    Start,
    /// The pause, which ends at this time, or the queue is too long for the deadline.
    TooLate(Instant),
    /// Look again at this time.
    Wait(Instant),
}

/// At least one waiting attempt starts in this time.
const LONGEST_GAP: Duration = Duration::from_secs(1);

impl Waiter<'_> {
    fn step(&self, now: Instant, deadline: Instant) -> Step {
        let mut state = self.hold.state();
        if now >= deadline || state.until >= deadline {
            return Step::TooLate(state.until.max(now));
        }
        if state.waiting.first_key_value().is_none_or(|(first, _)| *first != self.place) {
            // Notified when it is the first.
            return Step::Wait(deadline);
        }
        if now < state.until {
            return Step::Wait(state.until);
        }
        let next = state.last_start + LONGEST_GAP;
        if state.running >= state.window && now < next {
            return Step::Wait(next);
        }
        state.running += 1;
        state.last_start = now;
        Step::Start
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut state = self.hold.state();
        state.waiting.remove(&self.place);
        self.hold.after_change(&state);
    }
}

/// An attempt that may run; ends on drop.
#[derive(Debug)]
pub(crate) struct Turn<'a>(Option<&'a Hold>);

impl Turn<'_> {
    /// The service processed the attempt, or refused it for another reason than its rate.
    pub(crate) fn was_not_limited(&self) {
        if let Some(hold) = self.0 {
            let mut state = hold.state();
            state.window = state.window.saturating_add(1);
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(hold) = self.0 {
            let mut state = hold.state();
            state.running -= 1;
            hold.after_change(&state);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[tokio::test(start_paused = true)]
    async fn calls_start_in_order_and_few_at_first() {
        let hold = Hold::new();
        let far = Instant::now() + ms(60_000);
        // Without a pause, everything starts.
        assert!(hold.turn(&mut None, far).now_or_never().is_some());

        hold.pause_until(Instant::now() + ms(1_000));
        let mut places = [None; 4];
        let [a, b, c, d] = &mut places;
        let mut first = Box::pin(hold.turn(a, far));
        let mut second = Box::pin(hold.turn(b, far));
        let mut third = Box::pin(hold.turn(c, far));
        assert!((&mut first).now_or_never().is_none());
        assert!((&mut second).now_or_never().is_none());
        assert!((&mut third).now_or_never().is_none());
        tokio::time::advance(ms(1_001)).await;
        assert!((&mut third).now_or_never().is_none(), "not its turn");
        let turn = first.await.unwrap();
        assert!((&mut second).now_or_never().is_none(), "one at first");
        turn.was_not_limited();
        drop(turn);
        let (one, two) = (second.await.unwrap(), third.await.unwrap());
        let mut fourth = Box::pin(hold.turn(d, far));
        assert!((&mut fourth).now_or_never().is_none(), "two at once");
        // Limited: it waits again, before those that came later.
        hold.pause_until(Instant::now() + ms(500));
        drop(one);
        let mut again = Box::pin(hold.turn(b, far));
        assert!((&mut again).now_or_never().is_none());
        drop(two);
        tokio::time::advance(ms(501)).await;
        assert!((&mut fourth).now_or_never().is_none(), "the earlier call is first");
        drop(again.await.unwrap());
        drop(fourth.await.unwrap());
        // Nothing is left to wait for.
        let all: Vec<_> = (0..9).map(|_| hold.turn(&mut None, far).now_or_never()).collect();
        assert!(all.iter().all(Option::is_some));
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_call_leaves_its_place_to_the_next() {
        let hold = Hold::new();
        let far = Instant::now() + ms(60_000);
        hold.pause_until(Instant::now() + ms(1_000));
        let (mut a, mut b) = (None, None);
        let mut first = Box::pin(hold.turn(&mut a, far));
        let mut second = Box::pin(hold.turn(&mut b, far));
        assert!((&mut first).now_or_never().is_none());
        assert!((&mut second).now_or_never().is_none());
        drop(first);
        let start = Instant::now();
        drop(second.await.unwrap());
        assert!((1_000..=1_001).contains(&start.elapsed().as_millis()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_attempt_does_not_hold_up_the_others() {
        let hold = Hold::new();
        let start = Instant::now();
        hold.pause_until(start + ms(1_000));
        let far = start + ms(60_000);
        let _slow: Vec<_> = {
            let mut turns = Vec::new();
            for _ in 0..3 {
                turns.push(hold.turn(&mut None, far).await.unwrap());
            }
            turns
        };
        assert!((3_000..=3_003).contains(&start.elapsed().as_millis()));
    }

    #[tokio::test(start_paused = true)]
    async fn reports_a_pause_that_ends_after_the_deadline() {
        let hold = Hold::new();
        let now = Instant::now();
        hold.pause_until(now + ms(1_000));
        assert_eq!(hold.turn(&mut None, now + ms(999)).await.unwrap_err(), now + ms(1_000));
        assert_eq!(now.elapsed(), Duration::ZERO);
        // Others are first until the deadline.
        tokio::time::advance(ms(1_000)).await;
        let _turn = hold.turn(&mut None, now + ms(9_000)).await.unwrap();
        hold.turn(&mut None, now + ms(2_000)).await.unwrap_err();
        assert!((2_000..=2_001).contains(&now.elapsed().as_millis()));
    }
}
