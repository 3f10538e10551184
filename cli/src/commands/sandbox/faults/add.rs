//! The `svc sandbox faults add` command.

use clap::Args;
use std::time::Duration;
use svc_reference_server::client::NewFault;

use crate::complete::{Values, at_file};
use crate::context::Context;
use crate::control;
use crate::failure::Failure;
use crate::input::{duration, json_or_text, pairs};

/// Inject a fault into the next matching requests
///
/// Without --status and --drop, requests are only delayed by --latency.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc sandbox faults add --operation 'emails.send' --status 503 --times 2
  svc sandbox faults add --latency 2s
  svc sandbox faults add --drop after

Scope: none (local server)")]
pub struct Add {
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
    #[arg(long, value_parser = ["before", "after", "midway"])]
    drop: Option<String>,
    /// Organization, by name or id [default: Sandbox]
    #[arg(long, value_name = "NAME|ID")]
    organization: Option<String>,
}

/// Parses an HTTP status that the local server can respond with, as clap's `value_parser`.
fn status(text: &str) -> Result<u16, String> {
    let status = text.parse().ok().filter(|status| (200..=599).contains(status));
    status.ok_or_else(|| "it must be a number from 200 to 599, such as 429 or 503".to_owned())
}

impl Add {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = control::client(context, self.organization.as_deref()).await?;
        let mut fault = NewFault::new();
        fault.operation = self.operation;
        fault.times = self.times;
        fault.skip = self.skip;
        fault.status = self.status;
        fault.drop = self.drop;
        if let Some(body) = self.body {
            let text = context.text("--body", &body)?;
            fault = fault.body(json_or_text("--body", text)?);
        }
        let headers = pairs::headers("--header", self.header)?;
        fault.headers = (!headers.is_empty()).then_some(headers);
        if let Some(latency) = self.latency {
            fault = fault.latency(latency);
        }
        control::show(context, client.faults().add(&fault), super::VIEW).await
    }
}
