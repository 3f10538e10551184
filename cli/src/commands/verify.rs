//! The `svc verify` command.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use schemars::JsonSchema;
use serde::Serialize;
use svc_sdk::Service;
use webhook_verify::{Rejection, Signature};

use crate::command_spec::local;
use crate::context::Context;
use crate::diagnose::{Check, Mistake};
use crate::failure::Failure;
use crate::input::choice;
use crate::output_schema::of;
use crate::signing::read_secret;

/// Verify the signature of a webhook delivery
///
/// A mismatch is explained if possible, and the exit code is 10.
#[derive(Args, Debug)]
#[command(
    override_usage = "svc verify [OPTIONS] --service <email|extraction> --secret-file <PATH>\n                  --signature <SIGNATURE> [BODY]"
)]
#[command(add = local(of::<Output>))]
#[command(after_long_help = "\
  svc verify --service email --secret-file secret.txt \\
      --signature \"$MAIL_SIGNATURE\" body.json
  curl -s https://example.com/saved-body | svc verify --service extraction \\
      --secret-file secret.txt --signature sha256=6b1f… -")]
pub struct Verify {
    /// Service that sent the delivery
    ///
    /// The email service sends Mail-Signature, the extraction service X-Service-Signature.
    #[arg(long, value_name = "email|extraction", value_parser = choice::service(), hide_possible_values = true)]
    service: Service,
    /// File with the signing secret
    ///
    /// One line break at the end of the file is ignored.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    secret_file: PathBuf,
    /// Signature header: its value or the whole line
    #[arg(long, value_name = "SIGNATURE", allow_hyphen_values = true)]
    signature: String,
    /// Body as received: a file or - for stdin
    #[arg(value_name = "BODY", default_value = "-", value_hint = ValueHint::FilePath)]
    body: PathBuf,
}

#[derive(Serialize, JsonSchema)]
pub struct Output {
    verified: bool,
}

impl Verify {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let secret = read_secret(context, "--secret-file", &self.secret_file)?;
        let check = Check::new(self.service, secret)?;
        let body = context.bytes("BODY", &self.body)?;
        let value = header_value(check.service, &self.signature)?;
        match check.verify(
            Signature::parse(check.service, value),
            value.as_bytes(),
            &body,
        ) {
            Ok(()) => context
                .out
                .done("the signature matches", &Output { verified: true }),
            Err((error, mistakes)) => Err(explained(error, &mistakes)),
        }
    }
}

/// The value of a header that is given as a whole line, as `svc sign` prints it.
fn header_value(service: webhook_verify::Service, signature: &str) -> Result<&str, Failure> {
    let Some((name, value)) = signature.split_once(':') else {
        return Ok(signature);
    };
    let named = webhook_verify::Service::ALL
        .into_iter()
        .find(|other| name.trim().eq_ignore_ascii_case(other.signature_header()));
    match named {
        Some(named) if named == service => Ok(value.trim()),
        Some(other) => Err(Failure::usage(format!(
            "--signature: {} is not the header of this service",
            other.signature_header()
        ))
        .hint(format!("use --service {other}"))),
        None => Ok(signature),
    }
}

/// The failure with its explanation and advice.
fn explained(error: Rejection, mistakes: &[&Mistake]) -> Failure {
    let mut failure = Failure::check(error.to_string()).code("signature_mismatch");
    let field = |mistake: &&Mistake| (mistake.code.to_owned(), mistake.description.to_owned());
    failure.fields.extend(mistakes.iter().map(field));
    let advice = mistakes
        .iter()
        .map(|mistake| mistake.advice)
        .collect::<Vec<_>>();
    failure.hint(if !advice.is_empty() {
        advice.join("\n")
    } else {
        "use the secret of this webhook, and the body byte for byte as it was received".to_owned()
    })
}
