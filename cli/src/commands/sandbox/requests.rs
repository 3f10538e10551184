//! The `svc sandbox requests` commands: the requests to both services.

pub mod get;
pub mod list;
pub mod tail;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Column, Show, View};
use crate::sandbox::Sandbox;

/// Table columns of a request.
pub const VIEW: View = View(&[
    Column::id("ID", "/id"),
    Column::new("STATUS", "/status", Show::HttpStatus),
    Column::text("OPERATION", "/operation"),
    Column::new("STARTED", "/startedAt", Show::Time),
    Column::text("PATH", "/path").droppable(),
    Column::id("KEY", "/key").droppable(),
]);

/// Inspect the requests to both services
///
/// The running local server has the newest 1000 requests of an organization in memory. Their bodies are
/// shortened, and secrets in them are redacted.
#[derive(Subcommand, Debug)]
pub enum Command {
    List(list::List),
    Tail(tail::Tail),
    Get(get::Get),
}

impl Command {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        // A server that this command starts for itself has seen no request.
        if !matches!(self, Self::Tail(_))
            && Sandbox::running_url(&context.settings.sandbox_dir).is_none()
        {
            context.out.note(
                "no local server is running, and only a running one keeps requests: \
                 start it with `svc sandbox serve`",
            );
        }
        match self {
            Self::List(args) => args.run(context).await,
            Self::Tail(args) => args.run(context).await,
            Self::Get(args) => args.run(context).await,
        }
    }
}
