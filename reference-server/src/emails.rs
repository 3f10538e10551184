//! Emails and batches of them, from the request to the last event (`docs/email-service/README.md#emails`).

#[cfg(feature = "server")]
pub(crate) mod email_api;
#[cfg(feature = "server")]
pub(crate) mod email_rows;
#[cfg(feature = "server")]
pub(crate) mod email_rules;
pub(crate) mod email_wire;
