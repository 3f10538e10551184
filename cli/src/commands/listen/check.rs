//! Verifies deliveries. The reason of a failure is shown on the terminal, never to the sender.

use hyper::header::HeaderMap;
use svc_sdk::Service;
use webhook_verify::{Rejection, Signature, Verifier};

use crate::diagnose::diagnose;
use crate::failure::Failure;
use crate::signing::{scheme, usable};

pub(super) struct Check {
    service: webhook_verify::Service,
    verifier: Verifier,
    /// The bytes of the file, to explain a mismatch.
    secret: Vec<u8>,
}

impl Check {
    pub(super) fn new(service: Service, secret: Vec<u8>) -> Result<Self, Failure> {
        let service = scheme(service);
        let verifier = Verifier::with_secrets(service, [usable("--secret-file", &secret)?])
            .map_err(|error| Failure::input(error.to_string()))?;
        Ok(Self { service, verifier, secret })
    }

    /// Checks the headers before the body is read.
    pub(super) fn admits(&self, headers: &HeaderMap) -> Result<(), String> {
        let signature = self.signature(headers).map_err(|error| error.to_string())?;
        match signature.service() {
            service if service == self.service => Ok(()),
            other => {
                Err(format!("the delivery is signed by the {other} service: use --service {other}"))
            }
        }
    }

    /// Verifies the signature of the body.
    pub(super) fn verify(&self, headers: &HeaderMap, body: &[u8]) -> Result<(), String> {
        let verified = self
            .signature(headers)
            .and_then(|signature| self.verifier.verify_bytes(&signature, body));
        let Err(error) = verified else { return Ok(()) };
        let header = headers.get(self.service.signature_header());
        let header = header.map_or(&b""[..], |value| value.as_bytes());
        let mistakes = diagnose(self.service, header, body, &self.secret);
        let advice = mistakes.iter().map(|mistake| mistake.advice).collect::<Vec<_>>();
        Err(match advice.is_empty() {
            true => format!("{error}: another secret was used, or the body was changed in transit"),
            false => format!("{error}: {}", advice.join("; ")),
        })
    }

    fn signature(&self, headers: &HeaderMap) -> Result<Signature, Rejection> {
        Signature::from_headers(
            headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())),
        )
    }
}
