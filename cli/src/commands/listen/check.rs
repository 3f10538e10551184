//! Verifies deliveries. The reason of a failure is shown on the terminal, never to the sender.

use hyper::header::HeaderMap;
use svc_sdk::Service;
use webhook_verify::diagnose::{Case, Diagnosis};
use webhook_verify::{Extraction, Mail, Scheme, Secret, Signature, Verifier, VerifyError};

pub(super) enum Check {
    Mail(Signed<Mail>),
    Extraction(Signed<Extraction>),
    /// `--insecure`
    Nothing,
}

pub(super) struct Signed<S: Scheme> {
    verifier: Verifier<S>,
    /// The bytes of the file, to explain a mismatch.
    secret: Vec<u8>,
}

impl Check {
    pub(super) fn new(service: Service, usable: Secret, secret: &[u8]) -> Self {
        let secret = secret.to_vec();
        match service {
            Service::Email => Self::Mail(Signed { verifier: Verifier::new(usable), secret }),
            _ => Self::Extraction(Signed { verifier: Verifier::new(usable), secret }),
        }
    }

    pub(super) fn verifies(&self) -> bool {
        !matches!(self, Self::Nothing)
    }

    /// Checks the headers before the body is read.
    pub(super) fn admits(&self, headers: &HeaderMap) -> Result<(), String> {
        match self {
            Self::Mail(_) => admits::<Mail, Extraction>(headers, "extraction"),
            Self::Extraction(_) => admits::<Extraction, Mail>(headers, "email"),
            Self::Nothing => Ok(()),
        }
    }

    /// Verifies the signature of the body.
    pub(super) fn verify(&self, headers: &HeaderMap, body: &[u8]) -> Result<(), String> {
        match self {
            Self::Mail(signed) => signed.verify(headers, body),
            Self::Extraction(signed) => signed.verify(headers, body),
            Self::Nothing => Ok(()),
        }
    }
}

impl<S: Scheme> Signed<S> {
    fn verify(&self, headers: &HeaderMap, body: &[u8]) -> Result<(), String> {
        let verified = signature::<S>(headers)
            .and_then(|signature| self.verifier.verify_signature(&signature, body));
        let Err(error) = verified else { return Ok(()) };
        let header = headers.get(S::SIGNATURE_HEADER).map_or(&b""[..], |value| value.as_bytes());
        let why = match Case::<S>::new(header, body, &*self.secret).diagnose() {
            Diagnosis::Explained(mistakes) => {
                mistakes.iter().map(|mistake| mistake.advice()).collect::<Vec<_>>().join("; ")
            }
            _ => "another secret was used, or the body was changed in transit".to_owned(),
        };
        Err(format!("{error}: {why}"))
    }
}

/// `O` is the scheme of the other service and `other` its name.
fn admits<S: Scheme, O: Scheme>(headers: &HeaderMap, other: &str) -> Result<(), String> {
    signature::<S>(headers).map(drop).map_err(|error| {
        if error == VerifyError::MissingSignature && headers.contains_key(O::SIGNATURE_HEADER) {
            return format!("the delivery is signed by the {other} service: use --service {other}");
        }
        error.to_string()
    })
}

fn signature<S: Scheme>(headers: &HeaderMap) -> Result<Signature<S>, VerifyError> {
    Signature::from_header_values(headers.get_all(S::SIGNATURE_HEADER))
}
