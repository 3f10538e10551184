//! The `svc contacts list` command.

use std::pin::pin;

use clap::Args;
use futures_util::TryStreamExt as _;

use crate::complete::Values;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Format};

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
    /// Audience id
    #[arg(add = Values::Audience.candidates())]
    audience: String,
    /// Page number [default: the first page]
    #[arg(long, value_name = "N", conflicts_with = "all")]
    page: Option<u64>,
    /// Contacts per page [default: the service's]
    #[arg(long, value_name = "N")]
    page_size: Option<u64>,
    /// Fetch every page; NDJSON is written page by page
    #[arg(long)]
    all: bool,
}

impl List {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.email_client().await?;
        if !self.all || context.settings.dry_run {
            let mut call = client.contacts().list(&self.audience);
            if let Some(page) = self.page {
                call = call.page(page);
            }
            if let Some(size) = self.page_size {
                call = call.page_size(size);
            }
            let Some(list) = context.call(call, "reading").await? else { return Ok(()) };
            let none = match self.page {
                Some(page) => format!("no contacts on page {page} of this audience"),
                None => NONE.to_owned(),
            };
            context.out.list(&output::to_values(&list), VIEW, &none)?;
            if let (Some(page), Some(pages)) = (list.page, list.total_pages)
                && pages > 1
            {
                context.out.hint(&format!("page {page} of {pages}; use --all for every page"));
            }
            return Ok(());
        }
        let mut stream = client.contacts().stream(&self.audience);
        if let Some(size) = self.page_size {
            stream = stream.page_size(size);
        }
        let mut stream = pin!(stream);
        let mut items = Vec::new();
        let progress = context.out.progress("reading all pages");
        while let Some(contact) = stream.try_next().await? {
            let contact = output::to_value(&contact);
            if context.out.format() == Format::Ndjson {
                context.out.one(&contact, VIEW)?;
            } else {
                items.push(contact);
            }
        }
        drop(progress);
        if context.out.format() == Format::Ndjson {
            return Ok(());
        }
        context.out.list(&items, VIEW, NONE)
    }
}
