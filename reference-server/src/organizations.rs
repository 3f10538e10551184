//! Organizations: each has its own data.

#[cfg(feature = "server")]
pub(crate) mod organization_api;
#[cfg(feature = "server")]
pub(crate) mod organization_rows;
pub(crate) mod organization_wire;
