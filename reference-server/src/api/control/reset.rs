//! `POST /_sandbox/reset`: deletes the data of one organization, or of the whole server.

use std::sync::Arc;

use super::seed;
use crate::api::framework::ControlCall;
use crate::app::engine_handle::Command;
use crate::control::server::Reset;
use crate::model::error::ApiError;
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
        written.await?;

        // The engine aborts the work in progress for deleted data. It alone moves the clock, so that an
        // advance in progress cannot move it again afterwards.
        let command = match organization {
            NO_ORGANIZATION => Command::Restart,
            _ => Command::Reload,
        };
        app.engine.send(command).await.map(drop)
    });
    done.await
        .unwrap_or_else(|error| Err(ApiError::internal(error)))
}
