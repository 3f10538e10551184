//! Typed client of the email-sending and the document-extraction service.
#![warn(missing_docs)]

mod operation;
mod scope;

pub use operation::{Method, Operation, ScopeRule, Service};
pub use scope::{Scope, UnknownScope};
