//! Faults, which affect the next matching requests (`docs/control-interface.md#faults`).

#[cfg(feature = "server")]
pub(crate) mod fault_api;
#[cfg(feature = "server")]
pub(crate) mod fault_rows;
#[cfg(feature = "server")]
pub(crate) mod fault_rules;
pub(crate) mod fault_wire;
