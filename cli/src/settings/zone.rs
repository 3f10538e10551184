//! Checks the time zone of `TZ`. chrono silently uses UTC for a zone that it does not know.

use std::path::Path;

use crate::failure::Failure;

/// Where chrono looks for zones.
const DIRECTORIES: [&str; 4] =
    ["/usr/share/zoneinfo", "/share/zoneinfo", "/etc/zoneinfo", "/usr/share/lib/zoneinfo"];

/// Refuses a zone that does not exist, because times would be read and shown in UTC instead.
pub(super) fn check(name: Option<&str>) -> Result<(), Failure> {
    let Some(name) = name.filter(|_| cfg!(unix)) else { return Ok(()) };
    let file = name.strip_prefix(':').unwrap_or(name);
    let exists = |directory: &str| Path::new(directory).join(file).is_file();
    let is_known = matches!(name, "localtime" | "UTC" | "GMT")
        || DIRECTORIES.iter().any(|directory| exists(directory))
        || (!name.starts_with(':') && is_rule(name));
    if is_known {
        return Ok(());
    }
    Err(Failure::usage(format!("TZ: the time zone `{name}` is not known on this machine"))
        .hint("use a name such as Europe/Berlin (of the package tzdata) or UTC, or unset TZ"))
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
    fn unknown_zones_are_refused() {
        for known in ["UTC", "EST5EDT", "CET-1CEST,M3.5.0,M10.5.0/3", "<+03>-3", "/etc/hostname"] {
            assert!(check(Some(known)).is_ok(), "{known}");
        }
        for unknown in ["Europe/Berln", "CET-", "+2", ":UTC0", "Berlin time"] {
            let failure = check(Some(unknown)).expect_err(unknown);
            assert!(failure.details().message.contains(unknown));
        }
        assert!(check(None).is_ok());
    }
}
