//! The `svc sandbox templates put` command.

use clap::Args;
use serde_json::json;

use crate::complete::at_file;
use crate::context::Context;
use crate::context::PLAIN;
use crate::control::{self, Request};
use crate::failure::Failure;

/// Create or replace a template
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc sandbox templates put welcome --subject 'Hi {{ name }}' --html @welcome.html

Scope: none (local server)")]
pub struct Put {
    /// Template id
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
    /// Organization, by name or id [default: Sandbox]
    #[arg(long, value_name = "NAME|ID")]
    organization: Option<String>,
}

impl Put {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let read = |option, value: &Option<String>| {
            value.as_deref().map(|v| context.inputs.text(&context.out, option, v)).transpose()
        };
        let body = json!({
            "organization": self.organization,
            "subject": self.subject,
            "html": read("--html", &self.html)?,
            "text": read("--text", &self.text)?,
        });
        let path = format!("/_sandbox/templates/{}", control::segment(&self.id)?);
        control::show(context, Request::put(&path).body(control::without_nulls(body)), PLAIN).await
    }
}
