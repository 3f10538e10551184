//! The HTTP server: accept loop, routes, authentication, request bodies and responses.

pub(crate) mod auth;
pub(crate) mod call;
pub(crate) mod control;
pub(crate) mod error;
mod idempotency;
pub(crate) mod input;
mod lingering;
pub(crate) mod listen;
pub(crate) mod openapi;
pub(crate) mod page;
pub(crate) mod request_log;
pub(crate) mod response;
pub(crate) mod route;
pub(crate) mod rows;
pub(crate) mod speak;
mod unknown;
pub(crate) mod written;

pub(crate) use call::Call;
pub(crate) use control::ControlCall;
pub(crate) use error::ApiError;
pub(crate) use idempotency::IdempotencyKey;
pub(crate) use input::Input;
pub(crate) use response::Reply;
