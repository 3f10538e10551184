//! The `svc extraction webhooks` commands: endpoints for extraction events.

pub mod create;
pub mod delete;
pub mod list;
pub mod rotate;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Column, Show, View};

/// Table columns of an endpoint.
pub const VIEW: View = View(&[
    Column::id("ID", "/id"),
    Column::new("STATUS", "/status", Show::Status),
    Column::text("URL", "/url"),
    Column::prose("EVENTS", "/events"),
    Column::id("SECRET", "/secret"),
]);

/// Manage webhooks for extraction events
#[derive(Subcommand, Debug)]
pub enum Command {
    Create(create::Create),
    List(list::List),
    Rotate(rotate::Rotate),
    Delete(delete::Delete),
}

impl Command {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::Create(args) => args.run(context).await,
            Self::List(args) => args.run(context).await,
            Self::Rotate(args) => args.run(context).await,
            Self::Delete(args) => args.run(context).await,
        }
    }
}
