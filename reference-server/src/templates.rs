//! Templates of emails (`docs/undocumented/services.md#templates`).

#[cfg(feature = "server")]
pub(crate) mod template_api;
#[cfg(feature = "server")]
pub(crate) mod template_rows;
pub(crate) mod template_wire;
