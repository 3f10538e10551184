//! The `svc sandbox templates` commands: email templates of the local server.

use clap::Args;
use serde_json::Map;
use svc_reference_server::client::Template;
use svc_reference_server::client::TemplateSummary;
use svc_reference_server::client::{NewTemplate, RenderedTemplate};

use crate::command_spec::{changes, reads, removes};
use crate::commands::emails::send::parse_variables;
use crate::complete::{Values, at_file};
use crate::confirm::confirm;
use crate::context::Deleted;
use crate::context::{Context, PLAIN};
use crate::control::{self, OfOrganization, Text};
use crate::failure::Failure;
use crate::input::pairs;
use crate::output::{Column, Show, View};
use crate::output_schema::{any_of, of};

group! {
    pub enum Command {
        Put(Put),
        List(List),
        Get(Get),
        Render(Render),
        Delete(Delete),
    }
}

/// Create or replace a template
#[derive(Args, Debug)]
#[command(add = changes(&[], of::<Template>).of_sandbox())]
#[command(after_long_help = "\
Examples:
  svc sandbox templates put welcome --subject 'Hi {{ name }}' \\
      --html @welcome.html")]
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

/// Table columns of a template in a list.
const LIST: View = View(&[
    Column::id("ID", "/id"),
    Column::text("SUBJECT", "/subject"),
    Column::new("HTML", "/hasHtml", Show::Flag),
    Column::new("TEXT", "/hasText", Show::Flag),
    Column::new("UPDATED", "/updatedAt", Show::Time),
]);

/// List the templates
#[derive(Args, Debug)]
#[command(add = reads(&[], of::<Vec<TemplateSummary>>).of_sandbox())]
#[command(after_long_help = "\
Examples:
  svc sandbox templates list")]
pub struct List {
    /// Fetch every page [default: the first 20]
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    organization: OfOrganization,
}

impl List {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = self.organization.client(context).await?;
        control::pages(context, || client.templates().list(), self.all, LIST, "no templates").await
    }
}

/// Show a template
#[derive(Args, Debug)]
#[command(add = reads(&[], of::<Template>).of_sandbox())]
#[command(after_long_help = "\
Examples:
  svc sandbox templates get welcome")]
pub struct Get {
    /// Template id
    #[arg(add = Values::Template.candidates())]
    id: String,
    #[command(flatten)]
    organization: OfOrganization,
}

impl Get {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = self.organization.client(context).await?;
        control::show(context, client.templates().get(&self.id), PLAIN).await
    }
}

/// Table columns of a rendered template.
const RENDERED: View = View(&[
    Column::text("SUBJECT", "/subject"),
    Column::text("TEXT", "/text"),
    Column::text("HTML", "/html"),
]);

/// Render a template without sending an email
///
/// Fails as a send would if a variable has no value. An email has a subject of its own in place of
/// the subject of the template.
#[derive(Args, Debug)]
#[command(add = reads(&[], || any_of(&[of::<RenderedTemplate>, of::<Text>])).of_sandbox())]
#[command(after_long_help = "\
Examples:
  svc sandbox templates render welcome --var name=Ada
  svc sandbox templates render welcome --vars @variables.json --html \\
      > welcome.html")]
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
            return control::show(context, request, RENDERED).await;
        }
        let Some(rendered) = control::send(context, request).await? else { return Ok(()) };
        let RenderedTemplate { html, text, .. } = rendered;
        let (part, name) = if self.html { (html, "HTML") } else { (text, "plain-text") };
        let text = part.ok_or_else(|| {
            Failure::input(format!("the template {} has no {name} body", self.id))
        })?;
        context.out.document(&text, &Text { text: &text })
    }
}

/// Delete a template
#[derive(Args, Debug)]
#[command(add = removes(&[], of::<Deleted>).of_sandbox())]
#[command(after_long_help = "\
Examples:
  svc sandbox templates delete welcome --yes")]
pub struct Delete {
    /// Template id
    #[arg(add = Values::Template.candidates())]
    id: String,
    #[command(flatten)]
    organization: OfOrganization,
}

impl Delete {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        confirm(context, &format!("Delete template {}?", self.id)).await?;
        let client = self.organization.client(context).await?;
        control::deleted(context, client.templates().delete(&self.id), "template", &self.id).await
    }
}
