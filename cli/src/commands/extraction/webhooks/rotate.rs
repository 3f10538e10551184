//! The `svc extraction webhooks rotate` command.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use svc_sdk::Service;

use super::VIEW;
use crate::commands::webhooks::rotate::Rotation;
use crate::complete::Values;
use crate::context::Context;
use crate::failure::Failure;
use crate::names::Names;

/// Replace a webhook to get a new signing secret
///
/// The service has no operation that changes a secret. A new webhook with the same URL and events
/// is created, its secret is shown once or stored in --secret-file, and then the old webhook is
/// deleted, with the deliveries that it would still retry. The id changes.
///
/// With --keep-old both webhooks exist, and every event is delivered twice, until you delete the
/// old one: time to give the new secret to the receiver, which should accept both.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc extraction webhooks rotate whk_019a --keep-old --secret-file new-secret.txt
  svc extraction webhooks rotate whk_019a --yes --jq .secret

Scope: full")]
pub struct Rotate {
    /// Webhook id or URL
    #[arg(add = Values::ExtractionWebhook.candidates())]
    id: String,
    /// Store the new secret in a file, not in the output
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    secret_file: Option<PathBuf>,
    /// Do not delete the old webhook yet
    #[arg(long)]
    keep_old: bool,
}

impl Rotate {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.extraction_client().await?;
        let rotation = Rotation {
            service: Service::Extraction,
            view: VIEW,
            secret_field: "secret",
            secret_file: self.secret_file.as_deref(),
            keep_old: self.keep_old,
        };
        rotation.run(context, Names::ExtractionWebhook(&client), &self.id).await
    }
}
