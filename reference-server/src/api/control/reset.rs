//! `POST /_sandbox/reset`: deletes the data of one organization, or of the whole server.

use std::sync::Arc;

use super::seed;
use crate::api::framework::ControlCall;
use crate::app::App;
use crate::app::engine_handle::Command;
use crate::control::server::Reset;
use crate::model::error::{ApiError, Code};
use crate::store::NO_ORGANIZATION;

pub(crate) async fn reset(call: ControlCall<Reset>) -> Result<(), ApiError> {
    let (organization, app) = (call.data.organization, Arc::clone(&call.data.app));
    // The reset is completed even if the client disconnects.
    let done = tokio::spawn(async move {
        let _active = app.activity.request();
        let seeded = Arc::clone(&app);
        let written = app.store.write(move |tx| match organization {
            NO_ORGANIZATION => seed::reset_server(tx, &seeded),
            organization => seed::reset_organization(tx, &seeded, organization),
        });
        written.await.map_err(|error| explain_full_disk(&app, error))?;
        // Abort the work in progress for deleted data.
        app.engine.send(Command::Reload).await.map(drop)
    });
    done.await.unwrap_or_else(|error| Err(ApiError::internal(error)))
}

/// Explains how to recover: on a full disk, even deleting data fails.
fn explain_full_disk(app: &App, error: ApiError) -> ApiError {
    if error.code() != Code::StorageFull {
        return error;
    }
    let message = match &app.settings.data_dir {
        Some(directory) => format!(
            "the server's disk is full, and a reset needs free space: free some space, or stop \
             the server and delete {}",
            directory.display()
        ),
        None => "the database reached its maximum size, and a reset needs free space: restart the \
             server"
            .to_owned(),
    };
    ApiError::new(Code::StorageFull, message)
}
