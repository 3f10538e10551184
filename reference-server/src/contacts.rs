//! Contacts of an audience (`docs/email-service/contacts-and-domains.md#contacts`).

#[cfg(feature = "server")]
pub(crate) mod contact_api;
#[cfg(feature = "server")]
pub(crate) mod contact_rows;
pub(crate) mod contact_wire;
