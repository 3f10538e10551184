//! The `svc sandbox messages get` command.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::attachments;
use crate::complete::Values;
use crate::context::Context;
use crate::control::{self, OfOrganization};
use crate::failure::Failure;

/// Show a message, its source, its HTML or its links, or save its attachments
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc sandbox messages get msg_019a
  svc sandbox messages get msg_019a --raw > message.eml
  svc sandbox messages get msg_019a --links
  svc sandbox messages get msg_019a --attachments downloads

Scope: none (local server)")]
pub struct Get {
    /// Message id
    #[arg(add = Values::Message.candidates())]
    id: String,
    /// Print the RFC 5322 source
    #[arg(long, conflicts_with_all = ["html", "links", "attachments"])]
    raw: bool,
    /// Print the HTML body
    #[arg(long, conflicts_with_all = ["links", "attachments"])]
    html: bool,
    /// Print the links
    #[arg(long, conflicts_with = "attachments")]
    links: bool,
    /// Save the attachments in this directory
    ///
    /// The directory is created if there is none. Existing files are kept: a file with the same
    /// name gets a number.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    attachments: Option<PathBuf>,
    #[command(flatten)]
    organization: OfOrganization,
}

impl Get {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = self.organization.client(context).await?;
        let messages = client.messages();
        if let Some(directory) = &self.attachments {
            return attachments::save(context, messages, &self.id, directory).await;
        }
        match (self.raw, self.html, self.links) {
            (true, _, _) => control::document(context, messages.raw(&self.id)).await,
            (_, true, _) => control::document(context, messages.html(&self.id)).await,
            (_, _, true) => control::show(context, messages.links(&self.id), super::VIEW).await,
            _ => control::show(context, messages.get(&self.id), super::VIEW).await,
        }
    }
}
