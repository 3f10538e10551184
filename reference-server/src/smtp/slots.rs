//! The connections in progress. When all slots are taken, the connection that has made no
//! progress for longest gives way to a new client, so that no client can hold them all.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::store::lock;

/// Maximum number of concurrent connections.
const MAX_CONNECTIONS: usize = 100;
/// How long a connection may wait before it gives way to a client with the same address.
const GRACE: Duration = Duration::from_secs(2);

#[derive(Default)]
pub(super) struct Slots {
    sessions: Mutex<HashMap<u64, Session>>,
    /// Notified whenever a connection ends.
    ended: Notify,
}

struct Session {
    peer: IpAddr,
    /// When the connection began, or had its last message received.
    progress: Instant,
    /// A message is being processed, or the connection was told to give way.
    is_kept: bool,
    give_way: Arc<Notify>,
}

/// The place of one connection until it is dropped.
pub(super) struct Slot {
    slots: Arc<Slots>,
    id: u64,
    give_way: Arc<Notify>,
}

impl Slots {
    /// Waits until there is a slot for a client with this address.
    pub(super) async fn acquire(self: &Arc<Self>, id: u64, peer: IpAddr) -> Slot {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            {
                let mut sessions = lock(&self.sessions);
                if sessions.len() < MAX_CONNECTIONS {
                    let give_way = Arc::new(Notify::new());
                    let (progress, notify) = (Instant::now(), Arc::clone(&give_way));
                    let session = Session { peer, progress, is_kept: false, give_way: notify };
                    sessions.insert(id, session);
                    return Slot { slots: Arc::clone(self), id, give_way };
                }
                displace(&mut sessions, peer);
            }
            // A connection with the same address may have to give way later.
            let _ = tokio::time::timeout(GRACE / 4, ended).await;
        }
    }
}

/// Tells a connection to give way: of those whose address has the most, the one without
/// progress for longest. An address with more connections than the new client's has no grace,
/// and one with fewer keeps them.
fn displace(sessions: &mut HashMap<u64, Session>, newcomer: IpAddr) {
    let mut counts: HashMap<IpAddr, usize> = HashMap::new();
    for session in sessions.values() {
        *counts.entry(session.peer).or_default() += 1;
    }
    let own = counts.get(&newcomer).copied().unwrap_or(0);
    let candidates = sessions.values_mut().filter(|session| {
        let (count, waited) = (counts[&session.peer], session.progress.elapsed());
        !session.is_kept && (count > own || count == own && waited >= GRACE)
    });
    let longest =
        candidates.max_by_key(|session| (counts[&session.peer], session.progress.elapsed()));
    if let Some(session) = longest {
        session.is_kept = true;
        session.give_way.notify_one();
    }
}

impl Slot {
    /// Waits until the connection has to give way.
    pub(super) async fn give_way(&self) {
        self.give_way.notified().await;
    }

    /// Begins to process a message, unless the connection has to give way.
    pub(super) fn begin_message(&self) -> bool {
        let mut sessions = lock(&self.slots.sessions);
        let session = sessions.get_mut(&self.id);
        session.is_some_and(|session| !std::mem::replace(&mut session.is_kept, true))
    }

    /// Ends the processing of a message, whose reply has been written.
    pub(super) fn end_message(&self) {
        if let Some(session) = lock(&self.slots.sessions).get_mut(&self.id) {
            (session.progress, session.is_kept) = (Instant::now(), false);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        lock(&self.slots.sessions).remove(&self.id);
        self.slots.ended.notify_waiters();
    }
}
