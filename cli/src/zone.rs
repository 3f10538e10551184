//! The time zone of a run: of times without an offset on the command line, and of shown times.

use std::path::Path;

use chrono::{DateTime, FixedOffset, Local, TimeZone};

/// The zone of the machine, or a fixed offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Zone {
    /// The zone of `TZ` or of the machine.
    #[default]
    Local,
    /// An offset that a test chooses.
    Fixed(FixedOffset),
}

impl Zone {
    /// An instant in this zone.
    pub(crate) fn at<Z: TimeZone>(self, instant: &DateTime<Z>) -> DateTime<FixedOffset> {
        match self {
            Self::Local => instant.with_timezone(&Local).fixed_offset(),
            Self::Fixed(offset) => instant.with_timezone(&offset),
        }
    }
}

/// Where chrono looks for zones.
const DIRECTORIES: [&str; 4] = [
    "/usr/share/zoneinfo",
    "/share/zoneinfo",
    "/etc/zoneinfo",
    "/usr/share/lib/zoneinfo",
];

/// Whether this machine knows the zone of `TZ`. chrono silently uses UTC for another one.
pub fn is_known(name: &str) -> bool {
    let file = name.strip_prefix(':').unwrap_or(name);
    cfg!(not(unix))
        || matches!(name, "localtime" | "UTC" | "GMT")
        || DIRECTORIES
            .iter()
            .any(|directory| Path::new(directory).join(file).is_file())
        || (!name.starts_with(':') && is_rule(name))
}

/// Whether the text is a POSIX rule such as `CET-1CEST,M3.5.0,M10.5.0/3`.
fn is_rule(text: &str) -> bool {
    let name = match text.strip_prefix('<') {
        Some(rest) => rest.find('>').map(|end| end + 2),
        None => Some(text.bytes().take_while(u8::is_ascii_alphabetic).count()),
    };
    let Some(name) = name.filter(|length| *length >= 3) else {
        return false;
    };

    let offset = text
        .get(name..)
        .unwrap_or_default()
        .trim_start_matches(['+', '-']);
    offset.starts_with(|first: char| first.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn names_and_rules_are_known() {
        for known in [
            "UTC",
            "EST5EDT",
            "CET-1CEST,M3.5.0,M10.5.0/3",
            "<+03>-3",
            "/etc/hostname",
        ] {
            assert!(is_known(known), "{known}");
        }
        for unknown in ["Europe/Berln", "CET-", "+2", ":UTC0", "Berlin time"] {
            assert!(!is_known(unknown), "{unknown}");
        }
    }
}
