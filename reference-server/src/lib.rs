//! Both services on one machine: a local server to build and test against.
#![cfg_attr(
    not(test),
    expect(dead_code, unused_imports, reason = "the server that follows uses these modules")
)]

mod address;
mod dkim;
