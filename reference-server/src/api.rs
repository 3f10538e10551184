//! The HTTP interfaces: both services, the control interface, and its page.

pub(crate) mod control;
pub(crate) mod email;
pub(crate) mod extraction;
pub(crate) mod framework;
pub(crate) mod openapi;
pub(crate) mod page;
pub(crate) mod tracking;
pub(crate) mod webhooks;
