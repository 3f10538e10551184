//! The `svc sandbox dns withdraw` command.

use clap::Args;

use crate::complete::Values;
use crate::context::Context;
use crate::control::{self, Request};
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
    #[arg(value_parser = ["mx", "spf", "dkim", "dmarc"])]
    record: Option<String>,
    /// Organization, by name or id [default: Sandbox]
    #[arg(long, value_name = "NAME|ID")]
    organization: Option<String>,
}

impl Withdraw {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let mut path =
            format!("/_sandbox/dns/{}", control::segment(self.domain.trim_end_matches('.'))?);
        if let Some(record) = &self.record {
            path.push('/');
            path.push_str(record);
        }
        let request = Request::delete(&path).query("organization", self.organization.as_deref());
        let what = self.record.unwrap_or_else(|| "the records".to_owned());
        control::done(context, request, &format!("withdrew {what} of {}", self.domain)).await
    }
}
