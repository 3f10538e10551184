//! Runs each example program. The receivers get valid, forged, repeated and oversized
//! deliveries.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod against_the_server;
mod certify;
mod lambda;
mod memory;
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
