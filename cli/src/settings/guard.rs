//! The recipient guard: who may get emails, from the environment and the profile
//! (`docs/guides/recipient-guard.md`).

use std::path::Path;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use svc_sdk::RecipientGuard;

use super::Sourced;
use super::hour::HourCounter;
use super::table::profile_settings;
use crate::failure::Failure;
use crate::private;

/// The resolved guard, each part with its source.
#[derive(Clone, Debug)]
pub struct Guard {
    pub allow: Option<Sourced<Vec<String>>>,
    pub redirect: Option<Sourced<String>>,
    pub max_per_run: Option<Sourced<u32>>,
    pub max_per_hour: Option<Sourced<u32>>,
    /// A setting that svc does not know, but that was probably meant to be a part.
    pub(super) misspelled: Option<String>,
}

impl Guard {
    /// Whether a name that svc does not know was probably meant to be a part of the guard.
    pub(super) fn is_meant_by(name: &str) -> bool {
        let name = name.to_lowercase();
        name.contains("recip") || name.contains("redirect")
    }

    /// Who may get emails: the rules and the redirect, described without the limits.
    pub fn recipients(&self) -> Option<String> {
        let limitless = Self { max_per_run: None, max_per_hour: None, ..self.clone() };
        limitless.to_sdk().map(|guard| guard.to_string())
    }

    /// The smaller limit of recipients, of a run or of an hour.
    pub fn smallest_limit(&self) -> Option<usize> {
        let limits = [&self.max_per_run, &self.max_per_hour].into_iter().flatten();
        limits.map(|limit| usize::try_from(limit.value).unwrap_or(usize::MAX)).min()
    }

    /// The guard of the SDK; `None` if no part is set.
    pub fn to_sdk(&self) -> Option<RecipientGuard> {
        if self.allow.is_none()
            && self.redirect.is_none()
            && self.max_per_run.is_none()
            && self.max_per_hour.is_none()
        {
            return None;
        }
        let mut guard = match &self.allow {
            Some(rules) => RecipientGuard::allow(rules.value.iter().map(String::as_str)),
            None => RecipientGuard::default(),
        };
        if let Some(address) = &self.redirect {
            guard = guard.redirect_to(address.value.as_str());
        }
        if let Some(max) = &self.max_per_run {
            guard = guard.max_per_run(u64::from(max.value));
        }
        Some(guard)
    }

    /// The same for a run, which shares the count of an hour with other runs of the profile.
    pub fn for_run(
        &self,
        state_dir: &Path,
        profile: &str,
    ) -> Result<Option<RecipientGuard>, Failure> {
        if let Some(name) = &self.misspelled {
            return Err(misspelled(name));
        }
        let Some(guard) = self.to_sdk() else { return Ok(None) };
        let Some(limit) = &self.max_per_hour else { return Ok(Some(guard)) };
        let folder = state_dir.join("recipients");
        private::create_dir(&folder)
            .map_err(|error| Failure::other(format!("{}: {error}", folder.display())))?;
        let name = utf8_percent_encode(profile, NON_ALPHANUMERIC).to_string();
        let counter = HourCounter::new(folder.join(name), limit.value.into());
        Ok(Some(guard.count_with(move |recipients| counter.add(recipients))))
    }
}

/// The failure for a name that is not a setting, but may be meant to be a part of the guard.
pub(super) fn misspelled(name: &str) -> Failure {
    let parts = profile_settings().map(|setting| setting.name);
    let parts = parts.filter(|name| Guard::is_meant_by(name)).collect::<Vec<_>>();
    Failure::input(format!("{name} is not a setting, but may be meant to limit the recipients"))
        .code("recipient_guard")
        .hint(format!("the settings are {}: svc config show", parts.join(", ")))
}
