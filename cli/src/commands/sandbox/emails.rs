//! The `svc sandbox emails` commands: the emails in every status.

pub mod list;
pub mod story;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;

/// Inspect the emails that the local server accepted
#[derive(Subcommand, Debug)]
pub enum Command {
    List(list::List),
    Story(story::Story),
}

impl Command {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::List(args) => args.run(context).await,
            Self::Story(args) => args.run(context).await,
        }
    }
}
