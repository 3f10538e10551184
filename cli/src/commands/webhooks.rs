//! The `svc webhooks` commands: endpoints for email events.

pub mod create;
pub mod delete;
pub mod list;
pub mod rotate;
pub mod test;
pub mod update;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Column, Show, View};

/// Table columns of a webhook.
pub const VIEW: View = View(&[
    Column::id("ID", "/id"),
    Column::new("ACTIVE", "/active", Show::Flag),
    Column::text("URL", "/url"),
    Column::prose("EVENTS", "/events"),
    Column::id("SIGNING SECRET", "/signingSecret"),
]);

/// Manage webhooks for email events
#[derive(Subcommand, Debug)]
pub enum Command {
    Create(create::Create),
    List(list::List),
    Update(update::Update),
    Rotate(rotate::Rotate),
    Delete(delete::Delete),
    Test(test::Test),
}

impl Command {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::Create(args) => args.run(context).await,
            Self::List(args) => args.run(context).await,
            Self::Update(args) => args.run(context).await,
            Self::Rotate(args) => args.run(context).await,
            Self::Delete(args) => args.run(context).await,
            Self::Test(args) => args.run(context).await,
        }
    }
}
