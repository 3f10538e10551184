//! Webhooks of sessions that ended without deleting them, for example because they were killed.
//!
//! Each session has a file that names its webhook, and keeps the file locked while it runs. A file
//! that is not locked therefore belongs to a session that has ended.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use svc_sdk::Service;
use uuid::Uuid;

use crate::confirm::is_yes;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::one_line;
use crate::private;
use crate::webhook;

#[derive(Serialize, Deserialize)]
struct Entry {
    service: String,
    /// The base URL and the profile, or the data directory of the sandbox.
    account: String,
    webhook: String,
    url: String,
}

/// The record of a running session.
pub(super) struct Record {
    path: PathBuf,
    /// Locked as long as it is open.
    _file: File,
}

impl Record {
    pub(super) fn store(
        context: &Context,
        service: Service,
        webhook: &str,
        url: &str,
    ) -> std::io::Result<Self> {
        let dir = directory(context);
        private::create_dir(&dir)?;
        let path = dir.join(format!("{}.json", Uuid::now_v7().simple()));
        let mut file = private::create_new(&path)?;
        // Before the content, without which other sessions ignore the file.
        file.lock()?;
        let entry = Entry {
            service: service.as_str().to_owned(),
            account: account(context, service),
            webhook: webhook.to_owned(),
            url: url.to_owned(),
        };
        file.write_all(&serde_json::to_vec(&entry)?)?;
        Ok(Self { path, _file: file })
    }

    /// Removes the record of a webhook that was deleted.
    pub(super) fn remove(&self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Deletes the webhooks that earlier sessions with the same account left behind, after a
/// confirmation. Without a terminal and without `--yes`, says how to delete them.
pub(super) async fn clean_up(context: &Context, service: Service) -> Result<(), Failure> {
    let found = ended_sessions(context, service);
    if found.is_empty() {
        return Ok(());
    }
    let existing = webhook::list(context, service).await?;
    for (path, entry) in found {
        if existing.iter().any(|webhook| webhook.id == entry.webhook) {
            let name = format!("webhook {} ({})", one_line(&entry.webhook), one_line(&entry.url));
            if !is_confirmed(context, &name).await? {
                let command = webhook::delete_command(context, service, &entry.webhook);
                context.out.warning(&format!(
                    "an earlier `svc listen` was killed, and its {name} still exists; delete it: {command}"
                ));
                continue;
            }
            webhook::delete(context, service, &entry.webhook).await?;
            context.out.note(&format!("deleted {name} of an earlier `svc listen`"));
        }
        let _ = fs::remove_file(path);
    }
    Ok(())
}

async fn is_confirmed(context: &Context, name: &str) -> Result<bool, Failure> {
    if context.settings.yes || !context.out.can_ask() {
        return Ok(context.settings.yes);
    }
    let question =
        format!("An earlier `svc listen` was killed, and its {name} still exists. Delete it?");
    is_yes(context, &question).await
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
