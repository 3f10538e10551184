//! The `svc sandbox faults` commands: add, list, show and remove faults of the sandbox. The options
//! of `add` are the fields of `NewFault`. Only what contradicts itself as a command line is refused
//! here; what a fault may be is decided in the server, which names the field.

use std::ffi::OsString;
use std::time::Duration;

use clap::Subcommand;
use serde_json::Value;
use svc_reference_server::client::{DropPoint, Fault, NewFault, SmtpStep};

use crate::complete::{Values, at_file};
use crate::context::Context;
use crate::control::{self, Done, changes, reads};
use crate::failure::Failure;
use crate::input::{choice, duration, json_or_text, pairs};
use crate::output::{Column, View};
use crate::output_schema::of;

/// Table columns of a fault.
pub const VIEW: View = View(&[
    Column::id("ID", "/id"),
    Column::text("OPERATION", "/operation"),
    Column::text("SMTP", "/smtp"),
    Column::number("REMAINING", "/remaining"),
    Column::number("STATUS", "/status"),
    Column::text("LATENCY", "/latency"),
    Column::text("DROP", "/drop"),
]);

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Inject a fault into the next matching requests
    ///
    /// Without --status and --drop, requests are only delayed by --latency. With --smtp, a step of
    /// SMTP sessions is affected instead: --status is the code of the reply and --body its text.
    #[command(add = changes(of::<Fault>).of_organization())]
    #[command(after_long_help = "\
  svc sandbox faults add --operation 'emails.send' --status 503 --times 2
  svc sandbox faults add --latency 2s
  svc sandbox faults add --drop after
  svc sandbox faults add --smtp rcpt --status 452 --to '*@slow.test'
  svc sandbox faults add --smtp rcpt --greylist
  svc sandbox faults add --smtp data --latency 20s --share 0.1")]
    Add {
        /// Operation, such as emails.send [default: any]
        #[arg(long, value_name = "OPERATION", add = Values::Operation.candidates())]
        operation: Option<String>,
        /// Step of SMTP sessions
        #[arg(long, value_name = "STEP", conflicts_with_all = ["operation", "header"], value_parser = choice::one_of::<SmtpStep>(["connect", "auth", "mail", "rcpt", "data"]))]
        smtp: Option<SmtpStep>,
        /// Only recipients like this; `*` is any text
        #[arg(long, value_name = "PATTERN", requires = "smtp")]
        to: Option<String>,
        /// Only envelope senders like this; `*` is any text
        #[arg(long, value_name = "PATTERN", requires = "smtp")]
        from: Option<String>,
        /// Refuse each sender and recipient once
        #[arg(long, requires = "smtp")]
        greylist: bool,
        /// Share of requests affected, as 0.2 [default: 1]
        #[arg(long, value_name = "SHARE")]
        share: Option<f64>,
        /// Number of requests affected [default: 1]
        ///
        /// With --greylist or --share, the default is any number.
        #[arg(long, alias = "count", value_name = "N")]
        times: Option<u32>,
        /// Requests to let pass first [default: 0]
        #[arg(long, value_name = "N")]
        skip: Option<u32>,
        /// Response status, from 200 to 599
        #[arg(long, value_name = "STATUS", value_parser = clap::value_parser!(u16).range(200..=599), allow_hyphen_values = true)]
        status: Option<u16>,
        /// Response body: text or JSON, @file or -
        #[arg(long, value_name = "TEXT|@FILE|-", add = at_file())]
        body: Option<OsString>,
        /// Response header; repeatable
        #[arg(long, value_name = "NAME: VALUE", value_parser = pairs::parse_header)]
        header: Vec<(String, String)>,
        /// Delay before the response, such as 2s
        #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
        latency: Option<Duration>,
        /// Write the SMTP reply slowly, during the latency
        #[arg(long, requires_all = ["smtp", "latency"])]
        slow: bool,
        /// Cut the connection: before, after or midway
        ///
        /// `before`: before the request is processed. `after`: after it was processed, without a
        /// response. `midway`: in the middle of the response.
        #[arg(long, hide_possible_values = true, value_parser = choice::one_of::<DropPoint>(["before", "after", "midway"]))]
        drop: Option<DropPoint>,
    },
    /// List all faults and the requests they affected
    #[command(add = reads(of::<Vec<Fault>>).of_organization())]
    List,
    /// Show a fault and the requests it affected
    #[command(add = reads(of::<Fault>).of_organization())]
    #[command(after_long_help = "svc sandbox faults get flt_019a --jq .hits")]
    Get {
        /// Fault id
        #[arg(add = Values::Fault.candidates())]
        id: String,
    },
    /// Remove one fault or all of them
    #[command(add = changes(of::<Done>).of_organization())]
    #[command(after_long_help = "\
  svc sandbox faults remove flt_019a
  svc sandbox faults remove")]
    Remove {
        /// Fault id [default: all]
        #[arg(add = Values::Fault.candidates())]
        id: Option<String>,
        /// Remove all, as without an id
        #[arg(long, hide = true, conflicts_with = "id")]
        all: bool,
    },
}

impl Command {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = control::client(context).await?;
        match self {
            Self::Add {
                operation,
                smtp,
                to,
                from,
                greylist,
                share,
                times,
                skip,
                status,
                body,
                header,
                latency,
                slow,
                drop,
            } => {
                let headers = pairs::headers("--header", header)?;
                let text = body.map(|body| context.text("--body", &body)).transpose()?;
                let fault = NewFault {
                    organization: None,
                    operation,
                    smtp,
                    to,
                    from,
                    greylist: greylist.then_some(true),
                    share,
                    times,
                    skip,
                    status,
                    body: text.map(|text| match smtp {
                        Some(_) => Value::String(text),
                        None => json_or_text(text),
                    }),
                    headers: Some(headers).filter(|headers| !headers.is_empty()),
                    latency: latency.map(|latency| format!("{}ms", latency.as_millis())),
                    slow: slow.then_some(true),
                    drop,
                };
                control::show(context, VIEW, client.add_fault(&fault)).await
            }
            Self::List => control::list(context, VIEW, "no faults", client.faults()).await,
            Self::Get { id } => control::show(context, VIEW, client.fault(&id)).await,
            Self::Remove { id: Some(id), .. } => {
                let sentence = format!("removed fault {id}");
                control::done(context, &sentence, client.remove_fault(&id)).await
            }
            Self::Remove { id: None, .. } => {
                control::done(context, "removed all faults", client.clear_faults()).await
            }
        }
    }
}
