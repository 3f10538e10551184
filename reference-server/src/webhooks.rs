//! Webhooks of both services (`docs/email-service/webhooks.md`).

#[cfg(feature = "server")]
pub(crate) mod webhook_api;
#[cfg(feature = "server")]
pub(crate) mod webhook_rows;
#[cfg(feature = "server")]
pub(crate) mod webhook_rules;
pub(crate) mod webhook_wire;
