//! The extraction service (`extraction-service.md`).

pub(crate) mod me;
pub(crate) mod webhooks;
