//! `/_sandbox/messages`: lists delivered and received messages, shows one, and waits for
//! one to arrive.

mod search;
mod view;

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::Page;
use crate::api::app::Shared;
use crate::api::framework::{Input, Json};
use crate::model::error::{ApiError, Code};
use crate::model::time;
use crate::store::NO_ORGANIZATION;
pub use crate::store::messages::{Direction, MessageSummary};
use search::{Found, Search};
pub use view::{Message, MessageAttachment, MessageLinks};
pub(crate) use view::{attachment, get, html, links, raw};

/// Lists one page of the matching messages, newest first.
pub(crate) async fn list(input: Input) -> Result<Json<Page<MessageSummary>>, ApiError> {
    let search = Search::from_query(&input)?;
    let limit = search.limit;
    let found = search.run(&input.app, limit + 1).await?.messages;
    Json::of(&Page::of(found, limit, |last| last.id.clone()))
}

/// Returns the newest matching message, or waits for one. Returns 408 after `timeout`, in
/// real time.
pub(crate) async fn wait(input: Input) -> Result<Json<Message>, ApiError> {
    let mut search = Search::from_query(&input)?;
    let timeout = match input.query().get("timeout") {
        None => DEFAULT_TIMEOUT,
        Some(text) => match time::parse_duration(text) {
            Some(ms) if ms <= MAX_TIMEOUT.as_millis() as i64 => {
                Duration::from_millis(ms.unsigned_abs())
            }
            _ => {
                let message = "must be a duration of at most 10 minutes, such as 30s";
                return Err(ApiError::field("timeout", message));
            }
        },
    };
    let deadline = Instant::now() + timeout;
    let stopped = input.app.stop.requested();
    tokio::pin!(stopped);
    loop {
        // Register before the query, so that no message is missed in between.
        let mut stored = input.app.store.wake.messages.subscribe();
        let Found { organization, newest, messages } = search.run(&input.app, 1).await?;
        if let Some(found) = messages.into_iter().next() {
            return view::show(&input.app, organization, found.id).await;
        }
        // The next query only needs to look at newer messages.
        search.since = newest.or(search.since);
        let current = &search;
        let arrived = async {
            loop {
                let is_wanted = |(owner, recipient): &(i64, String)| {
                    *owner == NO_ORGANIZATION
                        || *owner == organization && current.may_match(recipient)
                };
                match stored.recv().await {
                    Ok(messages) if !messages.iter().any(is_wanted) => {}
                    // Some were missed, or one may match.
                    _ => break,
                }
            }
        };
        tokio::select! {
            arrived = timeout_at(deadline, arrived) => {
                if arrived.is_err() {
                    return Err(none_arrived(&input.app, organization, timeout).await?);
                }
            }
            () = &mut stopped => {
                return Err(ApiError::new(Code::Unavailable, "the server is stopping"));
            }
        }
    }
}

/// The error at the end of a wait, which says what is in the mailbox instead.
async fn none_arrived(
    app: &Shared,
    organization: i64,
    timeout: Duration,
) -> Result<ApiError, ApiError> {
    let newest = app
        .store
        .read(move |reader| Search::default().find(reader, organization, SHOWN_INSTEAD + 1));
    let newest = newest.await?;
    let shown = newest.iter().take(SHOWN_INSTEAD).map(|message| {
        format!("{:?} to {} at {}", message.subject, message.recipient, message.created_at)
    });
    let shown = shown.collect::<Vec<_>>().join(", ");
    let instead = match newest.len() {
        0 => "the mailbox is empty".to_owned(),
        1..=SHOWN_INSTEAD => format!("the mailbox has {shown}"),
        _ => format!("the newest messages are {shown}"),
    };
    let text = format!("no matching message arrived within {timeout:?}; {instead}");
    Ok(ApiError::new(Code::RequestTimeout, text))
}

/// How many messages the error at the end of a wait describes.
const SHOWN_INSTEAD: usize = 5;

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_TIMEOUT: Duration = Duration::from_secs(600);
