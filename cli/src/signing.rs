//! Signatures of deliveries, as both services write them, and the secrets that make them.

use std::path::{Path, PathBuf};

use hmac::{Hmac, KeyInit as _, Mac as _};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};
use sha2::Sha256;
use svc_sdk::Service;
use uuid::Uuid;
use webhook_verify::{Secret, Signature};

use crate::context::Context;
use crate::failure::Failure;
use crate::private_files;

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
    (
        scheme.signature_header(),
        Signature::sign(scheme, secret, body).to_string(),
    )
}

/// HMAC-SHA256, also with keys that are not usable as secrets.
pub fn tag(key: &[u8], body: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC accepts keys of any length");
    mac.update(body);
    mac.finalize().into_bytes().into()
}

/// Reads the secret of an option. A line break at the end of the file is not part of the secret.
pub fn read_secret(context: &Context, option: &str, path: &Path) -> Result<Vec<u8>, Failure> {
    let secret = context.bytes(option, path)?;
    match serde_json::from_slice::<Map<String, Value>>(&secret) {
        Ok(_) => Err(
            Failure::input(format!("{option}: the file holds JSON, not a bare secret"))
                .hint("write the secret alone, as svc listen --print-secret prints it"),
        ),
        Err(_) => Ok(without_line_end(secret)),
    }
}

/// Checks the secret of an option; an empty one is not usable, for example.
pub fn usable(option: &str, secret: &[u8]) -> Result<Secret, Failure> {
    Secret::new(secret).map_err(|error| Failure::input(format!("{option}: {error}")))
}

/// The secret of `--secret-file`, or else that of the profile.
pub fn given_or_profile_secret(context: &Context, given: Option<&Path>) -> Result<Secret, Failure> {
    const OPTION: &str = "--secret-file";
    match given {
        Some(path) => usable(OPTION, &read_secret(context, OPTION, path)?),
        None => usable(
            "the secret of `svc listen`",
            profile_secret(context)?.1.as_bytes(),
        ),
    }
}

/// Removes a line break at the end.
fn without_line_end(mut secret: Vec<u8>) -> Vec<u8> {
    if secret.last() == Some(&b'\n') {
        secret.pop();
        if secret.last() == Some(&b'\r') {
            secret.pop();
        }
    }
    secret
}

/// The secret with which `svc listen`, `svc trigger` and `svc replay` sign for an application of
/// this profile, and its file, which only its owner reads. Created when it is first needed.
pub fn profile_secret(context: &Context) -> Result<(PathBuf, String), Failure> {
    let settings = &context.settings;
    let profile = utf8_percent_encode(&settings.profile.value, NON_ALPHANUMERIC);
    let path = if settings.sandbox {
        settings.sandbox_dir.join("listen.secret")
    } else {
        settings.data_dir.join(format!("listen-{profile}.secret"))
    };
    kept_secret(path, "whsec_")
}

/// The secret in a file, which only its owner reads. Created when it is first needed.
pub fn kept_secret(path: PathBuf, prefix: &str) -> Result<(PathBuf, String), Failure> {
    let read = match std::fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let one = Uuid::new_v4().simple();
            let two = Uuid::new_v4().simple();
            let secret = format!("{prefix}{one}{two}");
            // Another process may be faster. Both then use its secret.
            private_files::create_once(&path, secret.as_bytes())
                .and_then(|()| std::fs::read_to_string(&path))
        }
        read => read,
    };
    match read {
        Ok(secret) => Ok((path, secret)),
        Err(error) => Err(Failure::other(format!("{}: {error}", path.display()))),
    }
}
