//! The `svc webhooks rotate` command.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use svc_sdk::Operation::{WebhooksCreate, WebhooksDelete, WebhooksList, WebhooksUpdate};
use svc_sdk::Service;
use svc_sdk::email::WebhookUpdate;

use super::VIEW;
use crate::command_spec::removes;
use crate::complete::Values;
use crate::confirm::confirm;
use crate::context::Context;
use crate::failure::Failure;
use crate::names::Names;
use crate::output::View;
use crate::output_schema::{rotated, webhook};
use crate::secret_file::SecretFile;
use crate::webhook::{self, Webhook};

/// Replace a webhook to get a new signing secret
///
/// The service has no operation that changes a secret. A new webhook with the same URL and events
/// is created, its secret is shown once or stored in --secret-file, and then the old webhook is
/// deleted, with the deliveries that it would still retry. The id changes.
///
/// With --keep-old both webhooks exist, and every event is delivered twice, until you delete the
/// old one: time to give the new secret to the receiver, which should accept both.
#[derive(Args, Debug)]
#[command(add = removes(&[WebhooksList, WebhooksCreate, WebhooksUpdate, WebhooksDelete], || rotated(webhook())))]
#[command(after_long_help = "\
Examples:
  svc webhooks rotate whk_019a --keep-old --secret-file new-secret.txt
  svc webhooks rotate https://example.com/hooks --yes --jq .signingSecret")]
pub struct Rotate {
    /// Webhook id or URL
    #[arg(add = Values::Webhook.candidates())]
    id: String,
    #[command(flatten)]
    options: RotationOptions,
}

/// The options of the rotation for either service.
#[derive(Args, Debug)]
pub struct RotationOptions {
    /// Store the new secret in a file, not in the output
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    secret_file: Option<PathBuf>,
    /// Do not delete the old webhook yet
    #[arg(long)]
    keep_old: bool,
}

impl Rotate {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.email_client().await?;
        let rotation = Rotation {
            service: Service::Email,
            view: VIEW,
            secret_field: "signingSecret",
            options: &self.options,
        };
        rotation.run(context, Names::Webhook(&client), &self.id).await
    }
}

/// The replacement of a webhook of either service.
pub(in crate::commands) struct Rotation<'a> {
    pub service: Service,
    pub view: View,
    /// The field of the secret in the output.
    pub secret_field: &'static str,
    pub options: &'a RotationOptions,
}

impl Rotation<'_> {
    pub async fn run(
        &self,
        context: &Context,
        names: Names<'_>,
        text: &str,
    ) -> Result<(), Failure> {
        let secret_file = self.options.secret_file.as_deref();
        // Before anything changes; removed again if the webhook is not replaced.
        let cwd = &context.settings.env.cwd;
        let mut secret_file = secret_file.map(|path| SecretFile::create(path, cwd)).transpose()?;
        if context.settings.dry_run {
            webhook::show_list(context, self.service).await?;
            context.out.note(
                "then a webhook with the same URL and events is created, and the old one deleted",
            );
            return Ok(());
        }
        let target = names.existing(context, text).await?;
        let all = webhook::list(context, self.service).await?;
        let old = all.into_iter().find(|webhook| webhook.id == target.id);
        let old = old.ok_or_else(|| Failure::other(format!("webhook {target} is not listed")))?;
        let Some(url) = old.url.as_deref().filter(|_| !old.events.is_empty()) else {
            return Err(Failure::other(format!(
                "the service does not report the URL and the events of webhook {target}"
            )));
        };
        if !self.options.keep_old {
            let question = format!("Replace webhook {target} and delete the old one?");
            confirm(context, &question).await?;
        }
        let new = webhook::create(context, self.service, url, &old.events).await?;
        if let Err(mut failure) = self.hand_over(context, &old, &new, secret_file.as_mut()).await {
            // The new secret is lost, so only the old webhook is of use.
            let undone = webhook::delete(context, self.service, &new.id).await;
            let command = webhook::delete_command(context, self.service, &new.id);
            let details = failure.details_mut();
            details.message = format!("{}; webhook {target} is unchanged", details.message);
            return Err(match undone {
                Ok(()) => failure,
                Err(_) => failure.hint(format!("delete the new webhook: {command}")),
            });
        }
        if let Some(file) = secret_file {
            file.keep();
        }
        let delete_old = webhook::delete_command(context, self.service, &old.id);
        if self.options.keep_old {
            context.out.note(&format!(
                "both webhooks receive every event until you delete the old one: {delete_old}"
            ));
            return Ok(());
        }
        match webhook::delete(context, self.service, &old.id).await {
            Ok(()) => context.out.note(&format!("deleted the old webhook {}", old.id)),
            Err(mut failure) => {
                let details = failure.details_mut();
                details.message = format!(
                    "webhook {} was created, but the old one was not deleted: {}",
                    new.id, details.message
                );
                return Err(failure.hint(format!("delete it: {delete_old}")));
            }
        }
        Ok(())
    }

    /// Gives the new webhook the state of the old one, and its secret to the user.
    async fn hand_over(
        &self,
        context: &Context,
        old: &Webhook,
        new: &Webhook,
        secret_file: Option<&mut SecretFile>,
    ) -> Result<(), Failure> {
        let secret = new.secret.as_ref().ok_or_else(|| {
            Failure::other("the response to the creation of the webhook has no signing secret")
        })?;
        let mut value = new.value.clone();
        if old.disabled {
            let update = WebhookUpdate::new().active(false);
            let client = context.email_client().await?;
            context.run(client.webhooks().update(&new.id, &update)).await?;
            value["active"] = false.into();
        }
        value["replaces"] = old.id.as_str().into();
        match (secret_file, &self.options.secret_file) {
            (Some(file), Some(path)) => {
                file.store(secret)?;
                value["secret_file"] = path.display().to_string().into();
            }
            _ => value[self.secret_field] = secret.expose().into(),
        }
        context.out.one(&value, self.view)?;
        if self.options.secret_file.is_none() {
            context.out.hint("store the secret now: the service does not show it again");
        }
        Ok(())
    }
}
