//! The webhook of a session: created at its start and deleted at its end.
//!
//! Each session has a file that names its webhook, and keeps the file locked while it runs. A file
//! that is not locked therefore belongs to a session that was killed, whose webhook the next one
//! deletes.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use svc_sdk::{Secret, Service};
use uuid::Uuid;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::one_line;
use crate::private;
use crate::webhook;

pub(super) struct Session {
    pub(super) id: String,
    /// The secret with which the service signs, if the response has one.
    pub(super) secret: Option<Secret>,
    service: Service,
    /// Without it, the session still works; only a leftover webhook could not be found.
    record: Option<Record>,
}

impl Session {
    /// Deletes what killed sessions have left behind, and creates a webhook for these events.
    pub(super) async fn start(
        context: &Context,
        service: Service,
        url: &str,
        events: &[String],
    ) -> Result<Self, Failure> {
        for (path, entry) in ended_sessions(context, service) {
            webhook::delete(context, service, &entry.webhook).await?;
            let _ = fs::remove_file(path);
            let name = format!("webhook {} ({})", one_line(&entry.webhook), one_line(&entry.url));
            context.out.note(&format!("deleted {name} of a `svc listen` that was killed"));
        }
        let created = webhook::create(context, service, url, events).await?;
        let record = Record::store(context, service, &created.id, url).ok();
        Ok(Self { id: created.id, secret: created.secret, service, record })
    }

    /// Deletes the webhook. A failure says how to delete it by hand.
    pub(super) async fn end(&self, context: &Context) -> Result<(), Failure> {
        webhook::delete(context, self.service, &self.id)
            .await
            .map_err(|failure| self.not_deleted(context, &failure.details().message))?;
        if let Some(record) = &self.record {
            let _ = fs::remove_file(&record.path);
        }
        Ok(())
    }

    /// The failure for a webhook that could not be deleted.
    pub(super) fn not_deleted(&self, context: &Context, why: &str) -> Failure {
        let command = webhook::delete_command(context, self.service, &self.id);
        Failure::other(format!("webhook {} was not deleted: {why}", self.id))
            .code("webhook_not_deleted")
            .hint(format!("delete it: {command}"))
    }
}

#[derive(Serialize, Deserialize)]
struct Entry {
    service: String,
    /// The base URL and the profile, or the data directory of the sandbox.
    account: String,
    webhook: String,
    url: String,
}

/// The record of a running session.
struct Record {
    path: PathBuf,
    /// Locked as long as it is open.
    _file: File,
}

impl Record {
    fn store(context: &Context, service: Service, id: &str, url: &str) -> std::io::Result<Self> {
        let dir = directory(context);
        private::create_dir(&dir)?;
        let path = dir.join(format!("{}.json", Uuid::now_v7().simple()));
        let mut file = private::create_new(&path)?;
        // Before the content, without which other sessions ignore the file.
        file.lock()?;
        let entry = Entry {
            service: service.as_str().to_owned(),
            account: account(context, service),
            webhook: id.to_owned(),
            url: url.to_owned(),
        };
        file.write_all(&serde_json::to_vec(&entry)?)?;
        Ok(Self { path, _file: file })
    }
}

/// The records of this account whose sessions have ended.
fn ended_sessions(context: &Context, service: Service) -> Vec<(PathBuf, Entry)> {
    let Ok(files) = fs::read_dir(directory(context)) else { return Vec::new() };
    let account = account(context, service);
    let paths = files.filter_map(|file| Some(file.ok()?.path()));
    let entries = paths.filter_map(|path| Some((path.clone(), ended(&path)?)));
    entries
        .filter(|(_, entry)| entry.service == service.as_str() && entry.account == account)
        .collect()
}

/// The entry of a file that no running session has locked.
fn ended(path: &Path) -> Option<Entry> {
    let mut file = File::open(path).ok()?;
    file.try_lock().ok()?;
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

fn directory(context: &Context) -> PathBuf {
    context.settings.data_dir.join("listen")
}

fn account(context: &Context, service: Service) -> String {
    let settings = &context.settings;
    if settings.sandbox {
        return format!("sandbox {}", settings.sandbox_dir.display());
    }
    let url = settings.url(service).map(|url| url.value.as_str()).unwrap_or_default();
    format!("{url} {}", settings.profile.value)
}
