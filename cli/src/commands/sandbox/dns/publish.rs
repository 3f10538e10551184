//! The `svc sandbox dns publish` command.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use svc_reference_server::client::RecordKind;

use crate::complete::Values;
use crate::context::Context;
use crate::control;
use crate::failure::Failure;

/// Publish the DNS records of a domain
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc sandbox dns publish example.test
  svc sandbox dns publish example.test --record spf --record dkim

Scope: none (local server)")]
pub struct Publish {
    /// Domain name
    #[arg(add = Values::DomainName.candidates())]
    domain: String,
    /// Record to publish; repeatable [default: all]
    #[arg(long, value_name = "RECORD", value_delimiter = ',', value_parser = PossibleValuesParser::new(["mx", "spf", "dkim", "dmarc"]).try_map(|kind| kind.parse::<RecordKind>()))]
    record: Vec<RecordKind>,
    /// Organization, by name or id [default: Sandbox]
    #[arg(long, value_name = "NAME|ID")]
    organization: Option<String>,
}

impl Publish {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = control::client(context, self.organization.as_deref()).await?;
        let request = client.dns().publish(self.domain.trim_end_matches('.'), &self.record);
        let sentence = format!("published the records of {}", self.domain);
        control::done(context, request, &sentence).await?;
        context.out.hint("then verify the domain: svc --sandbox domains verify ID");
        Ok(())
    }
}
