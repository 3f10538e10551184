//! Runs each example program. The receivers get valid, forged, repeated and oversized
//! deliveries.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod against_the_server;
mod certify;
mod program;
mod sending;
mod servers;

use webhook_verify::chrono::Utc;
use webhook_verify::{Secret, Service, Signature};

const SECRET: &str = "whsec_c0ffee";

fn signature(body: &[u8]) -> String {
    Signature::sign(Service::Extraction, &Secret::new(SECRET).unwrap(), body).to_string()
}

fn body(id: &str) -> String {
    let created = Utc::now().to_rfc3339();
    format!(
        r#"{{"event":"extraction.completed","id":"{id}","data":{{"name":"Ünsal"}},"created":"{created}"}}"#
    )
}
