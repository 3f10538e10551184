//! Typed client of the email-sending and the document-extraction service.
#![warn(missing_docs)]
#![cfg_attr(
    not(feature = "client"),
    expect(dead_code, reason = "what reads the services' answers is used by the client alone")
)]

mod answer;
#[cfg(feature = "client")]
mod client;
pub mod email;
mod error;
pub mod extraction;
mod operation;
mod scope;
mod scopes;
mod secret;

pub use answer::{Extra, List};
#[cfg(feature = "client")]
pub use client::{
    Attempt, Call, Deleted, EmailClient, EmailClientBuilder, ExtractionClient,
    ExtractionClientBuilder, RawAnswer, RequestPreview, Response, Wait,
};
#[cfg(feature = "tower")]
pub use client::{AttemptService, Body};
pub use error::{Error, ErrorKind, FieldProblem, InvalidInput, Outcome};
pub use operation::{Method, Operation, ScopeRule, Service};
pub use scope::{Scope, UnknownScope};
pub use scopes::Scopes;
pub use secret::Secret;
