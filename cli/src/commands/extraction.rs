//! The `svc extraction` commands: the document-extraction service.

pub mod me;
pub mod webhooks;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;

/// Show the organization and manage extraction webhooks
#[derive(Subcommand, Debug)]
pub enum Command {
    Me(me::Me),
    #[command(subcommand)]
    Webhooks(webhooks::Command),
}

impl Command {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::Me(args) => args.run(context).await,
            Self::Webhooks(command) => command.run(context).await,
        }
    }
}
