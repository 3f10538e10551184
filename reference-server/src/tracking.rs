//! Open and click tracking.

pub(crate) mod tracking_api;
