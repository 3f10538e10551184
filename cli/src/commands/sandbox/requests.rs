//! The `svc sandbox requests` commands: the requests to both services.

use clap::Subcommand;
use svc_reference_server::client::{LoggedRequest, RequestFilter};
use svc_sdk::Operation;

use crate::complete::Values;
use crate::context::Context;
use crate::control::{self, Paging, reads};
use crate::failure::Failure;
use crate::output::{Column, View};
use crate::output_schema::of;
use crate::time_options;

/// Table columns of a request.
pub const VIEW: View = View(&[
    Column::id("ID", "/id"),
    Column::http_status("STATUS", "/status"),
    Column::text("OPERATION", "/operation"),
    Column::time("STARTED", "/startedAt"),
    Column::text("PATH", "/path").droppable(),
    Column::id("KEY", "/key").droppable(),
]);

#[derive(Subcommand, Debug)]
pub enum Command {
    /// List the newest requests, newest first
    #[command(add = reads(of::<Vec<LoggedRequest>>).of_organization())]
    #[command(after_long_help = "\
  svc sandbox requests list --status 4xx
  svc sandbox requests list --operation emails.send --jq .[0].requestBody.text")]
    List {
        /// Filter by operation, such as emails.send
        #[arg(long, value_name = "OPERATION", value_parser = operation, add = Values::Operation.candidates())]
        operation: Option<Operation>,
        /// Filter by status, such as 202, or by class, such as 4xx
        #[arg(long, value_name = "STATUS")]
        status: Option<String>,
        /// Filter by key id
        #[arg(long, value_name = "ID", add = Values::SandboxKey.candidates())]
        key_id: Option<String>,
        /// Begun after this time, such as 10m or 2026-12-01
        ///
        /// TIME is RFC 3339, a day, or a duration before the time of the sandbox.
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        after: Option<String>,
        #[command(flatten)]
        paging: Paging,
    },
    /// Show a request with the beginning of its bodies
    #[command(add = reads(of::<LoggedRequest>).of_organization())]
    #[command(after_long_help = "\
  svc sandbox requests get req_019a
  svc sandbox requests get req_019a --jq .responseBody.text")]
    Get {
        /// Request id, which is the X-Request-Id of the response
        #[arg(add = Values::SandboxRequest.candidates())]
        id: String,
    },
}

impl Command {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = control::client(context).await?;
        match self {
            Self::List {
                operation,
                status,
                key_id: key,
                after,
                paging,
            } => {
                let operation = operation.map(|operation| operation.to_string());
                let after = time_options::after(context, after.as_deref()).await?;
                let filter = RequestFilter {
                    operation,
                    status,
                    key,
                    search: None,
                    after,
                };
                paging
                    .pages(context, VIEW, "no requests", || client.requests(&filter))
                    .await
            }
            Self::Get { id } => {
                let request = client.request(&id);
                control::show(context, VIEW, request).await
            }
        }
    }
}

fn operation(text: &str) -> Result<Operation, &'static str> {
    // A name that both services have is that of the email service.
    let mut all = Operation::ALL.iter().copied().rev();
    all.find(|operation| operation.name() == text || operation.to_string() == text)
        .ok_or("is not an operation, such as emails.send")
}
