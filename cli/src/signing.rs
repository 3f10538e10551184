//! Signatures of deliveries, as both services write them.

use svc_sdk::Service;
use webhook_verify::{Secret, Signature};

/// The service in the terms of the verification.
pub fn scheme(service: Service) -> webhook_verify::Service {
    match service {
        Service::Email => webhook_verify::Service::Email,
        _ => webhook_verify::Service::Extraction,
    }
}

/// The name and the value of the signature header of a body.
pub fn sign(service: Service, secret: &Secret, body: &[u8]) -> (&'static str, String) {
    let scheme = scheme(service);
    (scheme.signature_header(), Signature::sign(scheme, secret, body).to_string())
}
