//! The `svc domains create` command.

use clap::Args;

use super::{VIEW, live};
use crate::context::Context;
use crate::dns::{compare, is_reserved};
use crate::failure::Failure;

/// Add a sending domain and show the DNS records to publish
///
/// On a terminal, the current DNS state is shown beside each record.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc domains create example.com
  svc domains create example.com --jq '.records[] | [.type, .name, .value] | @tsv'

Scope: domains:manage")]
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
