//! The `svc sandbox messages open` command.

use clap::Args;

use crate::commands::sandbox::open;
use crate::complete::Values;
use crate::context::Context;
use crate::control::{self, OfOrganization};
use crate::failure::Failure;

/// Open a message on the page of the local server, in a browser
///
/// The server must be running. The browser is chosen as for `svc sandbox open`.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc sandbox messages open msg_019a

Scope: none (local server)")]
pub struct Open {
    /// Message id
    #[arg(add = Values::Message.candidates())]
    id: String,
    /// Print the URL and open no browser
    #[arg(long)]
    print: bool,
    #[command(flatten)]
    organization: OfOrganization,
}

impl Open {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let page = open::url(context)?;
        let organization = self.organization.name();
        let client = control::client(context, organization).await?;
        let Some(message) = control::send(context, client.messages().get(&self.id)).await? else {
            return Ok(());
        };
        let view = format!("mailbox/{}", message.id);
        let url = open::view(context, &page, &view, organization).await?;
        open::open(context, &url, self.print).await
    }
}
