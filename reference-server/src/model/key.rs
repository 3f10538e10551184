//! [`Key`]: what an API key may do.

use svc_sdk::{Scope, Service};

/// An API key without its secret.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) id: String,
    pub(crate) organization: i64,
    pub(crate) service: Service,
    pub(crate) scopes: Vec<Scope>,
}
