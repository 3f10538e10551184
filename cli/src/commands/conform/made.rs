//! What a run makes at the services. It is recorded in the state directory before it is created, so
//! that `--clean-up` finds what a killed run has left.

use std::fs::{self, File, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_sdk::Dialect;
use svc_sdk::email::Email;

use super::examiner::segment;
use crate::failure::Failure;
use crate::private;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Audience,
    Domain,
    Webhook,
    ExtractionWebhook,
    ScheduledEmail,
}

impl Kind {
    /// The method and the path that remove one.
    pub(super) fn end(self, id: &str) -> (&'static str, String) {
        let list = match self {
            Self::ScheduledEmail => return ("PATCH", format!("/api/v1/emails/{id}/cancel")),
            Self::Audience => "/api/v1/audiences",
            Self::Domain => "/api/v1/domains",
            Self::Webhook => "/api/v1/webhooks",
            Self::ExtractionWebhook => "/v1/webhooks",
        };
        ("DELETE", format!("{list}/{id}"))
    }
}

/// Something that was created, or was about to be.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Thing {
    pub(super) kind: Kind,
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

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Target(Box<Target>),
    Made(Box<Thing>),
    Id { name: String, id: String },
    Gone(String),
}

/// The record of a run. It is locked while the run lasts.
pub(super) struct Made {
    file: File,
    path: PathBuf,
    pub(super) left: Vec<Thing>,
}

impl Made {
    pub(super) fn start(dir: &Path, run: &str, target: &Target) -> Result<Self, Failure> {
        private::create_dir(dir)?;
        let path = dir.join(format!("{run}.ndjson"));
        let mut made = Self {
            file: private::create_new(&path)?,
            path,
            left: Vec::new(),
        };
        // Some network file systems have no locks.
        let _ = made.file.lock();
        made.write(&Line::Target(Box::new(target.clone())))?;
        Ok(made)
    }

    /// The records of runs that have not ended in order.
    pub(super) fn of_killed_runs(dir: &Path) -> Result<Vec<(Target, Self)>, Failure> {
        let mut found = Vec::new();
        let Ok(files) = fs::read_dir(dir) else {
            return Ok(found);
        };
        for file in files {
            let path = file?.path();
            let text = fs::read_to_string(&path)?;
            let file = private::append(&path)?;
            if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
                continue;
            }
            let mut target = Target::default();
            let left = Vec::new();
            let mut made = Self { file, path, left };
            // The last line of a killed run may be cut: nothing was created after it.
            for line in text.lines().flat_map(serde_json::from_str) {
                match line {
                    Line::Target(known) => target = *known,
                    line => made.apply(line),
                }
            }
            found.push((target, made));
        }
        Ok(found)
    }

    /// Records what is about to be created.
    pub(super) fn add(&mut self, thing: Thing) -> Result<(), Failure> {
        self.note(Line::Made(Box::new(thing)))
    }

    pub(super) fn identify(&mut self, name: &str, id: &str) -> Result<(), Failure> {
        let (name, id) = (name.to_owned(), id.to_owned());
        self.note(Line::Id { name, id })
    }

    /// Records that what had this path is gone.
    pub(super) fn remove_at(&mut self, path: &str) -> Result<(), Failure> {
        let is_it = |thing: &&Thing| {
            let end = thing.id.as_deref().map(|id| thing.kind.end(&segment(id)).1);
            end.as_deref() == Some(path)
        };
        match self.left.iter().find(is_it).map(|thing| thing.name.clone()) {
            Some(name) => self.remove(&name),
            None => Ok(()),
        }
    }

    pub(super) fn remove(&mut self, name: &str) -> Result<(), Failure> {
        self.note(Line::Gone(name.to_owned()))
    }

    /// Removes the record if nothing is left.
    pub(super) fn end(self) -> Result<(), Failure> {
        if self.left.is_empty() {
            fs::remove_file(&self.path)?;
        }
        Ok(())
    }

    fn note(&mut self, line: Line) -> Result<(), Failure> {
        self.write(&line)?;
        self.apply(line);
        Ok(())
    }

    fn apply(&mut self, line: Line) {
        match line {
            Line::Target(_) => {}
            Line::Made(thing) => self.left.push(*thing),
            Line::Id { name, id } => {
                let found = self.left.iter_mut().find(|thing| thing.name == name);
                if let Some(thing) = found {
                    thing.id = Some(id);
                }
            }
            Line::Gone(name) => self.left.retain(|thing| thing.name != name),
        }
    }

    fn write(&mut self, line: &Line) -> Result<(), Failure> {
        let mut text =
            serde_json::to_vec(line).map_err(|error| Failure::other(error.to_string()))?;
        text.push(b'\n');
        self.file.write_all(&text)?;
        Ok(self.file.sync_data()?)
    }
}
