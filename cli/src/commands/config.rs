//! The `svc config` commands: settings and their sources.

pub mod path;
pub mod show;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;

/// Show settings and where they come from
#[derive(Subcommand, Debug)]
pub enum Command {
    Show(show::Show),
    Path(path::Path),
}

impl Command {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::Show(args) => args.run(context),
            Self::Path(args) => args.run(context),
        }
    }
}
