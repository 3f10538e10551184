//! `svc sandbox messages get`.

use clap::Args;

use crate::complete::Values;
use crate::context::Context;
use crate::control::{self, Request};
use crate::failure::Failure;

/// Show a message, its source, its HTML or its links
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  svc sandbox messages get msg_019a
  svc sandbox messages get msg_019a --raw > message.eml
  svc sandbox messages get msg_019a --links

Scope: none; the local server alone")]
pub struct Get {
    /// The message's id
    #[arg(add = Values::Message.candidates())]
    id: String,
    /// Its RFC 5322 source
    #[arg(long, conflicts_with_all = ["html", "links"])]
    raw: bool,
    /// Its HTML part
    #[arg(long, conflicts_with = "links")]
    html: bool,
    /// The links in it
    #[arg(long)]
    links: bool,
    /// The organization it belongs to; `Sandbox` unless named
    #[arg(long, value_name = "NAME|ID")]
    organization: Option<String>,
}

impl Get {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let id = control::segment(&self.id)?;
        let part = match (self.raw, self.html, self.links) {
            (true, _, _) => "/raw",
            (_, true, _) => "/html",
            (_, _, true) => "/links",
            _ => "",
        };
        let request = Request::get(&format!("/_sandbox/messages/{id}{part}"))
            .query("organization", self.organization.as_deref());
        if self.raw || self.html {
            return control::document(context, request).await;
        }
        control::show(context, request, super::VIEW).await
    }
}
