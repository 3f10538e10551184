//! Mail as other servers see it: messages, signatures, DNS, and SMTP out.

pub(crate) mod authentication;
pub(crate) mod codes;
pub(crate) mod dkim;
pub(crate) mod dns;
pub(crate) mod header;
mod html;
pub(crate) mod html_check;
pub(crate) mod inline_images;
pub(crate) mod links;
pub(crate) mod mime;
pub(crate) mod preview;
pub(crate) mod relay;
pub(crate) mod template;
pub(crate) mod tracking;
