//! HTTP: the accept loop, the routes, who may call, what is read and answered.

pub(crate) mod answer;
pub(crate) mod auth;
pub(crate) mod call;
mod fault;
pub(crate) mod input;
pub(crate) mod listen;
mod object;
mod once;
mod routes;
mod whole;
mod wire;

pub(crate) use answer::Answer;
pub(crate) use call::Call;
pub(crate) use input::Input;
pub(crate) use object::Object;
pub(crate) use once::Once;
pub(crate) use routes::{control, router};
pub(crate) use whole::{LARGEST, whole};
