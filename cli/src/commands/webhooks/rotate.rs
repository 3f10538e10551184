//! The `svc webhooks rotate` command.

use std::marker::PhantomData;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use svc_sdk::email::WebhookUpdate;
use svc_sdk::{Operation, Service};

use crate::command_spec::removes;
use crate::confirm::confirm;
use crate::context::Context;
use crate::failure::Failure;
use crate::output_schema::rotated;
use crate::resource::Resource;
use crate::secret_file::SecretFile;
use crate::webhook::{self, Webhook};

/// A webhook of a service that gives it a secret.
pub trait WithSecret: Resource {
    const SERVICE: Service;
    /// The field of the secret in the output.
    const SECRET: &'static str;
    const ROTATES: &'static [Operation];
}

/// Replace a webhook to get a new signing secret
///
/// The service has no operation that changes a secret. A new webhook with the same URL and events
/// is created, its secret is shown once or stored in --secret-file, and then the old webhook is
/// deleted, with the deliveries that it would still retry. The id changes.
///
/// With --keep-old both webhooks exist, and every event is delivered twice, until you delete the
/// old one: time to give the new secret to the receiver, which should accept both.
#[derive(Args, Clone, Debug)]
#[command(add = removes(R::ROTATES, || rotated(R::schema())))]
#[command(after_long_help = format!("\
Examples:
  svc {0} rotate whk_019a --keep-old \\
      --secret-file new-secret.txt
  svc {0} rotate whk_019a --yes --jq .{1}", R::GROUP, R::SECRET))]
pub struct Rotate<R: WithSecret> {
    /// Webhook id or URL
    #[arg(add = R::COMPLETED.candidates())]
    id: String,
    /// Store the new secret in a file, not in the output
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    secret_file: Option<PathBuf>,
    /// Do not delete the old webhook yet
    #[arg(long)]
    keep_old: bool,
    #[arg(skip)]
    resource: PhantomData<R>,
}

impl<R: WithSecret> Rotate<R> {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = R::client(context).await?;
        let secret_file = self.secret_file.as_deref();
        // Before anything changes; removed again if the webhook is not replaced.
        let cwd = &context.settings.env.cwd;
        let mut secret_file = secret_file.map(|path| SecretFile::create(path, cwd)).transpose()?;
        if context.settings.dry_run {
            R::names(&client).preview(context).await?;
            context.out.note(
                "then a webhook with the same URL and events is created, and the old one deleted",
            );
            return Ok(());
        }
        let target = R::names(&client).existing(context, &self.id).await?;
        let all = webhook::list(context, R::SERVICE).await?;
        let old = all.into_iter().find(|webhook| webhook.id == target.id);
        let old = old.ok_or_else(|| Failure::other(format!("webhook {target} is not listed")))?;
        let Some(url) = old.url.as_deref().filter(|_| !old.events.is_empty()) else {
            return Err(Failure::other(format!(
                "the service does not report the URL and the events of webhook {target}"
            )));
        };
        if !self.keep_old {
            let question = format!("Replace webhook {target} and delete the old one?");
            confirm(context, &question).await?;
        }
        let new = webhook::create(context, R::SERVICE, url, &old.events).await?;
        if let Err(mut failure) = self.hand_over(context, &old, &new, secret_file.as_mut()).await {
            // The new secret is lost, so only the old webhook is of use.
            let undone = webhook::delete(context, R::SERVICE, &new.id).await;
            let command = webhook::delete_command(context, R::SERVICE, &new.id);
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
        let delete_old = webhook::delete_command(context, R::SERVICE, &old.id);
        if self.keep_old {
            context.out.note(&format!(
                "both webhooks receive every event until you delete the old one: {delete_old}"
            ));
            return Ok(());
        }
        match webhook::delete(context, R::SERVICE, &old.id).await {
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
        match (secret_file, &self.secret_file) {
            (Some(file), Some(path)) => {
                file.store(secret)?;
                value["secret_file"] = path.display().to_string().into();
            }
            _ => value[R::SECRET] = secret.expose().into(),
        }
        context.out.one(&value, R::VIEW)?;
        if self.secret_file.is_none() {
            context.out.hint("store the secret now: the service does not show it again");
        }
        Ok(())
    }
}
