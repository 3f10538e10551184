//! The server's one clock. It runs with the system's, at an offset, or stands
//! still; everything that waits for a time waits for this one (`docs/control-interface.md`).
//! Network time-outs are real time and never ask it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::time::Millis;

/// A clock that can be frozen and set forward, and that never goes back.
#[derive(Debug)]
pub(crate) struct Clock(Mutex<State>);

#[derive(Debug)]
struct State {
    course: Course,
    /// The latest time given out, and when that was. Where the system's clock is
    /// set back, this one goes on from here until the other has caught up.
    latest: Option<(Millis, Instant)>,
}

/// How the clock goes; kept in the database, so that it goes on after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Course {
    /// So many milliseconds after the system's clock.
    Running { offset: Millis },
    /// Stands at this time.
    Frozen { at: Millis },
}

impl Clock {
    pub(crate) fn new(course: Course) -> Self {
        Self(Mutex::new(State { course, latest: None }))
    }

    pub(crate) fn now(&self) -> Millis {
        self.state().at(system(), Instant::now())
    }

    pub(crate) fn course(&self) -> Course {
        self.state().course
    }

    pub(crate) fn is_frozen(&self) -> bool {
        matches!(self.course(), Course::Frozen { .. })
    }

    /// Stands still at `at`, which must not lie before `now`.
    pub(crate) fn freeze(&self, at: Millis) {
        self.state().course = Course::Frozen { at };
    }

    /// Goes on from `from`.
    pub(crate) fn run(&self, from: Millis) {
        self.state().course = Course::Running { offset: from - system() };
    }

    /// Has come to `time` already, as what is in the database says.
    pub(crate) fn reach(&self, time: Millis) {
        if self.now() < time {
            self.state().latest = Some((time, Instant::now()));
        }
    }

    /// Goes with the system's clock again, back if need be: only for a reset
    /// of the whole server.
    pub(crate) fn restart(&self) {
        *self.state() = State { course: Course::Running { offset: 0 }, latest: None };
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The time, where the system's clock shows `system` at `instant`.
    fn at(&mut self, system: Millis, instant: Instant) -> Millis {
        let wanted = match self.course {
            Course::Running { offset } => system.saturating_add(offset),
            Course::Frozen { at } => at,
        };
        let Some((latest, when)) = self.latest.filter(|(latest, _)| wanted < *latest) else {
            self.latest = Some((wanted, instant));
            return wanted;
        };
        if matches!(self.course, Course::Frozen { .. }) {
            return latest;
        }
        let passed = instant.saturating_duration_since(when).as_millis() as u64;
        let now = latest.saturating_add_unsigned(passed);
        // What is less than a millisecond is left to the next time.
        self.latest = Some((now, when + Duration::from_millis(passed)));
        now
    }
}

impl Course {
    /// As it is kept in the database.
    pub(crate) fn to_text(self) -> String {
        match self {
            Self::Running { offset } => format!("running {offset}"),
            Self::Frozen { at } => format!("frozen {at}"),
        }
    }

    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let (word, number) = text.split_once(' ')?;
        let number = number.parse().ok()?;
        match word {
            "running" => Some(Self::Running { offset: number }),
            "frozen" => Some(Self::Frozen { at: number }),
            _ => None,
        }
    }
}

/// The time of this machine.
pub(crate) fn system() -> Millis {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as Millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frozen_clock_stands_and_goes_on_from_its_own_time() {
        let clock = Clock::new(Course::Running { offset: 0 });
        let start = clock.now();
        clock.freeze(start + 1_000_000);
        assert_eq!(clock.now(), start + 1_000_000);
        clock.run(start + 1_000_000);
        assert!((start + 1_000_000..start + 1_100_000).contains(&clock.now()));
    }

    #[test]
    fn it_never_goes_back_and_never_stands_still_while_the_systems_clock_does() {
        let mut state = State { course: Course::Running { offset: 500 }, latest: None };
        let start = Instant::now();
        let mut at = |system, micros| state.at(system, start + Duration::from_micros(micros));
        assert_eq!(at(100_000, 0), 100_500);
        assert_eq!(at(100_010, 10_000), 100_510);
        // An hour back: it goes on, in pieces of less than a millisecond too.
        assert_eq!(at(10, 10_600), 100_510);
        assert_eq!(at(10, 11_200), 100_511);
        assert_eq!(at(90_000, 2_010_000), 102_510);
        // And with the system's clock, once that is ahead again.
        assert_eq!(at(200_000, 2_020_000), 200_500);
        assert_eq!(at(200_000, 2_020_000), 200_500);
    }

    #[test]
    fn it_goes_on_from_what_it_had_come_to() {
        let clock = Clock::new(Course::Running { offset: 0 });
        let ahead = clock.now() + 3_600_000;
        clock.reach(ahead);
        assert!(clock.now() >= ahead);
        clock.reach(ahead - 1_000_000);
        assert!(clock.now() >= ahead);
        clock.restart();
        assert!(clock.now() < ahead);
    }

    #[test]
    fn its_course_survives_as_text() {
        for course in [Course::Running { offset: -5 }, Course::Frozen { at: 1_795_000_000_000 }] {
            assert_eq!(Course::from_text(&course.to_text()), Some(course));
        }
        assert_eq!(Course::from_text("walking 5"), None);
    }
}
