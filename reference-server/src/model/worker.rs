//! [`Worker`]: who does the work that a transaction leaves for later.

/// A worker that delivers outside of transactions. Each has a schedule of its own, so that
/// none delays another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Worker {
    /// Delivers to the webhook with this ID.
    Webhook(String),
    /// Hands mail over to the relay.
    Relay,
    /// Announces mail that stays on this server.
    Local,
    /// Writes the deliveries of events that are for many webhooks.
    Events,
    /// Removes the rows of what was deleted.
    Deleted,
}
