//! The server's one clock. It runs with the system's, at an offset, or stands
//! still; everything that waits for a time waits for this one (`control.md`).
//! Network time-outs are real time and never ask it.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::time::Millis;

/// A clock that can be frozen and set forward, and that never goes back.
#[derive(Debug)]
pub(crate) struct Clock {
    course: RwLock<Course>,
    /// The latest time given out: the system's clock may be set back.
    latest: AtomicI64,
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
        Self { course: RwLock::new(course), latest: AtomicI64::new(Millis::MIN) }
    }

    pub(crate) fn now(&self) -> Millis {
        let now = match self.course() {
            Course::Running { offset } => system() + offset,
            Course::Frozen { at } => at,
        };
        self.latest.fetch_max(now, Ordering::Relaxed).max(now)
    }

    pub(crate) fn course(&self) -> Course {
        *self.course.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_frozen(&self) -> bool {
        matches!(self.course(), Course::Frozen { .. })
    }

    /// Stands still at `at`, which must not lie before `now`.
    pub(crate) fn freeze(&self, at: Millis) {
        self.set(Course::Frozen { at });
    }

    /// Goes on from `from`.
    pub(crate) fn run(&self, from: Millis) {
        self.set(Course::Running { offset: from - system() });
    }

    /// Goes with the system's clock again, back if need be: only for a reset
    /// of the whole server.
    pub(crate) fn restart(&self) {
        self.set(Course::Running { offset: 0 });
        self.latest.store(Millis::MIN, Ordering::Relaxed);
    }

    fn set(&self, course: Course) {
        *self.course.write().unwrap_or_else(PoisonError::into_inner) = course;
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
    fn it_never_goes_back() {
        let clock = Clock::new(Course::Running { offset: 0 });
        let start = clock.now();
        clock.set(Course::Running { offset: -50_000 });
        assert!(clock.now() >= start);
    }

    #[test]
    fn its_course_survives_as_text() {
        for course in [Course::Running { offset: -5 }, Course::Frozen { at: 1_795_000_000_000 }] {
            assert_eq!(Course::from_text(&course.to_text()), Some(course));
        }
        assert_eq!(Course::from_text("walking 5"), None);
    }
}
