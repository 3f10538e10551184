//! `svc sandbox dns publish`.

use clap::Args;
use serde_json::json;

use crate::complete::Values;
use crate::context::Context;
use crate::control::{self, Request};
use crate::failure::Failure;

/// Publish the records that a domain asked for
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  svc sandbox dns publish example.test
  svc sandbox dns publish example.test --record spf --record dkim

Scope: none; the local server alone")]
pub struct Publish {
    /// The domain name
    #[arg(add = Values::DomainName.candidates())]
    domain: String,
    /// Which records; all by default
    #[arg(long, value_name = "RECORD", value_delimiter = ',', value_parser = ["mx", "spf", "dkim", "dmarc"])]
    record: Vec<String>,
    /// The organization it belongs to; `Sandbox` unless named
    #[arg(long, value_name = "NAME|ID")]
    organization: Option<String>,
}

impl Publish {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let records = (!self.record.is_empty()).then_some(self.record);
        let body = json!({"organization": self.organization, "records": records});
        let path = format!("/_sandbox/dns/{}/publish", control::segment(&self.domain)?);
        let request = Request::post(&path).body(control::without_nulls(body));
        let sentence = format!("published the records of {}", self.domain);
        control::done(context, request, &sentence).await?;
        context.out.hint("have them checked: svc --sandbox domains verify ID");
        Ok(())
    }
}
