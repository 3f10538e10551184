//! The `svc verify` command.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum, ValueHint};
use schemars::JsonSchema;
use serde::Serialize;
use svc_sdk::Service;
use webhook_verify::diagnose::{Case, Diagnosis};
use webhook_verify::{Extraction, Mail, Scheme, Secret, Verifier, VerifyError};

use crate::context::Context;
use crate::failure::Failure;

/// Verify the signature of a webhook delivery
///
/// A mismatch is explained if possible, and the exit code is 10.
#[derive(Args, Debug)]
#[command(
    override_usage = "svc verify [OPTIONS] --service <email|extraction> --secret-file <PATH>\n                  --signature <SIGNATURE> [BODY]"
)]
#[command(after_long_help = "\
Examples:
  svc verify --service email --secret-file secret.txt \\
      --signature \"$MAIL_SIGNATURE\" body.json
  curl -s https://example.com/saved-body | svc verify --service extraction \\
      --secret-file secret.txt --signature sha256=6b1f… -
  svc verify --service email --secret-file new.txt --old-secret-file old.txt \\
      --signature \"$MAIL_SIGNATURE\" body.json

Scope: none (works offline)")]
pub struct Verify {
    /// Service that sent the delivery
    ///
    /// The email service sends Mail-Signature, the extraction service X-Service-Signature.
    #[arg(long, value_name = "email|extraction", hide_possible_values = true)]
    service: ServiceName,
    /// File with the signing secret
    ///
    /// One line break at the end of the file is ignored.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    secret_file: PathBuf,
    /// File with a previous secret; repeatable
    ///
    /// Used only to explain a mismatch.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    old_secret_file: Vec<PathBuf>,
    /// File with a secret of the other service; repeatable
    ///
    /// Used only to explain a mismatch.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    other_secret_file: Vec<PathBuf>,
    /// Signature header: its value or the whole line
    #[arg(long, value_name = "SIGNATURE", allow_hyphen_values = true)]
    signature: String,
    /// Body as received: a file or - for stdin
    #[arg(value_name = "BODY", default_value = "-", value_hint = ValueHint::FilePath)]
    body: PathBuf,
}

/// One of the two services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ServiceName {
    #[value(help = "The email-sending service (Mail-Signature)")]
    Email,
    #[value(help = "The document-extraction service (X-Service-Signature)")]
    Extraction,
}

impl From<ServiceName> for Service {
    fn from(name: ServiceName) -> Self {
        match name {
            ServiceName::Email => Self::Email,
            ServiceName::Extraction => Self::Extraction,
        }
    }
}

impl From<Service> for ServiceName {
    fn from(service: Service) -> Self {
        match service {
            Service::Email => Self::Email,
            _ => Self::Extraction,
        }
    }
}

#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Output {
    verified: bool,
}

impl Verify {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        match self.service {
            ServiceName::Email => self.check::<Mail>(context),
            ServiceName::Extraction => self.check::<Extraction>(context),
        }
    }

    fn check<S: Scheme>(self, context: &Context) -> Result<(), Failure> {
        let secret = read_secret(context, &self.secret_file)?;
        let verifier = Verifier::<S>::new(usable(&secret)?);
        let read = |option: &str, paths: &[PathBuf]| -> Result<Vec<_>, Failure> {
            paths.iter().map(|path| secret_in(context, option, path)).collect()
        };
        let old = read("--old-secret-file", &self.old_secret_file)?;
        let other = read("--other-secret-file", &self.other_secret_file)?;
        let body = context.inputs.bytes(&context.out, "BODY", &self.body)?;
        let signature = header_value::<S>(&self.signature)?.to_owned();
        match verifier.verify(&signature, body.as_slice()) {
            Ok(_) => context.out.done("the signature matches", &Output { verified: true }),
            Err(error) => {
                let case = Case::<S>::new(signature, body, secret);
                let case = old.into_iter().fold(case, Case::old_secret);
                let case = other.into_iter().fold(case, Case::other_scheme_secret);
                Err(explained(error, case.diagnose()))
            }
        }
    }
}

/// The value of a header that is given as a whole line, as `svc sign` prints it.
fn header_value<S: Scheme>(signature: &str) -> Result<&str, Failure> {
    let Some((name, value)) = signature.split_once(':') else { return Ok(signature) };
    if name.trim().eq_ignore_ascii_case(S::SIGNATURE_HEADER) {
        return Ok(value.trim());
    }
    let other = match S::SIGNATURE_HEADER == Mail::SIGNATURE_HEADER {
        true => (Extraction::SIGNATURE_HEADER, "extraction"),
        false => (Mail::SIGNATURE_HEADER, "email"),
    };
    if name.trim().eq_ignore_ascii_case(other.0) {
        return Err(Failure::usage(format!(
            "--signature: {} is not the header of this service",
            other.0
        ))
        .hint(format!("use --service {}", other.1)));
    }
    Ok(signature)
}

/// The failure with its explanation and advice.
fn explained(error: VerifyError, diagnosis: Diagnosis) -> Failure {
    let failure = Failure::check(error.to_string()).code("signature_mismatch");
    match diagnosis {
        Diagnosis::Explained(mistakes) => {
            let mut failure = failure;
            let details = failure.details_mut();
            for mistake in &mistakes {
                details.fields.push((mistake.code().to_owned(), mistake.to_string()));
            }
            let advice = mistakes.iter().map(|m| m.advice()).collect::<Vec<_>>();
            failure.hint(advice.join("\n"))
        }
        Diagnosis::Unexplained(hints) if !hints.is_empty() => {
            let advice = hints.iter().map(|h| format!("{h}: {}", h.advice()));
            failure.hint(advice.collect::<Vec<_>>().join("\n"))
        }
        _ => failure.hint(
            "either another secret was used (try --old-secret-file and --other-secret-file), \
             or the body was changed",
        ),
    }
}

/// Reads `--secret-file`. A line break at the end of the file is not part of the secret.
pub fn read_secret(context: &Context, path: &Path) -> Result<Vec<u8>, Failure> {
    secret_in(context, "--secret-file", path)
}

pub fn secret_in(context: &Context, option: &str, path: &Path) -> Result<Vec<u8>, Failure> {
    context.inputs.bytes(&context.out, option, path).map(without_line_end)
}

/// Removes a line break at the end.
pub fn without_line_end(mut secret: Vec<u8>) -> Vec<u8> {
    if secret.last() == Some(&b'\n') {
        secret.pop();
        if secret.last() == Some(&b'\r') {
            secret.pop();
        }
    }
    secret
}

/// Checks the secret; an empty one is invalid, for example.
pub fn usable(secret: &[u8]) -> Result<Secret, Failure> {
    usable_as("--secret-file", secret)
}

/// As [`usable`], for the secret of another option.
pub fn usable_as(option: &str, secret: &[u8]) -> Result<Secret, Failure> {
    Secret::new(secret).map_err(|error| Failure::input(format!("{option}: {error}")))
}
