//! `/_sandbox/messages`: what the mail engine delivered, newest first, and
//! waiting for what is still to come.

mod search;
mod view;

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tokio::time::{Instant, timeout_at};

use super::{Page, Reply, json as reply};
use crate::error::{ApiError, Code};
use crate::time;
use crate::web::Input;
use search::Search;
pub(crate) use search::Summary;
pub(crate) use view::{Links, View};
pub(super) use view::{get, html, links, raw};

/// A page of what matches; `next` is the cursor of the page after it.
pub(super) async fn list(input: Input) -> Reply {
    let search = Search::of(&input)?;
    let app = Arc::clone(&input.app);
    let page = input.app.store.read(move |connection| {
        let organization = search.organization(connection, &app.settings)?;
        search.run(connection, organization, search.limit + 1)
    });
    let mut found = page.await?;
    let limit = Search::of(&input)?.limit;
    let more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| more).map(|last| last.id.clone());
    reply(StatusCode::OK, &Page { data: found, next })
}

/// The first match, at once or when it comes; 408 after `timeout`, in real time.
pub(super) async fn wait(input: Input) -> Reply {
    let mut search = Search::of(&input)?;
    let limit = match input.query().get("timeout") {
        None => DEFAULT_WAIT,
        Some(text) => match time::parse_duration(text) {
            Some(ms) if ms <= LONGEST_WAIT.as_millis() as i64 => {
                Duration::from_millis(ms.unsigned_abs())
            }
            _ => {
                let message = "must be a duration of at most 10 minutes, such as 30s";
                return Err(ApiError::field("timeout", message));
            }
        },
    };
    let end = Instant::now() + limit;
    let stopped = input.app.stopped();
    tokio::pin!(stopped);
    loop {
        let arrived = input.app.store.wake.messages.notified();
        tokio::pin!(arrived);
        // Listening begins before looking, so that nothing slips through in between.
        arrived.as_mut().enable();
        let (app, looking) = (Arc::clone(&input.app), search.clone());
        let (found, newest) = input
            .app
            .store
            .read(move |connection| {
                let organization = looking.organization(connection, &app.settings)?;
                let found = looking.run(connection, organization, 1)?.into_iter().next();
                let found = found.map(|found| (organization, found.id));
                Ok((found, search::newest(connection, organization)?))
            })
            .await?;
        if let Some((organization, id)) = found {
            return view::show(&input.app, organization, id).await;
        }
        // What was looked at once need not be looked at again.
        search.since = newest.or(search.since);
        tokio::select! {
            arrived = timeout_at(end, arrived) => {
                if arrived.is_err() {
                    let message = "no message that matches has come in this time";
                    return Err(ApiError::new(Code::RequestTimeout, message));
                }
            }
            () = &mut stopped => {
                return Err(ApiError::new(Code::Unavailable, "the server is stopping"));
            }
        }
    }
}

const DEFAULT_WAIT: Duration = Duration::from_secs(30);
const LONGEST_WAIT: Duration = Duration::from_secs(600);
