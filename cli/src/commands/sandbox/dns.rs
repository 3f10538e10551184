//! The `svc sandbox dns` commands: records of the built-in DNS zone.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use svc_reference_server::client::Published;
use svc_reference_server::client::RecordKind;

use crate::command_spec::changes;
use crate::complete::Values;
use crate::context::Context;
use crate::control::Done;
use crate::control::{self, OfOrganization};
use crate::failure::Failure;
use crate::output_schema::of;

group! {
    pub enum Command {
        Publish(Publish),
        Withdraw(Withdraw),
    }
}

/// Publish the DNS records of a domain
#[derive(Args, Debug)]
#[command(add = changes(&[], of::<Published>).of_sandbox())]
#[command(after_long_help = "\
Examples:
  svc sandbox dns publish example.test
  svc sandbox dns publish example.test --record spf --record dkim")]
pub struct Publish {
    /// Domain name
    #[arg(add = Values::DomainName.candidates())]
    domain: String,
    /// Record to publish; repeatable [default: all]
    #[arg(long, value_name = "RECORD", value_delimiter = ',', value_parser = PossibleValuesParser::new(["mx", "spf", "dkim", "dmarc"]).try_map(|kind| kind.parse::<RecordKind>()))]
    record: Vec<RecordKind>,
    #[command(flatten)]
    organization: OfOrganization,
}

impl Publish {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = self.organization.client(context).await?;
        let request = client.dns().publish(self.domain.trim_end_matches('.'), &self.record);
        let sentence = format!("published the records of {}", self.domain);
        control::done(context, request, &sentence).await?;
        context.out.hint("then verify the domain: svc --sandbox domains verify ID");
        Ok(())
    }
}

/// Withdraw the DNS records of a domain
#[derive(Args, Debug)]
#[command(add = changes(&[], of::<Done>).of_sandbox())]
#[command(after_long_help = "\
Examples:
  svc sandbox dns withdraw example.test spf")]
pub struct Withdraw {
    /// Domain name
    #[arg(add = Values::DomainName.candidates())]
    domain: String,
    /// Record to withdraw [default: all]
    #[arg(value_parser = PossibleValuesParser::new(["mx", "spf", "dkim", "dmarc"]).try_map(|kind| kind.parse::<RecordKind>()))]
    record: Option<RecordKind>,
    #[command(flatten)]
    organization: OfOrganization,
}

impl Withdraw {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = self.organization.client(context).await?;
        let request = client.dns().withdraw(self.domain.trim_end_matches('.'), self.record);
        let what = self.record.map_or("the records", RecordKind::as_str);
        control::done(context, request, &format!("withdrew {what} of {}", self.domain)).await
    }
}
