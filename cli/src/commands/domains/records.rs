//! The `svc domains records` command.

use std::net::SocketAddr;

use clap::Args;
use svc_sdk::Operation::DomainsList;
use svc_sdk::email::Domain;

use crate::command_spec::reads;
use crate::complete::Values;
use crate::context::{Context, PLAIN};
use crate::dns::compare::{self, Record, Row};
use crate::dns::{Dns, is_same_domain};
use crate::failure::{Failure, Kind};
use crate::output::{Format, one_line};
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
    /// DNS server to query [default: the domain's own]
    #[arg(long, value_name = "ADDR", value_parser = crate::input::address::parse)]
    resolver: Option<SocketAddr>,
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
        let dns = self.dns(context).await?;
        let progress = context.out.progress("querying DNS");
        let rows = compare::all(&dns, &records).await;
        drop(progress);
        if !context.out.is_table() {
            return context.out.list(&rows, PLAIN, "");
        }
        let shown = rows.iter().map(|Row { record, result }| {
            let why = result.why.as_deref().map(|why| format!(" ({})", one_line(why)));
            let state = context.out.status(result.state);
            format!("{}  DNS now: {state}{}\n", shown(record), why.unwrap_or_default())
        });
        context.out.raw(&shown.collect::<Vec<_>>().join("\n"))
    }

    /// The DNS to query: the one of `--resolver`, the sandbox's, or the domain's own servers.
    async fn dns(&self, context: &Context) -> Result<Dns, Failure> {
        if let Some(server) = self.resolver {
            return Ok(Dns::At(server));
        }
        if context.settings.sandbox
            && let Some(server) = context.sandbox().await?.dns()
        {
            return Ok(Dns::sandbox(server));
        }
        Dns::authoritative().map_err(Failure::other)
    }
}

/// A record on a line, with its value unwrapped on the next so that it can be copied.
pub fn shown(record: &Record<'_>) -> String {
    let text =
        |text: Option<&str>| text.map(|text| one_line(text).into_owned()).unwrap_or_default();
    let priority = record.priority.map(|p| format!("  priority {p}")).unwrap_or_default();
    let (kind, name) = (text(record.record_type), text(record.name));
    format!("{kind}  {name}{priority}\n  {}\n", text(record.value))
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
