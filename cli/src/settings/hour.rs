//! Counts the recipients of the last hour in a file that all runs of a profile share.

use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::private;

/// The limit of an hour and its file.
pub struct HourCounter {
    path: PathBuf,
    limit: u64,
}

impl HourCounter {
    pub fn new(path: PathBuf, limit: u64) -> Self {
        Self { path, limit }
    }

    /// Adds recipients unless that exceeds the limit; takes them back if the number is negative.
    /// Zero asks whether one more is allowed.
    pub fn add(&self, recipients: i64) -> Result<(), String> {
        self.change(recipients)
            .map_err(|error| format!("the count of this hour's recipients failed: {error}"))?
    }

    fn change(&self, recipients: i64) -> io::Result<Result<(), String>> {
        let mut file = private::open(&self.path)?;
        // Held for as long as it takes to read and write two kilobytes.
        file.lock()?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let mut minutes = parse(&text)?;
        let now = minute();
        // A minute in the future counts too: the clock was set back.
        let recent = minutes.iter().filter(|(minute, _)| now.abs_diff(*minute) <= 60);
        let used = recent.fold(0, |sum: u64, (_, count)| sum.saturating_add(*count));
        let more = recipients.max(0).unsigned_abs();
        if recipients >= 0 && used.saturating_add(more.max(1)) > self.limit {
            let limit = self.limit;
            let more = more.max(1);
            return Ok(Err(format!(
                "{more} more recipients exceed the limit of {limit} per hour, of which {used} \
                 are used"
            )));
        }
        let slot = &mut minutes[(now % 61) as usize];
        let count = if slot.0 == now { slot.1 } else { 0 };
        *slot = (now, count.saturating_add_signed(recipients));
        file.seek(SeekFrom::Start(0))?;
        // Numbers of equal width: always as long as before, so that a crash cannot leave half.
        let line = |(minute, count): &(u64, u64)| format!("{minute:020} {count:020}\n");
        file.write_all(minutes.iter().map(line).collect::<String>().as_bytes())?;
        Ok(Ok(()))
    }
}

/// The counts of the last 60 minutes and the current one, each with the number of its minute.
fn parse(text: &str) -> io::Result<[(u64, u64); 61]> {
    let mut minutes = [(0, 0); 61];
    if text.is_empty() {
        return Ok(minutes);
    }
    let mut lines = text.lines();
    for slot in &mut minutes {
        let pair = lines.next().and_then(|line| line.split_once(' '));
        let pair = pair.and_then(|(at, count)| Some((at.parse().ok()?, count.parse().ok()?)));
        *slot = pair.ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "the file is damaged; remove it")
        })?;
    }
    Ok(minutes)
}

fn minute() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / 60
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_share_the_count_of_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hour");
        let (one, other) = (HourCounter::new(path.clone(), 5), HourCounter::new(path.clone(), 5));
        one.add(3).unwrap();
        let refused = other.add(3).unwrap_err();
        assert!(refused.contains("limit of 5 per hour, of which 3 are used"), "{refused}");
        other.add(2).unwrap();
        assert!(one.add(1).is_err() && one.add(0).is_err());
        other.add(-2).unwrap();
        one.add(0).unwrap();
        one.add(1).unwrap();
        // What is older than an hour does not count.
        let old = format!("{:020} {:020}\n", minute() - 62, 5).repeat(61);
        std::fs::write(&path, old).unwrap();
        one.add(5).unwrap();
        std::fs::write(&path, "x").unwrap();
        assert!(one.add(1).unwrap_err().contains("damaged"));
        let nowhere = HourCounter::new(dir.path().join("no/hour"), 5);
        assert!(nowhere.add(1).is_err());
    }
}
