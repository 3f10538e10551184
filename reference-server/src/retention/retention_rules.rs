//! Deletes what is beyond `--keep` and `--keep-for`, in the background and in small steps.

use std::time::Duration;

use crate::app::Shared;
use crate::model::Result;
use crate::retention::retention_rows;
use crate::settings::Keep;

/// How often it looks, in real time.
const INTERVAL: Duration = Duration::from_secs(1);

/// Runs until the server stops, if anything is limited.
pub(crate) async fn run(app: Shared) {
    let keep = app.settings.limits.keep;
    if keep == Keep::default() {
        return;
    }

    let stopped = app.stop.requested();
    tokio::pin!(stopped);
    loop {
        tokio::select! {
            () = &mut stopped => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
        if let Err(error) = delete_all(&app, keep).await {
            tracing::warn!(message = error.message(), "old data was not deleted");
        }
    }
}

async fn delete_all(app: &Shared, keep: Keep) -> Result<()> {
    for organization in app.store.read(retention_rows::organizations).await? {
        // Other writes run between two steps.
        while !app.stop.is_requested()
            && app
                .store
                .write_relaxed(move |tx| retention_rows::delete_some(tx, organization, keep))
                .await?
        {}
    }
    Ok(())
}
