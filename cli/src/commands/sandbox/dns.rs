//! The `svc sandbox dns` commands: records of the built-in DNS zone.

use clap::Subcommand;
use svc_reference_server::client::{Published, RecordKind};

use crate::complete::Values;
use crate::context::Context;
use crate::control::{self, Done, changes};
use crate::failure::Failure;
use crate::input::choice;
use crate::output_schema::of;

/// The domains of the sandbox.
const DOMAINS: &str = "domains list";

const RECORDS: [&str; 4] = ["mx", "spf", "dkim", "dmarc"];

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Publish the DNS records of a domain
    #[command(add = changes(of::<Published>).of_organization().listed_by(DOMAINS))]
    #[command(after_long_help = "\
  svc sandbox dns publish example.test
  svc sandbox dns publish example.test --record spf --record dkim")]
    Publish {
        /// Domain name
        #[arg(add = Values::DomainName.candidates())]
        domain: String,
        /// Record to publish; repeatable [default: all]
        #[arg(long, value_name = "RECORD", value_delimiter = ',', value_parser = choice::one_of::<RecordKind>(RECORDS))]
        record: Vec<RecordKind>,
    },
    /// Withdraw the DNS records of a domain
    #[command(add = changes(of::<Done>).of_organization().listed_by(DOMAINS))]
    #[command(after_long_help = "svc sandbox dns withdraw example.test spf")]
    Withdraw {
        /// Domain name
        #[arg(add = Values::DomainName.candidates())]
        domain: String,
        /// Record to withdraw [default: all]
        #[arg(value_parser = choice::one_of::<RecordKind>(RECORDS))]
        record: Option<RecordKind>,
    },
}

impl Command {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = control::client(context).await?;
        match self {
            Self::Publish { domain, record } => {
                let sentence = format!("published the records of {domain}");
                control::done(context, &sentence, client.publish_dns(&domain, &record)).await?;
                context
                    .out
                    .hint("then verify the domain: svc --sandbox domains verify ID");
                Ok(())
            }
            Self::Withdraw { domain, record } => {
                let what = record.map_or("the records", RecordKind::as_str);
                let sentence = format!("withdrew {what} of {domain}");
                control::done(context, &sentence, client.withdraw_dns(&domain, record)).await
            }
        }
    }
}
