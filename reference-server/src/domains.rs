//! Sending domains, their verification, and their records in the built-in zone
//! (`docs/email-service/contacts-and-domains.md#sending-domains`).

#[cfg(feature = "server")]
pub(crate) mod domain_api;
#[cfg(feature = "server")]
pub(crate) mod domain_rows;
#[cfg(feature = "server")]
pub(crate) mod domain_rules;
pub(crate) mod domain_wire;
