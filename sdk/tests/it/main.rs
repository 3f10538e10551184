//! The client against peers that answer what the documents say.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[expect(dead_code, reason = "more of the wire tests come")]
mod peer;
mod smoke;
