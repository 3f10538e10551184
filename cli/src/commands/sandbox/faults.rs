//! The `svc sandbox faults` commands: injected failures and delays.

pub mod add;
pub mod get;
pub mod list;
pub mod remove;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Column, Show, View};

/// Table columns of a fault.
pub const VIEW: View = View(&[
    Column::id("ID", "/id"),
    Column::text("OPERATION", "/operation"),
    Column::new("REMAINING", "/remaining", Show::Number),
    Column::new("STATUS", "/status", Show::Number),
    Column::text("LATENCY", "/latency"),
    Column::text("DROP", "/drop"),
]);

/// Inject failures and delays into requests
#[derive(Subcommand, Debug)]
pub enum Command {
    Add(add::Add),
    List(list::List),
    Get(get::Get),
    Remove(remove::Remove),
}

impl Command {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::Add(args) => args.run(context).await,
            Self::List(args) => args.run(context).await,
            Self::Get(args) => args.run(context).await,
            Self::Remove(args) => args.run(context).await,
        }
    }
}
