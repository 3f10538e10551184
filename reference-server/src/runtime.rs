//! Bounds, timers and the stop of a server's work.

pub(crate) mod heavy;
pub(crate) mod limit;
pub(crate) mod memory;
pub(crate) mod stop;
