//! The webhook of a session: created at its start and deleted at its end. A session that is killed
//! leaves its webhook behind, which the next one at the same service deletes: it finds the record of
//! the webhook in the state directory, or one with its own URL.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use svc_sdk::{Call, Deleted, Secret, Service};
use uuid::Uuid;

use crate::commands::webhooks::ServiceWebhook;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::prepared::Preview;
use crate::private_files;
use crate::resource::Names;
use crate::settings::is_same_base_url;
use crate::stop::StopSignal;
use crate::urls::parse_url;

/// The last segment of the path of every session's URL.
const SESSION: &str = "svc-listen";

pub(super) struct Session {
    pub(super) id: String,
    /// The secret with which the service signs, if the response has one.
    pub(super) secret: Option<Secret>,
    /// `None` if the state directory cannot be written.
    record: Option<Record>,
}

/// The URL of a session's webhook.
pub(super) fn session_url(base: &str) -> Option<String> {
    let mut url = parse_url(base)?;
    url.path_segments_mut().ok()?.pop_if_empty().push(SESSION);
    Some(url.into())
}

impl Session {
    /// Deletes the webhook, unless another signal arrives. A failure says how to delete it by hand.
    pub(super) async fn end<W: ServiceWebhook>(
        &self,
        context: &Context,
        stop: &mut StopSignal,
    ) -> Result<(), Failure> {
        let delete = delete::<W>(context, &self.id);
        let deleted = context.caller.unless_stopped(stop, delete).await;
        deleted.map_err(|failure| {
            let id = &self.id;
            let command = context.svc(&format!("{} delete {{}} --yes", W::GROUP), &[id]);
            let why = &failure.message;
            Failure::other(format!("webhook {id} was not deleted: {why}"))
                .code("webhook_not_deleted")
                .hint(format!("delete it: {command}"))
        })?;
        if let Some(record) = &self.record {
            record.remove();
        }
        Ok(())
    }
}

/// The webhook of a new session, and those that killed sessions have left behind.
pub(super) struct NewSession<W> {
    records: SessionRecords,
    left: Vec<Leftover>,
    create: Call<W>,
}

/// A webhook that a killed session has left behind.
struct Leftover {
    delete: Call<Deleted>,
    /// `None` if it was found by its URL.
    record: Option<Record>,
}

impl<W: ServiceWebhook> NewSession<W> {
    pub(super) async fn new(
        context: &Context,
        service: Service,
        url: &str,
        events: Vec<String>,
    ) -> Result<Self, Failure> {
        let records = SessionRecords::new(context, service).await?;
        let client = W::client(context).await?;
        let delete = |id: &str| context.caller.with_options(W::delete(&client, id));

        let mut left = Vec::new();
        for found in W::search(&Names::new(context, &client), Some(url)).await? {
            left.push(Leftover {
                delete: delete(&found.target().id),
                record: None,
            });
        }

        for (id, record) in records.of_killed_sessions() {
            left.push(Leftover {
                delete: delete(&id),
                record: Some(record),
            });
        }

        let create = context.caller.with_options(W::create(&client, url, events));
        Ok(Self {
            records,
            left,
            create,
        })
    }

    /// Deletes what is left behind, and creates the webhook.
    pub(super) async fn start(self, context: &Context) -> Result<Session, Failure> {
        const PROGRESS: &str = "creating the webhook";

        for left in self.left {
            ended(context.caller.send(left.delete, PROGRESS).await)?;
            if let Some(record) = left.record {
                record.remove();
            }
        }

        let webhook = context.caller.send(self.create, PROGRESS).await?;
        let id = webhook.named().0.clone();
        Ok(Session {
            record: self.records.add(&id).ok(),
            id,
            secret: webhook.secret().map(|(_, secret)| secret.clone()),
        })
    }
}

impl<W: ServiceWebhook> Preview for NewSession<W> {
    async fn show(&self, context: &Context) -> Result<(), Failure> {
        self.create.show(context).await
    }
}

/// Deletes a webhook. One that does not exist any more is not an error.
async fn delete<W: ServiceWebhook>(context: &Context, id: &str) -> Result<(), Failure> {
    ended(
        context
            .caller
            .perform(W::delete(&W::client(context).await?, id))
            .await,
    )
}

fn ended(deleted: Result<Deleted, Failure>) -> Result<(), Failure> {
    match deleted {
        Err(failure) if failure.kind() != Kind::NotFound => Err(failure),
        _ => Ok(()),
    }
}

/// The records of the sessions at a service.
struct SessionRecords {
    dir: PathBuf,
    service: Service,
    /// The base URL of the service. A sandbox is known by its directory: its port changes.
    place: String,
}

/// The content of a record.
#[derive(Serialize, Deserialize)]
struct Registered {
    id: String,
    service: String,
    place: String,
}

/// The file of a session. It is locked while the session lasts.
struct Record {
    path: PathBuf,
    _locked: File,
}

impl SessionRecords {
    async fn new(context: &Context, service: Service) -> Result<Self, Failure> {
        let settings = &context.settings;
        let place = if !settings.sandbox {
            let url = settings.url(service);
            url.map(|url| url.value.clone()).unwrap_or_default()
        } else if settings.variable("SVC_SANDBOX_URL")?.is_some() {
            context.clients.sandbox().await?.url().to_owned()
        } else {
            let dir = std::path::absolute(&settings.sandbox_dir)?;
            dir.display().to_string()
        };
        Ok(Self {
            dir: settings.state_dir.join("listen"),
            service,
            place,
        })
    }

    /// Records the webhook of a session that begins.
    fn add(&self, id: &str) -> io::Result<Record> {
        let content = serde_json::to_vec(&Registered {
            id: id.to_owned(),
            service: self.service.to_string(),
            place: self.place.clone(),
        })?;
        private_files::create_dir(&self.dir)?;
        let path = self.dir.join(format!("{}.json", Uuid::new_v4().simple()));
        let mut file = private_files::create_new(&path)?;

        // Without a lock, other sessions could not know whether this one still runs.
        let written = file.lock().and_then(|()| file.write_all(&content));
        let record = Record {
            path,
            _locked: file,
        };
        if written.is_err() {
            record.remove();
        }
        written.map(|()| record)
    }

    /// The IDs of the webhooks that sessions have left at this service without an end, each with its
    /// record.
    fn of_killed_sessions(&self) -> Vec<(String, Record)> {
        let mut killed = Vec::new();
        let Ok(files) = fs::read_dir(&self.dir) else {
            return killed;
        };

        for path in files.flatten().map(|file| file.path()) {
            let Ok(mut file) = File::open(&path) else {
                continue;
            };
            if file.try_lock().is_err() {
                continue;
            }
            let mut text = String::new();
            if file.read_to_string(&mut text).is_err() {
                continue;
            }
            // A session that has just begun may not have written its record yet.
            let Ok(webhook) = serde_json::from_str::<Registered>(&text) else {
                continue;
            };
            let is_here = webhook.service == self.service.to_string()
                && is_same_base_url(&webhook.place, &self.place);
            if is_here {
                let record = Record {
                    path,
                    _locked: file,
                };
                killed.push((webhook.id, record));
            }
        }
        killed
    }
}

impl Record {
    /// A file that stays names a webhook that does not exist: the next session tries again.
    fn remove(&self) {
        let _ = fs::remove_file(&self.path);
    }
}
