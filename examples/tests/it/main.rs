//! The examples, each started as its user starts it. The receivers are sent
//! good, forged, repeated and oversized deliveries.
#![expect(clippy::unwrap_used, reason = "a test says what it means by failing")]

mod against_the_server;
mod lambda;
mod program;
mod sending;
mod servers;

use webhook_verify::{ExtractionSigner, Secret};

const SECRET: &str = "whsec_c0ffee";

fn signature(body: &[u8]) -> String {
    ExtractionSigner::new(&Secret::new(SECRET).unwrap()).sign(body).to_string()
}

fn body(id: &str) -> String {
    format!(
        r#"{{"event":"extraction.completed","id":"{id}","data":{{"name":"Ünsal"}},"created":"2026-03-01T09:30:00Z"}}"#
    )
}
