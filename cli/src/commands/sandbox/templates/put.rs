//! `svc sandbox templates put`.

use clap::Args;
use serde_json::json;

use crate::complete::at_file;
use crate::context::Context;
use crate::context::PLAIN;
use crate::control::{self, Request};
use crate::failure::Failure;

/// Create or replace a template
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  svc sandbox templates put welcome --subject 'Hi {{ name }}' --html @welcome.html

Scope: none; the local server alone")]
pub struct Put {
    /// The template's id
    id: String,
    /// Subject, used where an email gives none
    #[arg(long, value_name = "TEXT")]
    subject: Option<String>,
    /// HTML part: the text itself, @file, or - for standard input
    #[arg(long, value_name = "TEXT|@FILE|-", allow_hyphen_values = true, add = at_file())]
    html: Option<String>,
    /// Plain-text part
    #[arg(long, value_name = "TEXT|@FILE|-", allow_hyphen_values = true, add = at_file())]
    text: Option<String>,
    /// The organization it belongs to; `Sandbox` unless named
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
