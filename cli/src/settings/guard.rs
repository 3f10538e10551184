//! The recipient guard: who may get emails, from the environment and the profile
//! (`docs/guides/recipient-guard.md`).

use serde::Deserialize;
use svc_sdk::RecipientGuard;

use super::table::profile_settings;
use crate::failure::Failure;

/// The resolved guard. The fields are named as the settings.
#[derive(Clone, Debug, Deserialize)]
pub struct Guard {
    allow_recipients: Option<Vec<String>>,
    redirect_recipients: Option<String>,
    pub max_recipients_per_run: Option<u32>,
    /// A setting that svc does not know, but that was probably meant to be a part.
    #[serde(skip)]
    pub(super) misspelled: Option<String>,
}

impl Guard {
    /// Whether a name that svc does not know was probably meant to be a part of the guard.
    pub(super) fn is_meant_by(name: &str) -> bool {
        let name = name.to_lowercase();
        name.contains("recip") || name.contains("redirect")
    }

    /// Who may get emails: the rules and the redirect, described without the limit.
    pub fn recipients(&self) -> Option<String> {
        let limitless = Self {
            max_recipients_per_run: None,
            ..self.clone()
        };
        limitless.to_sdk().map(|guard| guard.to_string())
    }

    /// The guard of the SDK; `None` if no part is set.
    pub fn to_sdk(&self) -> Option<RecipientGuard> {
        let mut guard = match &self.allow_recipients {
            Some(rules) => RecipientGuard::allow(rules.iter().map(String::as_str)),
            None => RecipientGuard::default(),
        };
        if let Some(address) = &self.redirect_recipients {
            guard = guard.redirect_to(address.as_str());
        }
        if let Some(max) = self.max_recipients_per_run {
            guard = guard.max_per_run(u64::from(max));
        }
        let is_set = self.allow_recipients.is_some()
            || self.redirect_recipients.is_some()
            || self.max_recipients_per_run.is_some();
        is_set.then_some(guard)
    }

    /// The same for a run, which a misspelled part stops.
    pub fn for_run(&self) -> Result<Option<RecipientGuard>, Failure> {
        match &self.misspelled {
            Some(name) => Err(misspelled(name)),
            None => Ok(self.to_sdk()),
        }
    }
}

/// The failure for a name that is not a setting, but may be meant to be a part of the guard.
pub(super) fn misspelled(name: &str) -> Failure {
    let parts = profile_settings().map(|setting| setting.name);
    let parts = parts
        .filter(|name| Guard::is_meant_by(name))
        .collect::<Vec<_>>();
    Failure::input(format!(
        "{name} is not a setting, but may be meant to limit the recipients"
    ))
    .code("recipient_guard")
    .hint(format!(
        "the settings are {}: svc config show",
        parts.join(", ")
    ))
}
