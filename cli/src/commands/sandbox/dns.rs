//! The `svc sandbox dns` commands: records of the built-in DNS zone.

pub mod publish;
pub mod withdraw;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;

/// Publish and withdraw records in the built-in DNS zone
#[derive(Subcommand, Debug)]
pub enum Command {
    Publish(publish::Publish),
    Withdraw(withdraw::Withdraw),
}

impl Command {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::Publish(args) => args.run(context).await,
            Self::Withdraw(args) => args.run(context).await,
        }
    }
}
