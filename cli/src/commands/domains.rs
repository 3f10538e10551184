//! The `svc domains` commands: sending domains and their DNS records.

pub mod records;
pub mod verify;

use clap::Args;
use serde_json::Value;
use svc_sdk::email::Domain;
use svc_sdk::{Call, Deleted, EmailClient, ListStream, Operation};

use crate::command_line::shell_quoted;
use crate::command_spec::creates;
use crate::complete::Values;
use crate::context::Context;
use crate::dns::{is_reserved, is_same_domain};
use crate::failure::Failure;
use crate::output::{Column, View};
use crate::output_schema::domain;
use crate::resource::{Anywhere, Delete, Get, ListAll, Resource};

group! {
    pub enum Command {
        Create(Create),
        List(ListAll<Domain>),
        Get(Get<Domain>),
        Verify(verify::Verify),
        Records(records::Records),
        Delete(Delete<Domain>),
    }
}

impl Resource for Domain {
    type Client = EmailClient;
    type Within = Anywhere;
    const GROUP: &'static str = "domains";
    const NOUN: &'static str = "domain";
    const NAMED_BY: &'static str = "name";
    const SAMPLES: [&'static str; 2] = ["dom_019a", "example.com"];
    const CREATE: &'static str = "create example.com";
    const DELETED_WITH_IT: &'static str = " and every mailbox under it";
    const LISTS: &'static [Operation] = &[Operation::DomainsList];
    const DELETES: &'static [Operation] = &[Operation::DomainsDelete];
    const COMPLETED: Values = Values::Domain;
    const SCHEMA: fn() -> Value = domain;
    const VIEW: View = View(&[
        Column::id("ID", "/id"),
        Column::text("NAME", "/name").key(),
        Column::flag("VERIFIED", "/verified"),
        Column::flag("MX", "/mx_verified").droppable(),
        Column::flag("SPF", "/spf_verified").droppable(),
        Column::flag("DKIM", "/dkim_verified").droppable(),
        Column::flag("DMARC", "/dmarc_verified").droppable(),
    ]);

    async fn client(context: &Context) -> Result<EmailClient, Failure> {
        context.clients.email_client().await
    }

    fn stream(client: &EmailClient) -> Option<ListStream<Self>> {
        Some(client.domains().stream())
    }

    fn delete(client: &EmailClient, id: &str) -> Call<Deleted> {
        client.domains().delete(id)
    }

    fn named(&self) -> (&String, &Option<String>) {
        (&self.id, &self.name)
    }

    fn is_same_name(one: &str, other: &str) -> bool {
        is_same_domain(one, other)
    }
}

/// Add a sending domain and show the DNS records to publish
#[derive(Args, Debug)]
#[command(add = creates(&[Operation::DomainsCreate], domain))]
#[command(after_long_help = "\
  svc domains create example.com
  svc domains create example.com \\
      --jq '.records[] | [.type, .name, .value] | @tsv'")]
pub struct Create {
    /// Domain name
    name: String,
}

impl Create {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.clients.email_client().await?;
        let call = client.domains().create(self.name.as_str());
        let domain = context.call(call, "adding").await?;
        let records = domain.dns_records();
        if records.is_empty() || !context.out.is_table() {
            return context.out.one(&domain, Domain::VIEW);
        }

        context.out.note(&format!(
            "added {} as {}; publish these records:",
            self.name,
            shell_quoted(&domain.id)
        ));
        context.out.raw(&records::shown(&records))?;
        if context.settings.sandbox && is_reserved(&self.name) {
            let publish = context.svc("sandbox dns publish {}", &[&self.name]);
            context
                .out
                .hint(&format!("publish them in the sandbox: {publish}"));
        }

        let follow = context.svc("domains verify {} --wait", &[&domain.id]);
        context
            .out
            .hint(&format!("then verify the domain: {follow}"));
        Ok(())
    }
}
