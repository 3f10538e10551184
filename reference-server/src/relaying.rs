//! Hands mail over to the relay.

pub(crate) mod relaying_rules;
