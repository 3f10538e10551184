//! The `svc sign` command.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use schemars::JsonSchema;
use serde::Serialize;
use svc_sdk::Service;

use crate::command_spec::local;
use crate::context::Context;
use crate::failure::Failure;
use crate::input::choice;
use crate::output_schema::of;
use crate::signing::{read_secret, sign, usable};

/// Sign a body as a service would and print the header
#[derive(Args, Debug)]
#[command(
    override_usage = "svc sign [OPTIONS] --service <email|extraction> --secret-file <PATH>\n                [BODY]"
)]
#[command(add = local(of::<Output>))]
#[command(after_long_help = "\
  svc sign --service email --secret-file secret.txt body.json
  curl http://localhost:3000/hooks --data-binary @body.json \\
      -H \"$(svc sign --service extraction --secret-file secret.txt \\
      body.json)\"")]
pub struct Sign {
    /// Service whose signature to compute
    #[arg(long, value_name = "email|extraction", value_parser = choice::service(), hide_possible_values = true)]
    service: Service,
    /// File with the signing secret
    ///
    /// One line break at the end of the file is ignored.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    secret_file: PathBuf,
    /// Body to sign: a file or - for stdin
    #[arg(value_name = "BODY", default_value = "-", value_hint = ValueHint::FilePath)]
    body: PathBuf,
}

impl Sign {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let secret = read_secret(context, "--secret-file", &self.secret_file)?;
        let secret = usable("--secret-file", &secret)?;
        let body = context.bytes("BODY", &self.body)?;
        let (header, signature) = sign(self.service, &secret, &body);
        let line = format!("{header}: {signature}");
        let output = Output {
            header,
            signature: &signature,
            line: &line,
        };
        context.out.document(&format!("{line}\n"), &output)
    }
}

#[derive(Serialize, JsonSchema)]
pub struct Output<'a> {
    header: &'static str,
    signature: &'a str,
    /// Header and signature, as curl takes them.
    line: &'a str,
}
