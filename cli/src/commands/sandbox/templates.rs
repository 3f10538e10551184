//! The `svc sandbox templates` commands: email templates of the sandbox.

use std::ffi::OsString;

use clap::Subcommand;
use serde_json::Map;
use svc_reference_server::client::{NewTemplate, RenderedTemplate, Template, TemplateSummary};

use crate::commands::emails::send::parse_variables;
use crate::complete::{Values, at_file};
use crate::context::{Context, Deleted, PLAIN};
use crate::control::{self, Paging, changes, reads, removes};
use crate::failure::Failure;
use crate::input::pairs;
use crate::output::{Column, View};
use crate::output_schema::of;

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Create or replace a template
    #[command(alias = "create", alias = "update")]
    #[command(add = changes(of::<Template>).of_organization())]
    #[command(after_long_help = "\
  svc sandbox templates put welcome --subject 'Hi {{ name }}' \\
      --html @welcome.html")]
    Put {
        /// Template id
        #[arg(add = Values::Template.candidates())]
        id: String,
        /// Default subject of emails with this template
        #[arg(long, value_name = "TEXT")]
        subject: Option<String>,
        /// HTML body: text, @file or - for stdin
        #[arg(long, value_name = "TEXT|@FILE|-", allow_hyphen_values = true, add = at_file())]
        html: Option<OsString>,
        /// Plain-text body: text, @file or - for stdin
        #[arg(long, value_name = "TEXT|@FILE|-", allow_hyphen_values = true, add = at_file())]
        text: Option<OsString>,
    },
    /// List the templates
    #[command(add = reads(of::<Vec<TemplateSummary>>).of_organization())]
    List {
        #[command(flatten)]
        paging: Paging,
    },
    /// Show a template
    #[command(add = reads(of::<Template>).of_organization())]
    #[command(after_long_help = "svc sandbox templates get welcome")]
    Get {
        /// Template id
        #[arg(add = Values::Template.candidates())]
        id: String,
    },
    /// Render a template without sending an email
    ///
    /// Fails as a send would if a variable has no value. An email has a subject of its own in place of
    /// the subject of the template.
    #[command(add = reads(of::<RenderedTemplate>).of_organization())]
    #[command(after_long_help = "\
  svc sandbox templates render welcome --var name=Ada
  svc sandbox templates render welcome --vars @variables.json --jq .html \\
      > welcome.html")]
    Render {
        /// Template id
        #[arg(add = Values::Template.candidates())]
        id: String,
        /// Template variable; repeatable
        ///
        /// KEY=TEXT sets a text, KEY:=JSON a JSON value.
        #[arg(long, value_name = "KEY=VALUE", value_parser = pairs::parse)]
        var: Vec<pairs::Pair>,
        /// Template variables as a JSON object
        #[arg(long, value_name = "JSON|@FILE|-", add = at_file())]
        vars: Option<OsString>,
    },
    /// Delete a template
    #[command(add = removes(of::<Deleted>).of_organization())]
    #[command(after_long_help = "svc sandbox templates delete welcome --yes")]
    Delete {
        /// Template id
        #[arg(add = Values::Template.candidates())]
        id: String,
    },
}

impl Command {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = control::client(context).await?;
        match self {
            Self::Put {
                id,
                subject,
                html,
                text,
            } => {
                let html = html.map(|html| context.text("--html", &html)).transpose()?;
                let text = text.map(|text| context.text("--text", &text)).transpose()?;
                let template = NewTemplate {
                    organization: None,
                    subject,
                    html,
                    text,
                };
                control::show(context, PLAIN, client.put_template(&id, &template)).await
            }
            Self::List { paging } => {
                paging
                    .pages(context, LIST, "no templates", || client.templates())
                    .await
            }
            Self::Get { id } => control::show(context, PLAIN, client.template(&id)).await,
            Self::Render { id, var, vars } => {
                let mut variables = match &vars {
                    Some(vars) => parse_variables(&context.text("--vars", vars)?)?,
                    None => Map::new(),
                };
                variables.extend(pairs::object("--var", var)?);
                control::show(context, PLAIN, client.render_template(&id, variables)).await
            }
            Self::Delete { id } => {
                let request = client.delete_template(&id);
                control::delete(context, ("Delete", "template"), &id, request).await
            }
        }
    }
}

/// Table columns of a template in a list.
const LIST: View = View(&[
    Column::id("ID", "/id"),
    Column::text("SUBJECT", "/subject"),
    Column::flag("HTML", "/hasHtml"),
    Column::flag("TEXT", "/hasText"),
    Column::time("UPDATED", "/updatedAt"),
]);
