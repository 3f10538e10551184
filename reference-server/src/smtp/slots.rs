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
/// Maximum number of messages processed at the same time, in all and from one address: their
/// connections give way to no client, and the sender's name servers may be slow.
const MAX_MESSAGES: usize = 64;
const MAX_MESSAGES_EACH: usize = 16;
/// How long a connection may wait before it gives way to a client with the same address.
const GRACE: Duration = Duration::from_secs(2);

#[derive(Default)]
pub(super) struct Slots {
    sessions: Mutex<HashMap<u64, Session>>,
    /// Notified whenever a connection or the processing of a message ends.
    ended: Notify,
}

struct Session {
    peer: IpAddr,
    /// When the connection began, or had its last message received.
    progress: Instant,
    /// A message is being processed.
    is_kept: bool,
    /// The connection was told to give way.
    is_leaving: bool,
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
                    let (is_kept, is_leaving) = (false, false);
                    let session = Session { peer, progress, is_kept, is_leaving, give_way: notify };
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
        !session.is_kept && !session.is_leaving && (count > own || count == own && waited >= GRACE)
    });
    let longest =
        candidates.max_by_key(|session| (counts[&session.peer], session.progress.elapsed()));
    if let Some(session) = longest {
        session.is_leaving = true;
        session.give_way.notify_one();
    }
}

impl Slot {
    /// Waits until the connection has to give way.
    pub(super) async fn give_way(&self) {
        self.give_way.notified().await;
    }

    /// Waits until the server can process a message. Returns `false` if the connection has to
    /// give way.
    pub(super) async fn begin_message(&self) -> bool {
        loop {
            let ended = self.slots.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if let Some(may_begin) = self.try_begin_message() {
                return may_begin;
            }
            ended.await;
        }
    }

    /// Returns `None` while there are too many messages.
    fn try_begin_message(&self) -> Option<bool> {
        let mut sessions = lock(&self.slots.sessions);
        let kept = |sessions: &HashMap<u64, Session>, peer: Option<IpAddr>| {
            let is_kept = |session: &&Session| {
                session.is_kept && peer.is_none_or(|peer| peer == session.peer)
            };
            sessions.values().filter(is_kept).count()
        };
        let peer = sessions.get(&self.id)?.peer;
        let is_full = kept(&sessions, None) >= MAX_MESSAGES
            || kept(&sessions, Some(peer)) >= MAX_MESSAGES_EACH;
        let session = sessions.get_mut(&self.id)?;
        if session.is_leaving {
            return Some(false);
        }
        session.is_kept |= !is_full;
        session.is_kept.then_some(true)
    }

    /// Ends the processing of a message, whose reply has been written.
    pub(super) fn end_message(&self) {
        if let Some(session) = lock(&self.slots.sessions).get_mut(&self.id) {
            (session.progress, session.is_kept) = (Instant::now(), false);
        }
        self.slots.ended.notify_waiters();
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        lock(&self.slots.sessions).remove(&self.id);
        self.slots.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use futures_util::FutureExt as _;
    use tokio::io::AsyncReadExt as _;

    use super::super::session::respond;
    use super::*;

    async fn fill(slots: &Arc<Slots>, peer: IpAddr) -> Vec<Slot> {
        let mut held = Vec::new();
        for id in 0..MAX_CONNECTIONS as u64 {
            held.push(slots.acquire(id, peer).await);
        }
        held
    }

    const ONE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));

    #[tokio::test]
    async fn one_address_cannot_keep_all_connections() {
        let slots = Arc::new(Slots::default());
        let held = fill(&slots, ONE).await;
        let begun: Vec<bool> =
            held.iter().map(|slot| slot.begin_message().now_or_never().is_some()).collect();
        assert_eq!(begun.iter().filter(|begun| **begun).count(), MAX_MESSAGES_EACH);

        // A client with another address takes the place of a connection that waits.
        let newcomer = slots.acquire(1000, OTHER);
        tokio::pin!(newcomer);
        assert!(newcomer.as_mut().now_or_never().is_none());
        let left = held.iter().position(|slot| slot.give_way().now_or_never().is_some());
        let left = left.expect("a connection gives way");
        assert!(!begun[left], "whose message is not being processed");
        assert_eq!(held[left].begin_message().now_or_never(), Some(false));
        let mut held = held;
        drop(held.remove(left));
        let newcomer = newcomer.await;
        assert_eq!(newcomer.begin_message().now_or_never(), Some(true));

        // One message ends, another one begins.
        let waiting = held.iter().zip(&begun).position(|(_, begun)| !begun);
        let waiting = held[waiting.expect("one that waits")].begin_message();
        tokio::pin!(waiting);
        assert!(waiting.as_mut().now_or_never().is_none());
        held[0].end_message();
        assert!(waiting.await);
    }

    #[tokio::test]
    async fn a_connection_keeps_its_slot_until_the_client_has_the_reply() {
        let slots = Arc::new(Slots::default());
        let held = fill(&slots, ONE).await;
        // It would be the first to give way: it has made no progress for longest.
        let oldest = &held[0];
        assert!(oldest.begin_message().await);
        let (mut server, mut client) = tokio::io::duplex(8);
        let reply = "250 2.0.0 queued as req_1\r\n";
        {
            let limit = Duration::from_secs(60);
            let reading = respond(&mut server, reply, oldest, true, limit);
            tokio::pin!(reading);
            assert!(reading.as_mut().now_or_never().is_none(), "the client has read nothing");
            let newcomer = slots.acquire(1000, OTHER);
            tokio::pin!(newcomer);
            assert!(newcomer.as_mut().now_or_never().is_none());
            assert!(oldest.give_way().now_or_never().is_none());
            let others = held[1..].iter();
            let told = others.filter(|slot| slot.give_way().now_or_never().is_some()).count();
            assert_eq!(told, 1);
            let mut received = vec![0; reply.len()];
            let (sent, read) = tokio::join!(reading, client.read_exact(&mut received));
            assert!(sent.is_ok() && read.is_ok());
            assert_eq!(received, reply.as_bytes());
        }
        assert!(!lock(&slots.sessions)[&0].is_kept);
    }
}
