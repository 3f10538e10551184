//! The `svc domains` commands: sending domains and their DNS records.

pub mod live;
pub mod records;
pub mod verify;

use clap::Args;
use svc_sdk::Operation::{DomainsCreate, DomainsDelete, DomainsList};

use crate::command_spec::{creates, reads, removes};
use crate::complete::Values;
use crate::context::Context;
use crate::context::Deleted;
use crate::dns::{compare, is_reserved};
use crate::failure::Failure;
use crate::names;
use crate::names::{Names, Target};
use crate::output::{Column, Show, View};
use crate::output_schema::{domain, list, of};

/// Table columns of a domain.
pub const VIEW: View = View(&[
    Column::id("ID", "/id"),
    Column::text("NAME", "/name"),
    Column::new("VERIFIED", "/verified", Show::Flag),
    Column::new("MX", "/mx_verified", Show::Flag).droppable(),
    Column::new("SPF", "/spf_verified", Show::Flag).droppable(),
    Column::new("DKIM", "/dkim_verified", Show::Flag).droppable(),
    Column::new("DMARC", "/dmarc_verified", Show::Flag).droppable(),
]);

group! {
    pub enum Command {
        Create(Create),
        List(List),
        Verify(verify::Verify),
        Records(records::Records),
        Delete(Delete),
    }
}

/// Add a sending domain and show the DNS records to publish
///
/// On a terminal, the current DNS state is shown beside each record.
#[derive(Args, Debug)]
#[command(add = creates(&[DomainsCreate], domain))]
#[command(after_long_help = "\
Examples:
  svc domains create example.com
  svc domains create example.com \\
      --jq '.records[] | [.type, .name, .value] | @tsv'")]
pub struct Create {
    /// Domain name
    name: String,
    #[command(flatten)]
    lookup: live::Lookup,
}

impl Create {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.email_client().await?;
        let call = client.domains().create(self.name.as_str());
        let Some(domain) = context.call(call, "adding").await? else { return Ok(()) };
        let records = domain.dns_records();
        if records.is_empty() || !context.out.is_table() {
            return context.out.one(&domain, VIEW);
        }
        context.out.note(&format!("added {} as {}; publish these records:", self.name, domain.id));
        let dns = self.lookup.dns(context).await?;
        let progress = context.out.progress("querying DNS");
        let rows = compare::all(&dns, &records).await;
        drop(progress);
        live::show(context, &rows)?;
        if context.settings.sandbox && is_reserved(&self.name) {
            let publish = context.svc(&format!("sandbox dns publish {}", self.name));
            context.out.hint(&format!("publish them in the sandbox: {publish}"));
        }
        let follow = context.svc(&format!("domains verify {} --wait", domain.id));
        context.out.hint(&format!("then verify the domain: {follow}"));
        Ok(())
    }
}

/// List all sending domains
#[derive(Args, Debug)]
#[command(add = reads(&[DomainsList], || list(domain)))]
#[command(after_long_help = "\
Examples:
  svc domains list
  svc domains list --jq '.[] | select(.verified | not) | .name'")]
pub struct List {}

impl List {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.email_client().await?;
        if let Some(list) = context.call(client.domains().list(), "reading").await? {
            let none =
                format!("no domains; add one: {}", context.svc("domains create example.com"));
            context.out.list(&list, VIEW, &none)?;
        }
        Ok(())
    }
}

/// Delete a domain and every mailbox under it
#[derive(Args, Debug)]
#[command(add = removes(&[DomainsDelete], of::<Deleted>))]
#[command(after_long_help = "\
Examples:
  svc domains delete example.com
  svc domains delete dom_019a --yes")]
pub struct Delete {
    /// Domain id or name
    #[arg(add = Values::DomainOrName.candidates())]
    id: String,
}

impl Delete {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.email_client().await?;
        let names = Names::Domain(&client);
        let question = |target: &Target| {
            format!("Delete domain {target} and every mailbox under it? This cannot be undone.")
        };
        let delete = |id: &str| client.domains().delete(id);
        names::delete(context, names, &self.id, question, delete).await
    }
}
