//! `svc sandbox dns`: the DNS records that the built-in zone answers.

pub mod publish;
pub mod withdraw;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;

/// The DNS records that the built-in zone answers
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
