//! `svc sandbox dns withdraw`.

use clap::Args;

use crate::complete::Values;
use crate::context::Context;
use crate::control::{self, Request};
use crate::failure::Failure;

/// Withdraw the records of a domain, or one of them
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  svc sandbox dns withdraw example.test spf

Scope: none; the local server alone")]
pub struct Withdraw {
    /// The domain name
    #[arg(add = Values::DomainName.candidates())]
    domain: String,
    /// Which record; all without it
    #[arg(value_parser = ["mx", "spf", "dkim", "dmarc"])]
    record: Option<String>,
    /// The organization it belongs to; `Sandbox` unless named
    #[arg(long, value_name = "NAME|ID")]
    organization: Option<String>,
}

impl Withdraw {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let mut path = format!("/_sandbox/dns/{}", control::segment(&self.domain)?);
        if let Some(record) = &self.record {
            path.push('/');
            path.push_str(record);
        }
        let request = Request::delete(&path).query("organization", self.organization.as_deref());
        let what = self.record.unwrap_or_else(|| "the records".to_owned());
        control::done(context, request, &format!("withdrew {what} of {}", self.domain)).await
    }
}
