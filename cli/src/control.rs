//! Sends requests to the sandbox's control interface, for the `svc sandbox` commands: `show`,
//! `list`, `done` and `document` send one and print its response, `Paging::pages` prints one page
//! or all. `send` shows or sends, `read` sends. A request that waits in the server has a timeout of
//! its own, and is not retried. An empty list adds a note if this command has started a sandbox of
//! its own, because another one may have been meant.

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use svc_reference_server::client::{Client, Page, Request};

use crate::command_spec::{self, CommandSpec};
use crate::context::Context;
use crate::dry_run;
use crate::failure::Failure;
use crate::output::{Format, View, to_value};
use crate::prepared::{Prepared, Preview};
use crate::settings::Source;

/// A command that reads from the sandbox.
pub fn reads(output: fn() -> Value) -> CommandSpec {
    command_spec::reads(&[], output).of_sandbox()
}

/// A command that changes something in the sandbox.
pub fn changes(output: fn() -> Value) -> CommandSpec {
    command_spec::changes(&[], output).of_sandbox()
}

/// A command that deletes something in the sandbox and asks before.
pub fn removes(output: fn() -> Value) -> CommandSpec {
    command_spec::removes(&[], output).of_sandbox()
}

/// A client of the control interface, for the organization that the command is about.
pub async fn client(context: &Context) -> Result<Client, Failure> {
    let client = Client::from_http(context.clients.control_client().await?);
    Ok(match &context.organization {
        Some(organization) => client.of(organization),
        None => client,
    })
}

/// Which pages of a list are printed.
#[derive(Args, Debug)]
pub struct Paging {
    /// Results per page, 1 to 100 [default: 20]
    #[arg(long, alias = "page-size", value_name = "N")]
    limit: Option<u32>,
    /// Fetch every page
    #[arg(long)]
    all: bool,
}

/// Prints the response to a request as one object.
pub async fn show<T: Serialize>(
    context: &Context,
    view: View,
    request: Request<T>,
) -> Result<(), Failure> {
    let value = send(context, request).await?;
    context.out.one(&value, view)
}

/// Prints the response to a request as a list; `none` is the note for an empty one.
pub async fn list<T: Serialize>(
    context: &Context,
    view: View,
    none: &str,
    request: Request<Vec<T>>,
) -> Result<(), Failure> {
    let items = send(context, request).await?;
    context.out.list(&items, view, none)?;
    if items.is_empty() {
        note_own_sandbox(context).await;
    }
    Ok(())
}

/// Prints `sentence` for people, and the response as JSON for programs.
pub async fn done<T: Serialize>(
    context: &Context,
    sentence: &str,
    request: Request<T>,
) -> Result<(), Failure> {
    let value = send(context, request).await?;
    print_done(context, sentence, &value)
}

/// Like [`done`], after the requests were sent.
pub fn print_done<T: Serialize>(
    context: &Context,
    sentence: &str,
    value: &T,
) -> Result<(), Failure> {
    let value = match to_value(value)? {
        Value::Null => to_value(&Done { ok: true })?,
        value => value,
    };
    context.out.done(sentence, &value)
}

/// Prints a response that is text.
pub async fn document<T: AsRef<[u8]>>(
    context: &Context,
    request: Request<T>,
) -> Result<(), Failure> {
    let bytes = send(context, request).await?;
    let text = String::from_utf8_lossy(bytes.as_ref());
    context.out.document(&text, &Text { text: &text })
}

impl Paging {
    /// Prints one page of a list, or all of them.
    pub async fn pages<T: Serialize>(
        &self,
        context: &Context,
        view: View,
        none: &str,
        request: impl Fn() -> Request<Page<T>>,
    ) -> Result<(), Failure> {
        let request = || match self.limit {
            Some(limit) => request().limit(limit),
            None => request(),
        };

        let Page {
            data: mut items,
            mut next,
            ..
        } = send(context, request()).await?;
        let streams = context.out.format() == Format::Ndjson;
        while self.all
            && let Some(cursor) = next.take()
        {
            if streams {
                context.out.list(&items, view, none)?;
                items.clear();
            }
            let page = read(context, request().cursor(&cursor)).await?;
            next = page.next.filter(|after| *after != cursor);
            items.extend(page.data);
        }

        context.out.list(&items, view, none)?;
        if items.is_empty() && !streams {
            note_own_sandbox(context).await;
        }
        if next.is_some() {
            context
                .out
                .note("there are more pages; use --all to list every page");
        }

        Ok(())
    }
}

/// An empty list may be that of another server than the one that is meant.
async fn note_own_sandbox(context: &Context) {
    if let Some(sentence) = context.clients.own_sandbox().await {
        context.out.note(&sentence);
    }
}

impl<T> Preview for Request<T> {
    async fn show(&self, context: &Context) -> Result<(), Failure> {
        self.call.show(context).await
    }
}

impl<T> Preview for Vec<Request<T>> {
    async fn show(&self, context: &Context) -> Result<(), Failure> {
        if let [request] = &self[..] {
            return request.show(context).await;
        }
        let requests = self.iter().map(|request| request.call.to_request());
        dry_run::show_all(&context.out, requests)
    }
}

/// Shows or sends a request: [`Prepared::decide`].
pub async fn send<T>(context: &Context, request: Request<T>) -> Result<T, Failure> {
    read(context, Prepared::new(request).decide(context).await?).await
}

/// Deletes something after a confirmation.
pub async fn delete<T>(
    context: &Context,
    (action, noun): (&str, &str),
    id: &str,
    request: Request<T>,
) -> Result<(), Failure> {
    let request = Prepared::new(request).asking(format!("{action} {noun} {id}?"));
    read(context, request.decide(context).await?).await?;
    context.deleted(noun, id, id)
}

/// Sends a request as it is.
pub async fn read<T>(context: &Context, request: Request<T>) -> Result<T, Failure> {
    let response = match request.wait {
        Some(wait) => {
            let timeout = &context.settings.timeout;
            let deadline = if wait <= timeout.value {
                // The server ends its wait at `--timeout`; its response should arrive before we give up.
                timeout.value + std::time::Duration::from_secs(300)
            } else if timeout.source == Source::Default {
                wait
            } else {
                timeout.value
            };
            let call = request.call.timeout(deadline).retries(0);
            context.caller.send(call, "waiting").await?
        }
        None => {
            let call = context.caller.with_options(request.call);
            let retry_safe = request.is_idempotent;
            let sent = context
                .caller
                .send_raw(call, retry_safe, "contacting the sandbox");
            sent.await
                .map_err(|error| Failure::from_sdk(&error, retry_safe))?
        }
    };
    Ok((request.decode)(&response)?)
}

// In place of an empty response.
#[derive(Serialize, JsonSchema)]
pub struct Done {
    pub ok: bool,
}

#[derive(Serialize, JsonSchema)]
pub struct Text<'a> {
    /// With an option that selects one part, such as --html.
    pub text: &'a str,
}
