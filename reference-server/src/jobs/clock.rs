//! The server's clock. It runs at an offset to the system clock or is frozen.
//! Everything scheduled uses this clock (`docs/control-interface.md#the-clock`).
//! Network timeouts use real time.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::model::Millis;

/// A clock that can be frozen and advanced, and never goes back, except to real time.
#[derive(Debug)]
pub(crate) struct Clock(Mutex<State>);

#[derive(Debug)]
struct State {
    mode: ClockMode,
    /// Whether the clock is frozen only for an advance, after which it runs on.
    runs_on: bool,
    /// The latest time returned. If the system clock is set back, this clock runs on from here.
    latest: Millis,
}

/// Whether the clock runs or is frozen. Stored in the database, so that it survives a
/// restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ClockMode {
    /// Runs this many milliseconds ahead of the system clock.
    Running { offset: Millis },
    /// Frozen at this time.
    Frozen { at: Millis },
}

impl Clock {
    pub(crate) fn new(mode: ClockMode) -> Self {
        Self(Mutex::new(State {
            mode,
            runs_on: false,
            latest: 0,
        }))
    }

    pub(crate) fn now(&self) -> Millis {
        self.state().at(system())
    }

    /// How the clock goes on after a restart of the server.
    pub(crate) fn lasting_mode(&self) -> ClockMode {
        let now = self.now();
        let running = self.state().mode;
        self.mode_at(now).unwrap_or(running)
    }

    /// How the clock goes on if the server ends when the work of `time` is stored: the clock is frozen,
    /// or advanced to there. `None` while it runs.
    pub(crate) fn mode_at(&self, time: Millis) -> Option<ClockMode> {
        let state = self.state();
        let ClockMode::Frozen { at } = state.mode else {
            return None;
        };

        let at = at.max(time);
        Some(if state.runs_on {
            ClockMode::Running {
                offset: at - system(),
            }
        } else {
            ClockMode::Frozen { at }
        })
    }

    pub(crate) fn is_frozen(&self) -> bool {
        matches!(self.state().mode, ClockMode::Frozen { .. })
    }

    /// Freezes the clock at `at`, which must not be before [`Clock::now`].
    pub(crate) fn freeze(&self, at: Millis) {
        self.advance(at, false);
    }

    /// Freezes the clock at `at` for an advance. Afterwards it may run on.
    pub(crate) fn advance(&self, at: Millis, runs_on: bool) {
        let mut state = self.state();
        state.mode = ClockMode::Frozen { at };
        state.runs_on = runs_on;
    }

    /// Lets the clock run from `from`.
    pub(crate) fn run(&self, from: Millis) {
        self.state().mode = ClockMode::Running {
            offset: from - system(),
        };
    }

    /// Moves the clock forward to `time`, unless it is already later.
    pub(crate) fn advance_to(&self, time: Millis) {
        let mut state = self.state();
        state.latest = state.latest.max(time);
    }

    /// Follows the system clock again, even if this sets the clock back. Used to reset the whole
    /// server, and on request.
    pub(crate) fn restart(&self) {
        *self.state() = State {
            mode: ClockMode::Running { offset: 0 },
            runs_on: false,
            latest: 0,
        };
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The time of this clock when the system clock shows `system`.
    fn at(&mut self, system: Millis) -> Millis {
        match &mut self.mode {
            ClockMode::Running { offset } => {
                let now = system.saturating_add(*offset).max(self.latest);
                *offset = now - system;
                self.latest = now;
            }
            ClockMode::Frozen { at } => self.latest = self.latest.max(*at),
        }
        self.latest
    }
}

/// The system time.
pub(crate) fn system() -> Millis {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as Millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frozen_clock_stops_and_resumes_from_its_own_time() {
        let clock = Clock::new(ClockMode::Running { offset: 0 });
        let start = clock.now();
        clock.freeze(start + 1_000_000);
        assert_eq!(clock.now(), start + 1_000_000);
        clock.run(start + 1_000_000);
        assert!((start + 1_000_000..start + 1_100_000).contains(&clock.now()));
    }

    #[test]
    fn runs_on_while_the_system_clock_is_set_back() {
        let mut state = State {
            mode: ClockMode::Running { offset: 500 },
            runs_on: false,
            latest: 0,
        };
        assert_eq!(state.at(100_000), 100_500);
        assert_eq!(state.at(100_010), 100_510);
        assert_eq!(state.at(10), 100_510);
        assert_eq!(state.at(30), 100_530);
    }

    #[test]
    fn advance_to_never_goes_back() {
        let clock = Clock::new(ClockMode::Running { offset: 0 });
        let ahead = clock.now() + 3_600_000;
        clock.advance_to(ahead);
        assert!(clock.now() >= ahead);
        clock.advance_to(ahead - 1_000_000);
        assert!(clock.now() >= ahead);
        clock.restart();
        assert!(clock.now() < ahead);
    }
}
