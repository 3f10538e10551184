//! The extraction service (`docs/extraction-service/README.md`).

pub(crate) mod me;
pub(crate) mod webhooks;
