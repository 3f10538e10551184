//! Audiences: lists of contacts (`docs/email-service/contacts-and-domains.md`).

#[cfg(feature = "server")]
pub(crate) mod audience_api;
#[cfg(feature = "server")]
pub(crate) mod audience_rows;
pub(crate) mod audience_wire;
