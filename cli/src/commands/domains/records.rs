//! The `svc domains records` command.

use clap::Args;
use svc_sdk::Operation::DomainsList;
use svc_sdk::email::Domain;

use super::live;
use crate::command_spec::reads;
use crate::complete::Values;
use crate::context::{Context, PLAIN};
use crate::dns::compare::{self, Row};
use crate::failure::{Failure, Kind};
use crate::names::is_same_domain;
use crate::output::Format;
use crate::output_schema::of;

mod formats;

/// Show the DNS records to publish and their current state
#[derive(Args, Debug)]
#[command(add = reads(&[DomainsList], of::<Vec<Row>>))]
#[command(after_long_help = "\
Examples:
  svc domains records dom_019a
  svc domains records dom_019a -o bind >> db.example.com
  svc domains records dom_019a -o terraform > dns.tf")]
pub struct Records {
    /// Domain id or name
    #[arg(add = Values::DomainOrName.candidates())]
    id: String,
    #[command(flatten)]
    lookup: live::Lookup,
}

impl Records {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
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
        match context.out.format() {
            Format::Bind => return context.out.raw_data(&formats::bind(&records)),
            Format::Terraform => return context.out.raw_data(&formats::terraform(&records)),
            _ => {}
        }
        let dns = self.lookup.dns(context).await?;
        let progress = context.out.progress("querying DNS");
        let rows = compare::all(&dns, &records).await;
        drop(progress);
        match context.out.is_table() {
            true => live::show(context, &rows),
            false => context.out.list(&rows, PLAIN, ""),
        }
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
