//! Requests to the sandbox's control interface, for the `svc sandbox` commands.

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use svc_reference_server::client::{Client, Page, Request};
use svc_sdk::EmailClient;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Format, View, to_value};
use crate::settings::Source;

/// A client of the control interface, for the organization that the command is about.
pub async fn client(context: &Context) -> Result<Client, Failure> {
    Ok(of_organization(context, context.control_client().await?))
}

/// As [`client`], for [`read`].
pub async fn reading_client(context: &Context) -> Result<Client, Failure> {
    Ok(of_organization(context, context.reading_client().await?))
}

fn of_organization(context: &Context, http: EmailClient) -> Client {
    let client = Client::from_http(http);
    match &context.organization {
        Some(organization) => client.of(organization),
        None => client,
    }
}

/// Which pages of a list are printed.
#[derive(Args, Debug)]
pub struct Paging {
    /// Results per page, 1 to 100 [default: 20]
    #[arg(long, value_name = "N")]
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
    match send(context, request).await? {
        Some(value) => context.out.one(&value, view),
        None => Ok(()),
    }
}

/// Prints the response to a request as a list; `none` is the note for an empty one.
pub async fn list<T: Serialize>(
    context: &Context,
    view: View,
    none: &str,
    request: Request<Vec<T>>,
) -> Result<(), Failure> {
    let Some(items) = send(context, request).await? else {
        return Ok(());
    };
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
    let Some(value) = send(context, request).await? else {
        return Ok(());
    };
    let value = match to_value(&value)? {
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
    let Some(bytes) = send(context, request).await? else {
        return Ok(());
    };
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
        let Some(Page {
            data: mut items,
            mut next,
            ..
        }) = send(context, request()).await?
        else {
            return Ok(());
        };
        let streams = context.out.format() == Format::Ndjson;
        while self.all
            && let Some(cursor) = next.take()
        {
            if streams {
                context.out.list(&items, view, none)?;
                items.clear();
            }
            let Some(page) = send(context, request().cursor(&cursor)).await? else {
                return Ok(());
            };
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
    if let Some(sentence) = context.own_sandbox().await {
        context.out.note(&sentence);
    }
}

/// Sends a request. With `--dry-run` it prints the request instead and returns `None`.
pub async fn send<T>(context: &Context, request: Request<T>) -> Result<Option<T>, Failure> {
    let response = match request.wait {
        Some(wait) => {
            let timeout = &context.settings.timeout;
            let deadline = match wait <= timeout.value {
                // The server ends its wait at `--timeout`; its response should arrive before we give up.
                true => timeout.value + std::time::Duration::from_secs(300),
                false if timeout.source == Source::Default => wait,
                false => timeout.value,
            };
            context
                .call_within(request.call, deadline, "waiting")
                .await?
        }
        None => {
            let what = "contacting the sandbox";
            context
                .call_raw(request.call, request.is_idempotent, what, &|_| {})
                .await?
        }
    };
    response
        .map(|response| (request.decode)(&response).map_err(Failure::from))
        .transpose()
}

/// Sends a request that only reads, also with `--dry-run`.
pub async fn read<T>(context: &Context, request: Request<T>) -> Result<T, Failure> {
    let response = context.run(request.call).await?;
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
