//! The server over raw HTTP: what stands on the wire, typed by hand from the
//! documents.

#![expect(dead_code, reason = "wire tests that use these follow")]

mod audiences;
mod emails;
mod harness;
mod raw;
