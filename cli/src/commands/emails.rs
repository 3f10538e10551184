//! The `svc emails` commands: send emails and track their status.

pub mod batch;
pub mod cancel;
mod fields;
pub mod get;
pub mod send;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Column, Show, View};

/// Table columns of an email.
pub const VIEW: View = View(&[
    Column::id("ID", "/id"),
    Column::new("STATUS", "/status", Show::Status),
    Column::text("FROM", "/from"),
    Column::text("TO", "/to"),
    Column::text("SUBJECT", "/subject"),
    Column::new("SCHEDULED", "/scheduledAt", Show::Time),
    Column::new("CREATED", "/createdAt", Show::Time),
    Column::new("UPDATED", "/updatedAt", Show::Time),
]);

/// Send emails and track their status
#[derive(Subcommand, Debug)]
pub enum Command {
    Send(Box<send::Send>),
    Batch(batch::Batch),
    Get(get::Get),
    Cancel(cancel::Cancel),
}

impl Command {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::Send(args) => args.run(context).await,
            Self::Batch(args) => args.run(context).await,
            Self::Get(args) => args.run(context).await,
            Self::Cancel(args) => args.run(context).await,
        }
    }
}
