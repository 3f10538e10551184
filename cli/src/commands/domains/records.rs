//! The `svc domains records` command.

use clap::Args;
use serde_json::json;
use svc_sdk::Operation::DomainsList;
use svc_sdk::email::{DnsRecord, Domain};

use crate::command_spec::reads;
use crate::complete::Values;
use crate::context::{Context, PLAIN};
use crate::failure::Failure;
use crate::output::{Format, one_line};
use crate::output_schema::{dns_record, list};
use crate::prepared::Prepared;
use crate::resource::Names;

mod formats;

/// Show the DNS records to publish
///
/// `svc domains verify` looks them up. Further output formats: -o bind prints lines of a zone file, -o
/// terraform resources of the type aws_route53_record.
#[derive(Args, Debug)]
#[command(add = reads(&[DomainsList], || list(dns_record)).with_dns_formats())]
#[command(after_long_help = "\
  svc domains records dom_019a
  svc domains records dom_019a -o bind >> db.example.com
  svc domains records dom_019a -o terraform > dns.tf")]
pub struct Records {
    /// Domain id or name
    #[arg(add = Values::Domain.candidates())]
    id: String,
}

impl Records {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.clients.email_client().await?;
        let names = Names::<Domain>::new(context, &client);
        let names = Prepared::new(names).decide(context).await?;
        let records = names.existing(&self.id).await?.item.dns_records();
        if records.is_empty() {
            return Err(Failure::other(format!(
                "the service does not list the DNS records of {}",
                self.id
            ))
            .hint("it returns them when the domain is created"));
        }

        match context.out.format() {
            Format::Bind => context.out.raw_data(&formats::bind(&records)),
            Format::Terraform => context.out.raw_data(&formats::terraform(&records)),
            Format::Table => context.out.raw(&shown(&records)),
            _ => {
                let record = |it: &DnsRecord| {
                    json!({"kind": it.kind, "type": it.record_type, "name": it.name,
                        "priority": it.priority, "value": it.value})
                };
                context
                    .out
                    .list(&records.iter().map(record).collect::<Vec<_>>(), PLAIN, "")
            }
        }
    }
}

/// Each record on a line, with its value unwrapped on the next so that it can be copied.
pub fn shown(records: &[DnsRecord]) -> String {
    let text = |text: &Option<String>| {
        text.as_deref()
            .map(|text| one_line(text).into_owned())
            .unwrap_or_default()
    };
    let record = |record: &DnsRecord| {
        let priority = record
            .priority
            .map(|p| format!("  priority {p}"))
            .unwrap_or_default();
        let kind = text(&record.record_type);
        let name = text(&record.name);
        format!("{kind}  {name}{priority}\n  {}\n", text(&record.value))
    };
    records.iter().map(record).collect::<Vec<_>>().join("\n")
}
