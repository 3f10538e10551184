//! Requests to the sandbox's control interface, for the `svc sandbox` commands.

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use svc_reference_server::client::{Client, Page, Request};

use crate::confirm::confirm;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Format, View, to_value};

/// A client of the control interface, for an organization or for the seeded one.
pub async fn client(context: &Context, organization: Option<&str>) -> Result<Client, Failure> {
    let client = Client::from_http(context.control_client().await?);
    Ok(match organization {
        Some(organization) => client.of(organization),
        None => client,
    })
}

/// The organization that a command is about. Its methods send requests about it.
#[derive(Args, Debug, Default)]
pub struct OfOrganization {
    /// Organization, by name or id [default: Sandbox]
    #[arg(long, value_name = "NAME|ID")]
    organization: Option<String>,
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
    #[command(flatten)]
    organization: OfOrganization,
}

impl OfOrganization {
    /// A client of the control interface for this organization.
    pub async fn client(&self, context: &Context) -> Result<Client, Failure> {
        client(context, self.name()).await
    }

    /// The response to a request. With `--dry-run` it prints the request and returns `None`.
    pub async fn send<T>(
        &self,
        context: &Context,
        request: impl FnOnce(&Client) -> Request<T>,
    ) -> Result<Option<T>, Failure> {
        send(context, request(&self.client(context).await?)).await
    }

    /// Prints the response to a request as one object.
    pub async fn show<T: Serialize>(
        &self,
        context: &Context,
        view: View,
        request: impl FnOnce(&Client) -> Request<T>,
    ) -> Result<(), Failure> {
        match self.send(context, request).await? {
            Some(value) => context.out.one(&value, view),
            None => Ok(()),
        }
    }

    /// Prints the response to a request as a list; `none` is the note for an empty one.
    pub async fn list<T: Serialize>(
        &self,
        context: &Context,
        view: View,
        none: &str,
        request: impl FnOnce(&Client) -> Request<Vec<T>>,
    ) -> Result<(), Failure> {
        match self.send(context, request).await? {
            Some(items) => {
                context.out.list(&items, view, none)?;
                if items.is_empty() {
                    note_own_sandbox(context).await;
                }
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Prints `sentence` for people, and the response as JSON for programs.
    pub async fn done<T: Serialize>(
        &self,
        context: &Context,
        sentence: &str,
        request: impl FnOnce(&Client) -> Request<T>,
    ) -> Result<(), Failure> {
        let Some(value) = self.send(context, request).await? else { return Ok(()) };
        let value = match to_value(&value) {
            Value::Null => to_value(&Done { ok: true }),
            value => value,
        };
        context.out.done(sentence, &value)
    }

    /// Asks, and reports a deletion.
    pub async fn delete(
        &self,
        context: &Context,
        question: &str,
        noun: &str,
        id: &str,
        request: impl FnOnce(&Client) -> Request<()>,
    ) -> Result<(), Failure> {
        confirm(context, question).await?;
        match self.send(context, request).await? {
            Some(()) => context.deleted(noun, id, id),
            None => Ok(()),
        }
    }

    /// Prints a response that is text.
    pub async fn document<T: AsRef<[u8]>>(
        &self,
        context: &Context,
        request: impl FnOnce(&Client) -> Request<T>,
    ) -> Result<(), Failure> {
        let Some(bytes) = self.send(context, request).await? else { return Ok(()) };
        let text = String::from_utf8_lossy(bytes.as_ref());
        context.out.document(&text, &Text { text: &text })
    }

    /// The name or the id of the organization, if it is given.
    pub fn name(&self) -> Option<&str> {
        self.organization.as_deref()
    }
}

impl Paging {
    /// Prints one page of a list, or all of them.
    pub async fn pages<T: Serialize>(
        &self,
        context: &Context,
        view: View,
        none: &str,
        request: impl Fn(&Client) -> Request<Page<T>>,
    ) -> Result<(), Failure> {
        let client = self.organization.client(context).await?;
        let request = || request(&client).given(self.limit, Request::<Page<T>>::limit);
        let Some(Page { data: mut items, mut next, .. }) = send(context, request()).await? else {
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
            let Some(page) = send(context, request().cursor(&cursor)).await? else { return Ok(()) };
            next = page.next.filter(|after| *after != cursor);
            items.extend(page.data);
        }
        context.out.list(&items, view, none)?;
        if items.is_empty() && !streams {
            note_own_sandbox(context).await;
        }
        if next.is_some() {
            context.out.note("there are more pages; use --all to list every page");
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
        // The server ends its wait at `--timeout`; its response should arrive before we give up.
        Some(_) => {
            let deadline = context.settings.timeout.value + std::time::Duration::from_secs(300);
            context.call_within(request.call, deadline, "waiting").await?
        }
        None => {
            context.call_raw(request.call, request.is_idempotent, "contacting the sandbox").await?
        }
    };
    response.map(|response| (request.decode)(&response).map_err(Failure::from)).transpose()
}

/// Options of a request, or of its body, that are set only if they are given.
pub trait Given: Sized {
    /// Sets an option, if it is given.
    fn given<V>(self, value: Option<V>, set: impl FnOnce(Self, V) -> Self) -> Self {
        match value {
            Some(value) => set(self, value),
            None => self,
        }
    }
}

impl<T> Given for T {}

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
