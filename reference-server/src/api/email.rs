//! The email service (`docs/email-service/README.md`): one file for each resource.

pub(crate) mod audiences;
pub(crate) mod batch;
pub(crate) mod contacts;
pub(crate) mod domains;
pub(crate) mod emails;
pub(crate) mod pages;
pub(crate) mod request;
pub(crate) mod webhooks;
