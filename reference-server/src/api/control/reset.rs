//! `POST /_sandbox/reset`: deletes the data of one organization, or of the whole server.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::seed;
use super::{named_organization, organization};
use crate::api::app::App;
use crate::api::framework::{Input, NoContent, OptionalBody};
use crate::engine::Command;
use crate::model::error::{ApiError, Code};
use crate::store::Location;

#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Reset")]
pub(crate) struct Reset {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) organization: Option<String>,
}

pub(crate) async fn reset(
    mut input: Input,
    body: OptionalBody<Reset>,
) -> Result<NoContent, ApiError> {
    let reset = body.read(&mut input).await?;
    let name = named_organization(&input, reset.organization)?;
    let app = Arc::clone(&input.app);
    // The reset is completed even if the client disconnects.
    let done = tokio::spawn(async move {
        let _active = app.activity.request();
        let seeded = Arc::clone(&app);
        let written = app.store.write(move |tx| match name {
            Some(name) => {
                let organization = organization(tx.reader(), &seeded.settings, Some(&name))?;
                seed::reset_organization(tx, &seeded, organization)
            }
            None => seed::reset_server(tx, &seeded),
        });
        written.await.map_err(|error| explain_full_disk(&app, error))?;
        // Abort the work in progress for deleted data.
        app.engine.send(Command::Reload).await
    });
    done.await.unwrap_or_else(|error| Err(ApiError::internal(error)))?;
    Ok(NoContent)
}

/// Explains how to recover: on a full disk, even deleting data fails.
fn explain_full_disk(app: &App, error: ApiError) -> ApiError {
    if error.code() != Code::StorageFull {
        return error;
    }
    let message = match &app.settings.location {
        Location::Directory(directory) => format!(
            "the server's disk is full, and a reset needs free space: free some space, or stop \
             the server and delete {}",
            directory.display()
        ),
        Location::Memory => {
            "the database reached its maximum size, and a reset needs free space: restart the \
             server"
                .to_owned()
        }
    };
    ApiError::new(Code::StorageFull, message)
}
