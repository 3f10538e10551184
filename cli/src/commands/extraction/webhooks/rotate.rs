//! The `svc extraction webhooks rotate` command.

use clap::Args;
use svc_sdk::Service;

use super::VIEW;
use crate::commands::webhooks::rotate::{Rotation, RotationOptions};
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
    #[command(flatten)]
    options: RotationOptions,
}

impl Rotate {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.extraction_client().await?;
        let rotation = Rotation {
            service: Service::Extraction,
            view: VIEW,
            secret_field: "secret",
            options: &self.options,
        };
        rotation.run(context, Names::ExtractionWebhook(&client), &self.id).await
    }
}
