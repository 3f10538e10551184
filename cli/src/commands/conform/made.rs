//! What a run makes at the services. It is recorded in the state directory before it is created, so
//! that `--clean-up` finds what a killed run has left.

use std::fs::{self, File, TryLockError};
use std::io::Error;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_sdk::Dialect;
use svc_sdk::email::Email;

use crate::failure::Failure;
use crate::private_files;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Audience,
    #[schemars(skip)]
    Contact,
    Domain,
    Webhook,
    ExtractionWebhook,
    #[schemars(skip)]
    Email,
    ScheduledEmail,
}

impl Kind {
    /// The request that removes one. `None`: it goes with something else, or cannot be taken back.
    pub(super) fn end(self, id: &str) -> Option<String> {
        let list = match self {
            Self::ScheduledEmail => return Some(format!("PATCH /api/v1/emails/{id}/cancel")),
            Self::Audience => "/api/v1/audiences",
            Self::Domain => "/api/v1/domains",
            Self::Webhook => "/api/v1/webhooks",
            Self::ExtractionWebhook => "/v1/webhooks",
            Self::Contact | Self::Email => return None,
        };
        Some(format!("DELETE {list}/{id}"))
    }
}

/// Something that was created, or was about to be.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Thing {
    pub(super) kind: Kind,
    pub(super) step: String,
    /// The name or the URL by which a list shows it; of an email, its idempotency key.
    pub(super) name: String,
    pub(super) id: Option<String>,
    /// To learn the id of a scheduled email, which no list shows, by repeating its request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) email: Option<Email>,
}

/// The services of a run, and how they take the key.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct Target {
    pub(super) email_url: Option<String>,
    pub(super) extraction_url: Option<String>,
    pub(super) dialect: Dialect,
}

/// The record of a run. It is locked while the run lasts.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Made {
    pub(super) target: Target,
    pub(super) left: Vec<Thing>,
    #[serde(skip)]
    path: PathBuf,
    #[serde(skip)]
    _lock: Option<File>,
}

impl Made {
    pub(super) fn start(dir: &Path, run: &str, target: &Target) -> Result<Self, Failure> {
        let path = dir.join(format!("{run}.json"));
        let mut made = Self {
            target: target.clone(),
            _lock: Some(private_files::lock(&path.with_extension(LOCK))?),
            path,
            ..Self::default()
        };
        made.change(|_| {})?;
        Ok(made)
    }

    /// The records of runs that have not ended in order.
    pub(super) fn of_killed_runs(dir: &Path) -> Result<Vec<Self>, Failure> {
        let mut found = Vec::new();
        let Ok(files) = fs::read_dir(dir) else {
            return Ok(found);
        };

        for file in files {
            let path = file?.path();
            if path.extension().is_none_or(|it| it != "json") {
                continue;
            }
            let lock = private_files::append(&path.with_extension(LOCK))?;
            if matches!(lock.try_lock(), Err(TryLockError::WouldBlock)) {
                continue;
            }
            let made: Self = serde_json::from_slice(&fs::read(&path)?).map_err(Error::from)?;
            let _lock = Some(lock);
            found.push(Self {
                path,
                _lock,
                ..made
            });
        }
        Ok(found)
    }

    /// Changes what is left, durably.
    pub(super) fn change(&mut self, change: impl FnOnce(&mut Vec<Thing>)) -> Result<(), Failure> {
        change(&mut self.left);
        let content = serde_json::to_vec(self).map_err(Error::from)?;
        Ok(private_files::replace(&self.path, &content)?)
    }

    /// Records that a step's creation was deleted.
    pub(super) fn remove(&mut self, step: &str) -> Result<(), Failure> {
        if self.left.iter().any(|thing| thing.step == step) {
            self.change(|left| left.retain(|thing| thing.step != step))
        } else {
            Ok(())
        }
    }

    /// Removes the record if nothing is left.
    pub(super) fn end(self) -> Result<(), Failure> {
        if self.left.is_empty() {
            fs::remove_file(&self.path)?;
            fs::remove_file(self.path.with_extension(LOCK))?;
        }
        Ok(())
    }
}

const LOCK: &str = "lock";
