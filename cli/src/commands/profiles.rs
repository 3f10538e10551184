//! The `svc profiles` commands: named sets of base URLs and keys.

pub mod list;
pub mod remove;
pub mod r#use;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;

/// Manage profiles: named sets of base URLs and keys
#[derive(Subcommand, Debug)]
pub enum Command {
    List(list::List),
    Use(r#use::Use),
    Remove(remove::Remove),
}

impl Command {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::List(args) => args.run(context),
            Self::Use(args) => args.run(context),
            Self::Remove(args) => args.run(context).await,
        }
    }
}
