//! The `svc sandbox dns withdraw` command.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use svc_reference_server::client::RecordKind;

use crate::complete::Values;
use crate::context::Context;
use crate::control;
use crate::failure::Failure;

/// Withdraw the DNS records of a domain
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc sandbox dns withdraw example.test spf

Scope: none (local server)")]
pub struct Withdraw {
    /// Domain name
    #[arg(add = Values::DomainName.candidates())]
    domain: String,
    /// Record to withdraw [default: all]
    #[arg(value_parser = PossibleValuesParser::new(["mx", "spf", "dkim", "dmarc"]).try_map(|kind| kind.parse::<RecordKind>()))]
    record: Option<RecordKind>,
    /// Organization, by name or id [default: Sandbox]
    #[arg(long, value_name = "NAME|ID")]
    organization: Option<String>,
}

impl Withdraw {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = control::client(context, self.organization.as_deref()).await?;
        let request = client.dns().withdraw(self.domain.trim_end_matches('.'), self.record);
        let what = self.record.map_or("the records", RecordKind::as_str);
        control::done(context, request, &format!("withdrew {what} of {}", self.domain)).await
    }
}
