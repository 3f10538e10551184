//! The `svc domains records` command.

use clap::{Args, ValueEnum};
use svc_sdk::Operation::DomainsList;
use svc_sdk::email::{DnsRecord, Domain};

use super::live;
use crate::command_spec::reads;
use crate::complete::Values;
use crate::context::{Context, PLAIN};
use crate::dns::compare::Row;
use crate::dns::compare::{self, Record};
use crate::failure::{Failure, Kind};
use crate::names::is_same_domain;
use crate::output_schema::{any_of, of};

mod formats;

/// Show the DNS records to publish and their current state
#[derive(Args, Debug)]
#[command(add = reads(&[DomainsList], || { any_of(&[of::<Vec<Row>>, of::<Vec<Record>>]) }))]
#[command(after_long_help = "\
Examples:
  svc domains records dom_019a
  svc domains records dom_019a --format bind >> db.example.com
  svc domains records dom_019a --format terraform > dns.tf")]
pub struct Records {
    /// Domain id or name
    #[arg(add = Values::DomainOrName.candidates())]
    id: String,
    /// Format for another tool; skips DNS lookups
    #[arg(long, value_name = "bind|json|terraform", hide_possible_values = true)]
    format: Option<Format>,
    #[command(flatten)]
    lookup: live::Lookup,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// Zone file lines
    Bind,
    /// A JSON array
    Json,
    /// aws_route53_record resources
    Terraform,
}

impl Records {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let is_text = matches!(self.format, Some(Format::Bind | Format::Terraform));
        context.check_format_option(is_text)?;
        let client = context.email_client().await?;
        let Some(list) = context.call(client.domains().list(), "reading").await? else {
            return Ok(());
        };
        let domain = find(&list, &self.id)?;
        let records = domain.dns_records();
        if records.is_empty() {
            return Err(Failure::other(format!(
                "the service does not list the DNS records of {}",
                self.id
            ))
            .hint("it returns them when the domain is created"));
        }
        let text = match self.format {
            None => {
                let dns = self.lookup.dns(context).await?;
                let progress = context.out.progress("querying DNS");
                let rows = compare::all(&dns, &records).await;
                drop(progress);
                if context.out.is_table() {
                    return live::show(context, &rows);
                }
                return context.out.list(&rows, PLAIN, "");
            }
            Some(Format::Json) => return context.out.value(&plain(&records)),
            Some(Format::Bind) => formats::bind(&records),
            Some(Format::Terraform) => formats::terraform(&records),
        };
        context.out.document(&text, &plain(&records))
    }
}

fn find<'a>(list: &'a [Domain], id: &str) -> Result<&'a Domain, Failure> {
    let by_name =
        |domain: &&Domain| domain.name.as_deref().is_some_and(|name| is_same_domain(name, id));
    list.iter().find(|domain| domain.id == id).or_else(|| list.iter().find(by_name)).ok_or_else(
        || {
            Failure::new(Kind::NotFound, format!("domain {id} not found"))
                .code("not_found")
                .hint("list the domains: svc domains list")
        },
    )
}

fn plain(records: &[DnsRecord]) -> Vec<Record<'_>> {
    records.iter().map(Record::from).collect()
}
