//! The recipient guard: who may get emails, from the environment and the profile
//! (`docs/guides/recipient-guard.md`).

use std::path::Path;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use svc_sdk::RecipientGuard;

use super::Sourced;
use super::files::create_private_dir;
use super::hour::HourCounter;
use crate::failure::Failure;

/// The settings of a profile that make up its guard, and the variables that replace them.
pub const ALLOW: (&str, &str) = ("allow_recipients", "SVC_ALLOW_RECIPIENTS");
pub const REDIRECT: (&str, &str) = ("redirect_recipients", "SVC_REDIRECT_RECIPIENTS");
pub const PER_RUN: (&str, &str) = ("max_recipients_per_run", "SVC_MAX_RECIPIENTS_PER_RUN");
pub const PER_HOUR: (&str, &str) = ("max_recipients_per_hour", "SVC_MAX_RECIPIENTS_PER_HOUR");

/// The guard in a profile.
#[derive(Clone, Debug, Default)]
pub struct GuardValues {
    pub allow: Option<Vec<String>>,
    pub redirect: Option<String>,
    pub max_per_run: Option<u32>,
    pub max_per_hour: Option<u32>,
}

/// The resolved guard, each part with its source.
#[derive(Clone, Debug)]
pub struct Guard {
    pub allow: Option<Sourced<Vec<String>>>,
    pub redirect: Option<Sourced<String>>,
    pub max_per_run: Option<Sourced<u32>>,
    pub max_per_hour: Option<Sourced<u32>>,
    /// A setting that svc does not know, but that was probably meant to be a part.
    misspelled: Option<String>,
}

impl Guard {
    /// Takes each part from its variable, or else from the profile.
    pub(super) fn resolve(
        values: GuardValues,
        misspelled: Option<String>,
        variable: impl Fn(&'static str) -> Option<Sourced<String>>,
    ) -> Result<Self, Failure> {
        let text = |name| match variable(name) {
            // More likely a mistake than the wish to allow everything.
            Some(text) if text.value.trim().is_empty() => {
                Err(Failure::usage(format!("{}: it is empty", text.source))
                    .hint(format!("unset {name}, or set a value")))
            }
            text => Ok(text),
        };
        let number = |name| match text(name)? {
            None => Ok(None),
            Some(text) => match text.value.trim().parse() {
                Ok(value) => Ok(Some(Sourced { value, source: text.source })),
                Err(_) => Err(Failure::usage(format!(
                    "{}: `{}` is not a number of recipients",
                    text.source, text.value
                ))),
            },
        };
        let allow = text(ALLOW.1)?.map(|text| {
            let parts = text.value.split(|c: char| c == ',' || c.is_whitespace());
            let value = parts.filter(|part| !part.is_empty()).map(str::to_owned).collect();
            Sourced { value, source: text.source }
        });
        Ok(Self {
            allow: allow.or_else(|| values.allow.map(Sourced::from_profile)),
            redirect: text(REDIRECT.1)?.or_else(|| values.redirect.map(Sourced::from_profile)),
            max_per_run: number(PER_RUN.1)?
                .or_else(|| values.max_per_run.map(Sourced::from_profile)),
            max_per_hour: number(PER_HOUR.1)?
                .or_else(|| values.max_per_hour.map(Sourced::from_profile)),
            misspelled,
        })
    }

    /// Whether a name that svc does not know was probably meant to be a part of the guard.
    pub(super) fn is_meant_by(name: &str) -> bool {
        let known = [ALLOW, REDIRECT, PER_RUN, PER_HOUR];
        let is_known = known.iter().any(|(_, variable)| *variable == name);
        name.to_lowercase().contains("recipient") && !is_known
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
            return Err(Failure::input(format!(
                "{name} is not a setting, but may be meant to limit the recipients"
            ))
            .code("recipient_guard")
            .hint(format!(
                "the settings are {}, {}, {} and {}: svc config show",
                ALLOW.0, REDIRECT.0, PER_RUN.0, PER_HOUR.0
            )));
        }
        let Some(guard) = self.to_sdk() else { return Ok(None) };
        let Some(limit) = &self.max_per_hour else { return Ok(Some(guard)) };
        let folder = state_dir.join("recipients");
        create_private_dir(&folder)
            .map_err(|error| Failure::other(format!("{}: {error}", folder.display())))?;
        let name = utf8_percent_encode(profile, NON_ALPHANUMERIC).to_string();
        let counter = HourCounter::new(folder.join(name), limit.value.into());
        Ok(Some(guard.count_with(move |recipients| counter.add(recipients))))
    }
}
