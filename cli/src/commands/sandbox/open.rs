//! The `svc sandbox open` command.

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::browser;
use crate::command_spec::local;
use crate::context::Context;
use crate::control;
use crate::failure::{Failure, Kind};
use crate::output_schema::of;
use crate::sandbox::Sandbox;

/// Open the page of the sandbox in a browser
///
/// The server must be running. The browser is the one that the environment variable BROWSER names,
/// or that of the system. Without a browser, or if the output is not a terminal, the URL is
/// printed. The page of a server with a control token asks for it.
#[derive(Args, Debug)]
#[command(add = local(of::<Output>).of_organization())]
#[command(after_long_help = "\
  svc sandbox open
  svc sandbox open --print")]
pub struct Open {
    /// Print the URL and open no browser
    #[arg(long)]
    print: bool,
}

impl Open {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let mut page = url(context).await?;
        if context.organization.is_some() {
            page = view(context, &page, "mailbox").await?;
        }
        open(context, &page, self.print).await
    }
}

/// The URL of the page of the server that is running.
pub(super) async fn url(context: &Context) -> Result<String, Failure> {
    let dir = &context.settings.sandbox_dir;
    let url = Sandbox::running_url(&context.settings)
        .await?
        .ok_or_else(|| {
            Failure::other(format!("no sandbox uses {}", dir.display()))
                .hint("start one in another terminal: svc sandbox serve")
        })?;
    Ok(format!("{url}/"))
}

/// The URL of a view of the page.
pub(super) async fn view(context: &Context, page: &str, view: &str) -> Result<String, Failure> {
    let Some(wanted) = &context.organization else {
        return Ok(format!("{page}#/{view}"));
    };

    let request = control::client(context).await?.organizations();
    let all = control::send(context, request).await?;
    let mut found = all
        .iter()
        .filter(|one| one.id == *wanted || one.name == *wanted);
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(format!("{page}#/{view}?organization={}", one.id)),
        (None, _) => Err(
            Failure::new(Kind::NotFound, format!("no such organization: {wanted}"))
                .hint("list them: svc sandbox organizations list"),
        ),
        _ => Err(
            Failure::input(format!("several organizations have the name {wanted:?}"))
                .hint("use the id of one: svc sandbox organizations list"),
        ),
    }
}

/// Opens a URL, or prints it.
pub(super) async fn open(context: &Context, url: &str, print: bool) -> Result<(), Failure> {
    if !print && context.out.stdout_is_terminal() {
        if browser::open(url, &context.settings.env).await {
            return context
                .out
                .done(&format!("opened {url}"), &Output { url, opened: true });
        }
        context
            .out
            .note("found no browser; open this URL, or name a browser in BROWSER");
    }
    context
        .out
        .document(&format!("{url}\n"), &Output { url, opened: false })
}

#[derive(Serialize, JsonSchema)]
pub struct Output<'a> {
    url: &'a str,
    /// Whether a browser was opened.
    opened: bool,
}
