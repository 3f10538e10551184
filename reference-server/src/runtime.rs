//! What bounds, times and stops the work of a server.

pub(crate) mod heavy;
pub(crate) mod limit;
pub(crate) mod memory;
pub(crate) mod stop;
