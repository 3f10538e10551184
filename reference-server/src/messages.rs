//! Messages in the mailboxes of this server, one for each recipient.

#[cfg(feature = "server")]
pub(crate) mod message_api;
#[cfg(feature = "server")]
pub(crate) mod message_rows;
#[cfg(feature = "server")]
pub(crate) mod message_rules;
pub(crate) mod message_wire;
