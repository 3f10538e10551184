//! [`Endpoint`]: a request of the control interface. The route of the server and the method of
//! the client are made from the same one, so the compiler compares their types.

use std::marker::PhantomData;

use axum::body::Body;
use bytes::Bytes;
use http::{Method, Response};

use super::response::{Json, NoContent};

/// Method and path, with the types of the bodies of request (`B`) and response (`R`). `()`
/// stands for none, and `Bytes` for a response that is not JSON.
pub(crate) struct Endpoint<B, R> {
    pub(crate) method: Method,
    /// With parameters in braces.
    pub(crate) path: &'static str,
    /// Whether the query parameter `organization` selects one.
    pub(crate) of_organization: bool,
    pub(crate) types: PhantomData<fn(B) -> R>,
}

impl<B, R> Endpoint<B, R> {
    /// A request about the server.
    pub(crate) const fn of_server(method: Method, path: &'static str) -> Self {
        Self { method, path, of_organization: false, types: PhantomData }
    }

    /// A request about one organization.
    pub(crate) const fn of_organization(method: Method, path: &'static str) -> Self {
        Self { method, path, of_organization: true, types: PhantomData }
    }
}

/// A reply whose body is an `R`.
pub(crate) trait Returns<R> {}

impl<T, const STATUS: u16> Returns<T> for Json<T, STATUS> {}

impl Returns<()> for NoContent {}

impl Returns<Bytes> for Response<Body> {}
