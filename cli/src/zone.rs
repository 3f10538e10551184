//! The time zone of a run: of times without an offset on the command line, and of shown times.

use std::fmt;
use std::path::Path;

use chrono::{
    FixedOffset, Local, MappedLocalTime, NaiveDate, NaiveDateTime, NaiveTime, Offset, TimeZone,
};

/// The zone of the machine, or a fixed offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Zone {
    /// The zone of `TZ` or of the machine.
    #[default]
    Local,
    /// An offset that a test chooses.
    Fixed(FixedOffset),
}

/// An offset from UTC, and the zone that it is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneOffset {
    zone: Zone,
    offset: FixedOffset,
}

impl Offset for ZoneOffset {
    fn fix(&self) -> FixedOffset {
        self.offset
    }
}

impl fmt::Display for ZoneOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.offset.fmt(f)
    }
}

impl TimeZone for Zone {
    type Offset = ZoneOffset;

    fn from_offset(offset: &ZoneOffset) -> Self {
        offset.zone
    }

    fn offset_from_local_date(&self, local: &NaiveDate) -> MappedLocalTime<ZoneOffset> {
        self.offset_from_local_datetime(&local.and_time(NaiveTime::MIN))
    }

    fn offset_from_local_datetime(&self, local: &NaiveDateTime) -> MappedLocalTime<ZoneOffset> {
        let offset = match self {
            Self::Local => Local.offset_from_local_datetime(local),
            Self::Fixed(offset) => MappedLocalTime::Single(*offset),
        };
        offset.map(|offset| ZoneOffset { zone: *self, offset })
    }

    fn offset_from_utc_date(&self, utc: &NaiveDate) -> ZoneOffset {
        self.offset_from_utc_datetime(&utc.and_time(NaiveTime::MIN))
    }

    fn offset_from_utc_datetime(&self, utc: &NaiveDateTime) -> ZoneOffset {
        let offset = match self {
            Self::Local => Local.offset_from_utc_datetime(utc),
            Self::Fixed(offset) => *offset,
        };
        ZoneOffset { zone: *self, offset }
    }
}

/// Where chrono looks for zones.
const DIRECTORIES: [&str; 4] =
    ["/usr/share/zoneinfo", "/share/zoneinfo", "/etc/zoneinfo", "/usr/share/lib/zoneinfo"];

/// Whether this machine knows the zone of `TZ`. chrono silently uses UTC for another one.
pub fn is_known(name: &str) -> bool {
    let file = name.strip_prefix(':').unwrap_or(name);
    cfg!(not(unix))
        || matches!(name, "localtime" | "UTC" | "GMT")
        || DIRECTORIES.iter().any(|directory| Path::new(directory).join(file).is_file())
        || (!name.starts_with(':') && is_rule(name))
}

/// Whether the text is a POSIX rule such as `CET-1CEST,M3.5.0,M10.5.0/3`.
fn is_rule(text: &str) -> bool {
    let name = match text.strip_prefix('<') {
        Some(rest) => rest.find('>').map(|end| end + 2),
        None => Some(text.bytes().take_while(u8::is_ascii_alphabetic).count()),
    };
    let Some(name) = name.filter(|length| *length >= 3) else { return false };
    let offset = text.get(name..).unwrap_or_default().trim_start_matches(['+', '-']);
    offset.starts_with(|first: char| first.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn names_and_rules_are_known() {
        for known in ["UTC", "EST5EDT", "CET-1CEST,M3.5.0,M10.5.0/3", "<+03>-3", "/etc/hostname"] {
            assert!(is_known(known), "{known}");
        }
        for unknown in ["Europe/Berln", "CET-", "+2", ":UTC0", "Berlin time"] {
            assert!(!is_known(unknown), "{unknown}");
        }
    }
}
