//! The `svc sandbox templates put` command.

use clap::Args;
use svc_reference_server::client::NewTemplate;

use crate::complete::{Values, at_file};
use crate::context::Context;
use crate::context::PLAIN;
use crate::control::{self, OfOrganization};
use crate::failure::Failure;

/// Create or replace a template
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc sandbox templates put welcome --subject 'Hi {{ name }}' --html @welcome.html

Scope: none (local server)")]
pub struct Put {
    /// Template id
    #[arg(add = Values::Template.candidates())]
    id: String,
    /// Default subject of emails with this template
    #[arg(long, value_name = "TEXT")]
    subject: Option<String>,
    /// HTML body: text, @file or - for stdin
    #[arg(long, value_name = "TEXT|@FILE|-", allow_hyphen_values = true, add = at_file())]
    html: Option<String>,
    /// Plain-text body: text, @file or - for stdin
    #[arg(long, value_name = "TEXT|@FILE|-", allow_hyphen_values = true, add = at_file())]
    text: Option<String>,
    #[command(flatten)]
    organization: OfOrganization,
}

impl Put {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = self.organization.client(context).await?;
        let mut template = NewTemplate::new();
        if let Some(subject) = self.subject {
            template = template.subject(subject);
        }
        if let Some(html) = &self.html {
            template = template.html(context.text("--html", html)?);
        }
        if let Some(text) = &self.text {
            template = template.text(context.text("--text", text)?);
        }
        control::show(context, client.templates().put(&self.id, &template), PLAIN).await
    }
}
