//! Counts recipients, within a run and within an hour.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use crate::InvalidInput;
use crate::client::time::now;

/// How many recipients got emails.
pub(super) struct Usage {
    max_per_run: Option<u64>,
    max_per_hour: Option<u64>,
    hour_file: Option<PathBuf>,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    run: u64,
    hour: Minutes,
}

impl Usage {
    pub(super) fn new(
        max_per_run: Option<u64>,
        max_per_hour: Option<u64>,
        hour_file: Option<PathBuf>,
    ) -> Self {
        Self { max_per_run, max_per_hour, hour_file, counts: Mutex::default() }
    }

    /// Adds recipients, unless that exceeds a limit.
    pub(super) fn add(&self, recipients: u64) -> Result<(), InvalidInput> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        exceeds(self.max_per_run, "run", counts.run, recipients)?;
        if self.max_per_hour.is_some() {
            let add = |hour: &mut Minutes| {
                exceeds(self.max_per_hour, "hour", hour.sum(), recipients)?;
                hour.change(|count| count.saturating_add(recipients));
                Ok(())
            };
            self.with_hour(&mut counts.hour, add).map_err(|error| not_counted(&error))??;
        }
        counts.run = counts.run.saturating_add(recipients);
        Ok(())
    }

    /// Checks that the limits leave room for a recipient, and that the file can be used.
    pub(super) fn check(&self) -> Result<(), InvalidInput> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        exceeds(self.max_per_run, "run", counts.run, 1)?;
        if self.max_per_hour.is_none() {
            return Ok(());
        }
        let check = |hour: &mut Minutes| exceeds(self.max_per_hour, "hour", hour.sum(), 1);
        self.with_hour(&mut counts.hour, check).map_err(|error| not_counted(&error))?
    }

    /// Takes back recipients that were added.
    pub(super) fn take_back(&self, recipients: u64) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.run = counts.run.saturating_sub(recipients);
        if self.max_per_hour.is_some() {
            // If it fails, the hour counts too many, which is safe.
            let _ = self.with_hour(&mut counts.hour, |hour| {
                hour.change(|count| count.saturating_sub(recipients));
            });
        }
    }

    /// Changes the counts of the hour, in the file if there is one.
    fn with_hour<T>(
        &self,
        own: &mut Minutes,
        change: impl FnOnce(&mut Minutes) -> T,
    ) -> io::Result<T> {
        let Some(path) = &self.hour_file else { return Ok(change(own)) };
        let mut file = open(path)?;
        file.lock()?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let mut minutes = Minutes::parse(&text)?;
        let result = change(&mut minutes);
        file.seek(SeekFrom::Start(0))?;
        // Always as long as before, so that a crash cannot leave half of it.
        file.write_all(minutes.text().as_bytes())?;
        Ok(result)
    }
}

fn not_counted(error: &io::Error) -> InvalidInput {
    let problem = format!("the count of this hour's recipients failed: {error}");
    InvalidInput::new("max_per_hour", problem)
}

fn exceeds(limit: Option<u64>, per: &str, used: u64, more: u64) -> Result<(), InvalidInput> {
    match limit.filter(|limit| used.saturating_add(more) > *limit) {
        None => Ok(()),
        Some(limit) => Err(InvalidInput::new(
            format!("max_per_{per}"),
            format!(
                "{more} more recipients exceed the limit of {limit} per {per}, of which {used} \
                 are used"
            ),
        )),
    }
}

/// The counts of the last 60 minutes and the current one, each with the number of its minute.
#[derive(Clone)]
struct Minutes([(u64, u64); 61]);

impl Default for Minutes {
    fn default() -> Self {
        Self([(0, 0); 61])
    }
}

impl Minutes {
    fn sum(&self) -> u64 {
        let now = minute();
        // A minute in the future counts too: the clock was set back.
        let is_recent = |minute: u64| now.abs_diff(minute) <= 60;
        let recent = self.0.iter().filter(|(minute, _)| is_recent(*minute));
        recent.fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    fn change(&mut self, change: impl FnOnce(u64) -> u64) {
        let now = minute();
        let slot = &mut self.0[(now % 61) as usize];
        let count = if slot.0 == now { slot.1 } else { 0 };
        *slot = (now, change(count));
    }

    /// Numbers of equal width, a line for each minute.
    fn text(&self) -> String {
        self.0.iter().map(|(minute, count)| format!("{minute:020} {count:020}\n")).collect()
    }

    fn parse(text: &str) -> io::Result<Self> {
        let mut minutes = Self::default();
        if text.is_empty() {
            return Ok(minutes);
        }
        let mut lines = text.lines();
        for slot in &mut minutes.0 {
            let pair = lines.next().and_then(|line| line.split_once(' '));
            let pair = pair.and_then(|(at, count)| Some((at.parse().ok()?, count.parse().ok()?)));
            *slot = pair.ok_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidData, "the file is damaged; remove it")
            })?;
        }
        Ok(minutes)
    }
}

fn minute() -> u64 {
    now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / 60
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipients_older_than_an_hour_do_not_count() {
        let now = minute();
        let mut minutes = Minutes::default();
        for (age, count) in [(0, 1), (1, 2), (59, 4), (60, 8)] {
            minutes.0[((now - age) % 61) as usize] = (now - age, count);
        }
        // The minute may change during the test.
        assert!([15, 7].contains(&minutes.sum()));
        minutes.0 = [(now - 62, 5); 61];
        assert_eq!(minutes.sum(), 0);
    }

    #[test]
    fn processes_share_the_count_of_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hour");
        let usage = || Usage::new(None, Some(5), Some(path.clone()));
        let (one, other) = (usage(), usage());
        one.add(3).unwrap();
        let refused = other.add(3).unwrap_err();
        assert!(refused.problem.contains("limit of 5 per hour, of which 3 are used"), "{refused}");
        other.add(2).unwrap();
        assert!(one.add(1).is_err());
        other.take_back(2);
        one.add(1).unwrap();
        std::fs::write(&path, "x").unwrap();
        assert!(one.add(1).unwrap_err().problem.contains("damaged"));
        let nowhere = Usage::new(None, Some(5), Some(dir.path().join("no/hour")));
        assert!(nowhere.add(1).is_err());
    }
}
