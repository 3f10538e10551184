//! The `svc sandbox dns publish` command.

use clap::Args;
use serde_json::json;

use crate::complete::Values;
use crate::context::Context;
use crate::control::{self, Request};
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
    #[arg(long, value_name = "RECORD", value_delimiter = ',', value_parser = ["mx", "spf", "dkim", "dmarc"])]
    record: Vec<String>,
    /// Organization, by name or id [default: Sandbox]
    #[arg(long, value_name = "NAME|ID")]
    organization: Option<String>,
}

impl Publish {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let records = (!self.record.is_empty()).then_some(self.record);
        let body = json!({"organization": self.organization, "records": records});
        let path = format!(
            "/_sandbox/dns/{}/publish",
            control::segment(self.domain.trim_end_matches('.'))?
        );
        let request = Request::post(&path).body(control::without_nulls(body));
        let sentence = format!("published the records of {}", self.domain);
        control::done(context, request, &sentence).await?;
        context.out.hint("then verify the domain: svc --sandbox domains verify ID");
        Ok(())
    }
}
