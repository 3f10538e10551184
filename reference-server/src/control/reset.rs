//! `POST /_sandbox/reset`: empties an organization, or all of the server.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Reply, no_content, organization, organization_of_query};
use crate::seed;
use crate::web::Input;

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "Reset")]
pub(crate) struct Reset {
    organization: Option<String>,
}

pub(super) async fn reset(mut input: Input) -> Reply {
    let reset: Reset = input.optional_object().await?;
    let app = Arc::clone(&input.app);
    if let Some(named) = reset.organization.or_else(|| organization_of_query(&input)) {
        input
            .app
            .store
            .write(move |tx| {
                let organization = organization(tx.connection(), &app.settings, Some(&named))?;
                seed::empty(tx, &app, organization)
            })
            .await?;
    } else {
        input.app.store.write(move |tx| seed::reset(tx, &app)).await?;
    }
    // What was in flight for what is gone now ends here.
    input.app.engine.forget().await?;
    no_content()
}
