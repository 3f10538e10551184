//! The `svc domains` commands: sending domains and their DNS records.

pub mod create;
pub mod delete;
pub mod list;
pub mod live;
pub mod records;
pub mod verify;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Column, Show, View};

/// Table columns of a domain.
pub const VIEW: View = View(&[
    Column::id("ID", "/id"),
    Column::text("NAME", "/name"),
    Column::new("VERIFIED", "/verified", Show::Flag),
    Column::new("MX", "/mx_verified", Show::Flag).droppable(),
    Column::new("SPF", "/spf_verified", Show::Flag).droppable(),
    Column::new("DKIM", "/dkim_verified", Show::Flag).droppable(),
    Column::new("DMARC", "/dmarc_verified", Show::Flag).droppable(),
]);

/// Manage sending domains and their DNS records
#[derive(Subcommand, Debug)]
pub enum Command {
    Create(create::Create),
    List(list::List),
    Verify(verify::Verify),
    Records(records::Records),
    Delete(delete::Delete),
}

impl Command {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::Create(args) => args.run(context).await,
            Self::List(args) => args.run(context).await,
            Self::Verify(args) => args.run(context).await,
            Self::Records(args) => args.run(context).await,
            Self::Delete(args) => args.run(context).await,
        }
    }
}
