//! Both services on one machine: a local server to build and test against.
#![expect(unused_imports, reason = "the server that follows uses these modules")]
#![cfg_attr(not(test), expect(dead_code, reason = "the server that follows uses these modules"))]

mod address;
mod dkim;
mod dns;
mod links;
mod mime;
mod outbound;
mod template;
