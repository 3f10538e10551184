//! Simulated extractions (`docs/undocumented/services.md#operations-not-covered`).

#[cfg(feature = "server")]
pub(crate) mod extraction_api;
pub(crate) mod extraction_wire;
