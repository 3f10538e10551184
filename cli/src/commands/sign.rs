//! `svc sign`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use serde_json::json;
use webhook_verify::{Extraction, ExtractionSigner, Mail, MailSigner, Scheme};

use super::verify::{ServiceName, read_secret, usable};
use crate::context::Context;
use crate::failure::Failure;

/// Sign a body as a service does, and print the header
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  svc sign --service email --secret-file secret.txt body.json
  curl http://localhost:3000/hooks --data-binary @body.json \\
      -H \"$(svc sign --service extraction --secret-file secret.txt --jq .line body.json)\"

Scope: none; nothing leaves this machine")]
pub struct Sign {
    /// As whose delivery to sign it
    #[arg(long, value_name = "email|extraction", hide_possible_values = true)]
    service: ServiceName,
    /// A file with the signing secret; one newline at its end does not count
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    secret_file: PathBuf,
    /// The body, byte for byte: a file, or - for standard input
    #[arg(value_name = "BODY", default_value = "-", value_hint = ValueHint::FilePath)]
    body: PathBuf,
}

impl Sign {
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let secret = usable(&read_secret(context, &self.secret_file)?)?;
        let body = context.inputs.bytes(&context.out, "BODY", &self.body)?;
        let (header, signature) = match self.service {
            ServiceName::Email => {
                (Mail::SIGNATURE_HEADER, MailSigner::new(&secret).sign(&body).to_string())
            }
            ServiceName::Extraction => (
                Extraction::SIGNATURE_HEADER,
                ExtractionSigner::new(&secret).sign(&body).to_string(),
            ),
        };
        let line = format!("{header}: {signature}");
        let value = json!({"header": header, "signature": signature, "line": line});
        context.out.done(&line, &value)
    }
}
