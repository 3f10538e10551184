//! The `svc sandbox templates render` command.

use clap::Args;
use serde_json::{Map, json};
use svc_reference_server::client::RenderedTemplate;

use crate::commands::emails::send::parse_variables;
use crate::complete::{Values, at_file};
use crate::context::Context;
use crate::control::{self, OfOrganization};
use crate::failure::Failure;
use crate::input::pairs;
use crate::output::{Column, View};

/// Table columns of a rendered template.
const VIEW: View = View(&[
    Column::text("SUBJECT", "/subject"),
    Column::text("TEXT", "/text"),
    Column::text("HTML", "/html"),
]);

/// Render a template without sending an email
///
/// Fails as a send would if a variable has no value. An email has a subject of its own in place of
/// the subject of the template.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc sandbox templates render welcome --var name=Ada
  svc sandbox templates render welcome --vars @variables.json --html > welcome.html

Scope: none (local server)")]
pub struct Render {
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
    vars: Option<String>,
    /// Print only the HTML body
    #[arg(long, conflicts_with = "text")]
    html: bool,
    /// Print only the plain-text body
    #[arg(long)]
    text: bool,
    #[command(flatten)]
    organization: OfOrganization,
}

impl Render {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let mut variables = match &self.vars {
            Some(vars) => parse_variables(&context.json_text("--vars", vars)?)?,
            None => Map::new(),
        };
        variables.extend(pairs::object("--var", self.var)?);
        let client = self.organization.client(context).await?;
        let request = client.templates().render(&self.id, variables);
        if !self.html && !self.text {
            return control::show(context, request, VIEW).await;
        }
        let Some(rendered) = control::send(context, request).await? else { return Ok(()) };
        let RenderedTemplate { html, text, .. } = rendered;
        let (part, name) = if self.html { (html, "HTML") } else { (text, "plain-text") };
        let text = part.ok_or_else(|| {
            Failure::input(format!("the template {} has no {name} body", self.id))
        })?;
        context.out.document(&text, || json!({"text": text}))
    }
}
