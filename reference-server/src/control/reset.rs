//! `POST /_sandbox/reset`: empties an organization, or all of the server.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Reply, no_content, organization, organization_of_query};
use crate::app::App;
use crate::error::{ApiError, Code};
use crate::seed;
use crate::store::Location;
use crate::web::Input;

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "Reset")]
pub(crate) struct Reset {
    organization: Option<String>,
}

pub(super) async fn reset(mut input: Input) -> Reply {
    let reset: Reset = input.optional_object().await?;
    let named = reset.organization.or_else(|| organization_of_query(&input));
    let app = Arc::clone(&input.app);
    let emptied = input.app.store.write(move |tx| match named {
        Some(named) => {
            let organization = organization(tx.connection(), &app.settings, Some(&named))?;
            seed::empty(tx, &app, organization)
        }
        None => seed::reset(tx, &app),
    });
    emptied.await.map_err(|error| way_out(&input.app, error))?;
    // What was in flight for what is gone now ends here.
    input.app.engine.reload().await?;
    no_content()
}

/// To empty a database takes room, too.
fn way_out(app: &App, error: ApiError) -> ApiError {
    if error.code() != Code::StorageFull {
        return error;
    }
    let message = match &app.settings.location {
        Location::Directory(directory) => format!(
            "the server's disk is full, and a reset needs some room: free a part of the disk, \
             or stop the server and delete {}",
            directory.display()
        ),
        Location::Memory => {
            "the database is as large as it may be, and a reset needs some room: restart the server"
                .to_owned()
        }
    };
    ApiError::new(Code::StorageFull, message)
}
