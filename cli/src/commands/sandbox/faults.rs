//! The `svc sandbox faults` commands: injected failures and delays.

use std::time::Duration;

use clap::Subcommand;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use svc_reference_server::client::{Client, DropPoint, Fault, NewFault};

use crate::command_spec::{changes, reads};
use crate::complete::{Values, at_file};
use crate::context::Context;
use crate::control::{Done, Given as _, OfOrganization};
use crate::failure::Failure;
use crate::input::{duration, json_or_text, pairs};
use crate::output::{Column, Show, View};
use crate::output_schema::of;

/// Table columns of a fault.
pub const VIEW: View = View(&[
    Column::id("ID", "/id"),
    Column::text("OPERATION", "/operation"),
    Column::new("REMAINING", "/remaining", Show::Number),
    Column::new("STATUS", "/status", Show::Number),
    Column::text("LATENCY", "/latency"),
    Column::text("DROP", "/drop"),
]);

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Inject a fault into the next matching requests
    ///
    /// Without --status and --drop, requests are only delayed by --latency.
    #[command(add = changes(&[], of::<Fault>).of_sandbox())]
    #[command(after_long_help = "\
Examples:
  svc sandbox faults add --operation 'emails.send' --status 503 --times 2
  svc sandbox faults add --latency 2s
  svc sandbox faults add --drop after")]
    Add {
        /// Operation, such as emails.send [default: any]
        #[arg(long, value_name = "OPERATION", add = Values::Operation.candidates())]
        operation: Option<String>,
        /// Number of requests affected [default: 1]
        #[arg(long, value_name = "N")]
        times: Option<u32>,
        /// Requests to let pass first [default: 0]
        #[arg(long, value_name = "N")]
        skip: Option<u32>,
        /// Response status, from 200 to 599
        #[arg(long, value_name = "STATUS", value_parser = status, allow_hyphen_values = true)]
        status: Option<u16>,
        /// Response body: text or JSON, @file or -
        #[arg(long, value_name = "TEXT|@FILE|-", add = at_file())]
        body: Option<String>,
        /// Response header; repeatable
        #[arg(long, value_name = "NAME: VALUE", value_parser = pairs::parse_header)]
        header: Vec<(String, String)>,
        /// Delay before the response, such as 2s
        #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
        latency: Option<Duration>,
        /// Cut the connection
        ///
        /// `before`: before the request is processed. `after`: after it was processed, without a
        /// response. `midway`: in the middle of the response.
        #[arg(long, value_parser = PossibleValuesParser::new(["before", "after", "midway"]).try_map(|point| point.parse::<DropPoint>()))]
        drop: Option<DropPoint>,
        #[command(flatten)]
        organization: OfOrganization,
    },
    /// List all faults and the requests they affected
    #[command(add = reads(&[], of::<Vec<Fault>>).of_sandbox())]
    List {
        #[command(flatten)]
        organization: OfOrganization,
    },
    /// Show a fault and the requests it affected
    #[command(add = reads(&[], of::<Fault>).of_sandbox())]
    #[command(after_long_help = "\
Examples:
  svc sandbox faults get flt_019a --jq .hits")]
    Get {
        /// Fault id
        #[arg(add = Values::Fault.candidates())]
        id: String,
        #[command(flatten)]
        organization: OfOrganization,
    },
    /// Remove one fault or all of them
    #[command(add = changes(&[], of::<Done>).of_sandbox())]
    #[command(after_long_help = "\
Examples:
  svc sandbox faults remove flt_019a
  svc sandbox faults remove")]
    Remove {
        /// Fault id [default: all]
        #[arg(add = Values::Fault.candidates())]
        id: Option<String>,
        #[command(flatten)]
        organization: OfOrganization,
    },
}

impl Command {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::Add {
                operation,
                times,
                skip,
                status,
                body,
                header,
                latency,
                drop,
                organization,
            } => {
                let mut fault = NewFault::new().given(latency, NewFault::latency);
                fault.operation = operation;
                fault.times = times;
                fault.skip = skip;
                fault.status = status;
                fault.drop = drop;
                if let Some(body) = body {
                    let text = context.text("--body", &body)?;
                    fault = fault.body(json_or_text(text));
                }
                let headers = pairs::headers("--header", header)?;
                fault.headers = (!headers.is_empty()).then_some(headers);
                organization.show(context, VIEW, |client| client.faults().add(&fault)).await
            }
            Self::List { organization } => {
                organization.list(context, VIEW, "no faults", |client| client.faults().list()).await
            }
            Self::Get { id, organization } => {
                organization.show(context, VIEW, |client| client.faults().get(&id)).await
            }
            Self::Remove { id, organization } => {
                let what = id.as_ref().map_or("all faults".to_owned(), |id| format!("fault {id}"));
                let request = |client: &Client| match &id {
                    Some(id) => client.faults().remove(id),
                    None => client.faults().clear(),
                };
                organization.done(context, &format!("removed {what}"), request).await
            }
        }
    }
}

/// Parses an HTTP status that the sandbox can respond with, as clap's `value_parser`.
fn status(text: &str) -> Result<u16, String> {
    let status = text.parse().ok().filter(|status| (200..=599).contains(status));
    status.ok_or_else(|| "it must be a number from 200 to 599, such as 429 or 503".to_owned())
}
