//! `/_sandbox/messages`: lists delivered and received messages, shows one, and waits for
//! one to arrive.

pub(crate) mod view;

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::api::framework::ControlCall;
use crate::api::framework::control::find_organization;
use crate::app::Shared;
use crate::control::endpoint::Page;
use crate::control::messages::{Message, MessageFilter, MessageSummary};
use crate::model::error::{ApiError, Code};
use crate::store::Reader;
use crate::store::messages::{self, Search};

/// Lists one page of the matching messages, newest first.
pub(crate) async fn list(
    call: ControlCall<(), MessageFilter>,
) -> Result<Page<MessageSummary>, ApiError> {
    let limit = call.limit;
    let search = Search {
        cursor: call.cursor,
        ..Search::new(&call.query)?
    };
    let found = call
        .data
        .read(move |reader, of| search.find(reader, of, limit + 1));
    Ok(Page::of(found.await?, limit, |last| last.id.clone()))
}

/// How many messages one transaction deletes: others write between two of them.
const DELETED_AT_ONCE: usize = 2_000;

/// Deletes the messages that match when the request arrives. Their emails stay.
pub(crate) async fn delete_all(call: ControlCall<(), MessageFilter>) -> Result<(), ApiError> {
    let search = Search::new(&call.query)?;
    let found = call
        .data
        .read(move |reader, of| search.find(reader, of, usize::MAX));
    let ids: Vec<String> = found.await?.into_iter().map(|message| message.id).collect();

    for some in ids.chunks(DELETED_AT_ONCE) {
        let some = some.to_vec();
        call.data
            .write(move |tx, _, of| messages::delete(tx, of, &some))
            .await?;
    }
    Ok(())
}

/// Returns the newest matching message, or waits for one. Returns 408 after `timeout`, in
/// real time.
pub(crate) async fn wait(call: ControlCall<(), MessageFilter>) -> Result<Message, ApiError> {
    let mut search = Search::new(&call.query)?;
    let (app, timeout) = (&call.input.app, call.wait);
    let deadline = Instant::now() + timeout;
    let stopped = app.stop.requested();
    tokio::pin!(stopped);
    loop {
        // Register before the query, so that no message is missed in between.
        let mut stored = app.store.wake.messages.subscribe();
        // A reset gives the organization another number.
        let named = call.input.query().remove("organization");
        let organization = find_organization(app, named).await?;
        let wanted = search.clone();
        let read = move |reader: Reader<'_>| {
            let newest = messages::newest(reader, organization)?;
            Ok((newest, wanted.find(reader, organization, 1)?.pop()))
        };
        let (newest, found) = app.store.read(read).await?;
        if let Some(found) = found {
            return view::show(app, organization, found.id).await;
        }
        // The next query only needs to look at newer messages.
        search.since = newest.or(search.since);
        tokio::select! {
            arrived = timeout_at(deadline, stored.changed()) => {
                if arrived.is_err() || Instant::now() >= deadline {
                    return Err(none_arrived(app, search, organization, timeout).await?);
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
    mut search: Search,
    organization: i64,
    timeout: Duration,
) -> Result<ApiError, ApiError> {
    let read = move |reader: Reader<'_>| {
        let newest = Search::default().find(reader, organization, SHOWN_INSTEAD + 1)?;
        (search.elsewhere, search.since) = (true, None);
        let found = search.find(reader, organization, 1)?;
        let elsewhere = found
            .first()
            .map(|found| messages::has_it(reader, &found.id));
        Ok((newest, elsewhere.transpose()?.unwrap_or_default()))
    };
    let (newest, elsewhere) = app.store.read(read).await?;
    let shown = newest.iter().take(SHOWN_INSTEAD).map(|message| {
        format!(
            "{:?} to {} at {}",
            message.subject, message.recipient, message.created_at
        )
    });
    let shown = shown.collect::<Vec<_>>().join(", ");
    let instead = match newest.len() {
        0 => "the mailbox is empty".to_owned(),
        1..=SHOWN_INSTEAD => format!("the mailbox has {shown}"),
        _ => format!("the newest messages are {shown}"),
    };
    let text = format!("no matching message arrived within {timeout:?}; {instead}{elsewhere}");
    Ok(ApiError::new(Code::RequestTimeout, text))
}

/// How many messages the error at the end of a wait describes.
const SHOWN_INSTEAD: usize = 5;
