//! The ids of recently sent emails, for the shell completion of `svc emails get`: the email
//! service cannot list emails. Only ids and times are stored.

use std::fs;
use std::path::PathBuf;

use chrono::Utc;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::output::Printer;
use crate::private;
use crate::settings::Settings;

/// Maximum number of ids to store.
const MAX_IDS: usize = 50;

/// The emails of one profile, or of the sandbox.
pub struct SentEmails(PathBuf);

impl SentEmails {
    pub fn of(settings: &Settings) -> Self {
        let name = utf8_percent_encode(&settings.profile.value, NON_ALPHANUMERIC).to_string();
        Self(match settings.sandbox {
            true => settings.sandbox_dir.join("sent"),
            false => settings.data_dir.join("sent").join(name),
        })
    }

    /// Stores the ids of accepted emails. Errors are ignored, because the list is only a
    /// convenience.
    pub fn note<'a>(&self, ids: impl IntoIterator<Item = &'a str>) {
        let now = Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
        let known = fs::read_to_string(&self.0).unwrap_or_default();
        let mut lines = known.lines().map(str::to_owned).collect::<Vec<_>>();
        let one_word = |id: &&str| !id.is_empty() && !id.contains(char::is_whitespace);
        lines.extend(ids.into_iter().filter(one_word).map(|id| format!("{id} {now}")));
        let first = lines.len().saturating_sub(MAX_IDS);
        let text = lines[first..].iter().map(|line| format!("{line}\n")).collect::<String>();
        let _ = private::replace(&self.0, text.as_bytes());
    }

    /// The ids with the time of each, newest first.
    pub fn newest(&self, out: &Printer) -> Vec<(String, String)> {
        let known = fs::read_to_string(&self.0).unwrap_or_default();
        let pairs = known.lines().rev().filter_map(|line| line.split_once(' '));
        pairs.map(|(id, at)| (id.to_owned(), format!("sent {}", out.local_time(at)))).collect()
    }
}
