//! The `svc sandbox templates` commands: email templates of the local server.

pub mod delete;
pub mod get;
pub mod list;
pub mod put;
pub mod render;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;

/// Manage email templates
#[derive(Subcommand, Debug)]
pub enum Command {
    Put(put::Put),
    List(list::List),
    Get(get::Get),
    Render(render::Render),
    Delete(delete::Delete),
}

impl Command {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::Put(args) => args.run(context).await,
            Self::List(args) => args.run(context).await,
            Self::Get(args) => args.run(context).await,
            Self::Render(args) => args.run(context).await,
            Self::Delete(args) => args.run(context).await,
        }
    }
}
