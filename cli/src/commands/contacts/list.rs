//! The `svc contacts list` command.

use clap::Args;
use svc_sdk::EmailClient;

use crate::complete::Values;
use crate::contact_pages;
use crate::context::Context;
use crate::failure::Failure;
use crate::names::{self, Names};
use crate::output::Format;

use super::VIEW;

const NONE: &str = "no contacts in this audience";

/// List the contacts of an audience, one page or all
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc contacts list aud_019a --page 2 --page-size 50
  svc contacts list aud_019a --all -o ndjson

Scope: contacts:manage")]
pub struct List {
    /// Audience id or name
    #[arg(add = Values::Audience.candidates())]
    audience: String,
    /// Page number [default: the first page]
    #[arg(long, value_name = "N", conflicts_with = "all")]
    page: Option<u64>,
    /// Contacts per page [default: the service's; 100 with --all]
    #[arg(long, value_name = "N")]
    page_size: Option<u64>,
    /// Fetch every page; NDJSON is written page by page
    #[arg(long)]
    all: bool,
}

impl List {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.email_client().await?;
        let names = Names::Audience(&client);
        if self.all && !context.settings.dry_run {
            let list = async |audience: &str| self.all(context, &client, audience).await;
            return names::with_id(context, names, &self.audience, list).await;
        }
        let list = async |audience: &str| {
            let mut call = client.contacts().list(audience);
            if let Some(page) = self.page {
                call = call.page(page);
            }
            if let Some(size) = self.page_size {
                call = call.page_size(size);
            }
            context.call(call, "reading").await
        };
        let list = names::with_id(context, names, &self.audience, list).await?;
        let Some(list) = list else { return Ok(()) };
        let none = match self.page {
            Some(page) => format!("no contacts on page {page} of this audience"),
            None => NONE.to_owned(),
        };
        context.out.list(&list, VIEW, &none)?;
        if let (Some(page), Some(pages)) = (list.page, list.total_pages)
            && pages > 1
        {
            context.out.note(&format!("page {page} of {pages}; use --all for every page"));
        }
        Ok(())
    }

    async fn all(
        &self,
        context: &Context,
        client: &EmailClient,
        audience: &str,
    ) -> Result<(), Failure> {
        let mut items = Vec::new();
        let progress = context.out.progress("reading all pages");
        let read = contact_pages::for_each(client, audience, self.page_size, |contact| {
            if context.out.format() == Format::Ndjson {
                return context.out.one(&contact, VIEW);
            }
            items.push(contact);
            Ok(())
        });
        read.await?;
        drop(progress);
        if context.out.format() == Format::Ndjson {
            return Ok(());
        }
        context.out.list(&items, VIEW, NONE)
    }
}
