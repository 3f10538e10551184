//! `/_sandbox/events`: whatever changes, as it changes, as server-sent events.
//! `/_sandbox/events/wait` returns the same notifications as JSON.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::IntoResponse as _;
use axum::response::sse::{Event, Sse};
use futures_util::stream;
use http::Response;
use tokio::time::timeout;

use crate::app::Shared;
use crate::http::{ControlCall, Input};
use crate::model::{Code, Failure, Result};
use crate::notifications::notification_wire::{Notification, NotificationPage, StartQuery};
use crate::organizations::organization_rows;
use crate::store::notifications::{MAX_WATCHERS, Published, Watch};

/// How long a stream is silent at most.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Maximum number of notifications in a response.
const MAX_TAKEN: usize = 100;

/// Returns a stream of the notifications of an organization.
pub(crate) async fn stream(call: ControlCall<(), StartQuery>) -> Result<Response<Body>> {
    let after = call
        .input
        .header("last-event-id")
        .map(str::to_owned)
        .or(call.query.after);
    let source = Source::open(&call.input, after).await?;
    let events = stream::unfold(
        (source, VecDeque::new()),
        |(mut source, mut taken)| async move {
            if taken.is_empty() {
                match timeout(HEARTBEAT, source.next()).await {
                    Ok(next) => taken = next?,
                    // With the position, because what other organizations do moves it.
                    Err(_) => {
                        let silence = Event::default().comment("").id(source.watch.id());
                        return Some((Ok::<_, Infallible>(silence), (source, taken)));
                    }
                }
            }
            let (id, published) = taken.pop_front()?;
            let event = Event::default()
                .id(id)
                .event(published.kind)
                .data(&published.json);
            Some((Ok(event), (source, taken)))
        },
    );
    Ok(Sse::new(events).into_response())
}

/// Returns the notifications after a position, or waits for one.
pub(crate) async fn wait(call: ControlCall<(), StartQuery>) -> Result<NotificationPage> {
    let mut source = Source::open(&call.input, call.query.after).await?;
    let taken = match timeout(call.wait, source.next()).await {
        Err(_) => VecDeque::new(),
        Ok(Some(taken)) => taken,
        Ok(None) => return Err(Failure::new(Code::Unavailable, "the server is stopping")),
    };
    let next = taken
        .back()
        .map_or_else(|| source.watch.id(), |(id, _)| id.clone());
    let data = taken
        .iter()
        .map(|(_, published)| serde_json::from_str(&published.json));
    let data = data.collect::<Result<_, _>>().map_err(Failure::internal)?;
    Ok(NotificationPage { data, next })
}

/// The notifications of one organization for one client.
struct Source {
    app: Shared,
    watch: Watch,
    organization: i64,
    is_new: bool,
    is_over: bool,
}

/// Notifications, each with its ID.
type Taken = VecDeque<(String, Arc<Published>)>;

impl Source {
    async fn open(call: &Input, after: Option<String>) -> Result<Self> {
        let app = Arc::clone(&call.app);
        let organization = call.organization;
        let after = after.filter(|id| !id.is_empty());
        let watch = app
            .store
            .wake
            .notifications
            .watch(after.as_deref())
            .ok_or_else(|| {
                let message = format!("{MAX_WATCHERS} clients watch the events, which is the most");
                Failure::new(Code::Unavailable, message).retry_after(1)
            })?;
        // A reset before the watch began has given it another number.
        call.read(organization_rows::get).await?;
        Ok(Self {
            app,
            watch,
            organization,
            is_new: after.is_none(),
            is_over: false,
        })
    }

    /// Waits for notifications. Returns `None` after a reset, which gives the organization another
    /// number, and when the server stops.
    async fn next(&mut self) -> Option<Taken> {
        let stop = Arc::clone(&self.app.stop);
        while !self.is_over && !stop.is_requested() {
            let taken = self.take();
            if !taken.is_empty() {
                return Some(taken);
            }
            tokio::select! {
                () = self.watch.changed() => {}
                () = stop.requested() => {}
            }
        }
        None
    }

    /// Takes the notifications that are there, up to a reset.
    fn take(&mut self) -> Taken {
        let mut all = Taken::new();
        if std::mem::take(&mut self.is_new) {
            all.extend(self.own(&Notification::Ready {
                now: self.app.clock.now().into(),
            }));
        }

        let taken = self.watch.take(self.organization, MAX_TAKEN);
        if let Some(reason) = self.watch.take_missed() {
            all.extend(self.own(&Notification::Reset { reason }));
        }
        for (id, published) in taken {
            self.is_over = published.is_last;
            all.push_back((id, published));
            if self.is_over {
                break;
            }
        }

        all
    }

    /// A notification about the stream itself.
    fn own(&self, notification: &Notification) -> Option<(String, Arc<Published>)> {
        Some((self.watch.id(), Published::of(None, notification)?))
    }
}
