//! The `svc sandbox messages` commands: messages in the local mailbox.

pub mod attachments;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use svc_reference_server::client::{Client, Message, MessageLinks, MessageSummary};

use super::messages::attachments::Saved;
use super::open;
use super::open::Output;
use crate::command_spec::{local, reads, removes};
use crate::complete::Values;
use crate::confirm::confirm;
use crate::context::Context;
use crate::control::{Done, Given as _, OfOrganization, Paging, Text};
use crate::failure::Failure;
use crate::output::{Column, Show, View};
use crate::output_schema::{any_of, of};
use crate::times;

/// Table columns of a message.
pub const VIEW: View = View(&[
    Column::id("ID", "/id"),
    Column::text("FROM", "/from"),
    Column::text("RECIPIENT", "/recipient"),
    Column::text("SUBJECT", "/subject"),
    Column::new("RECEIVED", "/createdAt", Show::Time).droppable(),
]);

/// The messages that a command is about.
#[derive(Args, Debug)]
pub struct Filters {
    /// Filter by recipient
    #[arg(long, value_name = "ADDRESS")]
    to: Option<String>,
    /// Filter by sender
    #[arg(long, value_name = "ADDRESS")]
    from: Option<String>,
    /// Filter by text in the subject
    #[arg(long, value_name = "TEXT")]
    subject: Option<String>,
    /// Received after this time, such as 10m or 2026-12-01
    ///
    /// TIME is RFC 3339, a day, or a duration before the time of the sandbox.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    after: Option<String>,
}

/// Applies the filters to a request.
macro_rules! selected {
    ($request:expr, $filters:ident, $after:ident) => {
        $request
            .given($filters.to.as_ref(), |request, to| request.to(to))
            .given($filters.from.as_ref(), |request, from| request.from(from))
            .given($filters.subject.as_ref(), |request, subject| request.subject(subject))
            .given($after.as_ref(), |request, after| request.after(after))
    };
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// List the delivered messages, newest first
    #[command(add = reads(&[], of::<Vec<MessageSummary>>).of_sandbox())]
    #[command(after_long_help = "\
Examples:
  svc sandbox messages list --to ada@example.test
  svc sandbox messages list --all -o ndjson")]
    List {
        #[command(flatten)]
        filters: Filters,
        #[command(flatten)]
        paging: Paging,
    },
    /// Wait for a message that matches the filters
    ///
    /// A message that was already delivered matches at once. --timeout bounds the wait [default: 30s].
    #[command(add = reads(&[], of::<Message>).of_sandbox())]
    #[command(after_long_help = "\
Examples:
  svc sandbox messages wait --to ada@example.test --timeout 10s --jq .subject")]
    Wait {
        #[command(flatten)]
        filters: Filters,
        #[command(flatten)]
        organization: OfOrganization,
    },
    /// Show a message, its source, its HTML or its links, or save its attachments
    #[command(add = reads(&[], || any_of(&[of::<Message>, of::<Text>, of::<MessageLinks>, of::<Vec<Saved>>])).of_sandbox())]
    #[command(after_long_help = "\
Examples:
  svc sandbox messages get msg_019a
  svc sandbox messages get msg_019a --raw > message.eml
  svc sandbox messages get msg_019a --links
  svc sandbox messages get msg_019a --attachments downloads")]
    Get {
        /// Message id
        #[arg(add = Values::Message.candidates())]
        id: String,
        /// Print the RFC 5322 source
        #[arg(long, conflicts_with_all = ["html", "links", "attachments"])]
        raw: bool,
        /// Print the HTML body
        #[arg(long, conflicts_with_all = ["links", "attachments"])]
        html: bool,
        /// Print the links
        #[arg(long, conflicts_with = "attachments")]
        links: bool,
        /// Save the attachments in this directory
        ///
        /// The directory is created if there is none. Existing files are kept: a file with the same
        /// name gets a number.
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        attachments: Option<PathBuf>,
        #[command(flatten)]
        organization: OfOrganization,
    },
    /// Delete messages: by id, by filters, or all
    ///
    /// Webhooks, domains and templates stay.
    #[command(add = removes(&[], of::<Done>).of_sandbox())]
    #[command(after_long_help = "\
Examples:
  svc sandbox messages delete msg_019a --yes
  svc sandbox messages delete --to ada@example.test --yes")]
    Delete {
        /// Message ids
        #[arg(value_name = "ID", conflicts_with_all = ["to", "from", "subject", "after"], add = Values::Message.candidates())]
        ids: Vec<String>,
        #[command(flatten)]
        filters: Filters,
        #[command(flatten)]
        organization: OfOrganization,
    },
    /// Open a message on the page of the sandbox, in a browser
    ///
    /// The server must be running. The browser is chosen as for `svc sandbox open`.
    #[command(add = local(of::<Output>).of_sandbox())]
    #[command(after_long_help = "\
Examples:
  svc sandbox messages open msg_019a")]
    Open {
        /// Message id
        #[arg(add = Values::Message.candidates())]
        id: String,
        /// Print the URL and open no browser
        #[arg(long)]
        print: bool,
        #[command(flatten)]
        organization: OfOrganization,
    },
}

impl Command {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::List { filters, paging } => {
                let after = times::after(context, filters.after.as_deref()).await?;
                let request = |client: &Client| selected!(client.messages().list(), filters, after);
                paging.pages(context, VIEW, "no messages", request).await
            }
            Self::Wait { filters, organization } => {
                let after = times::after(context, filters.after.as_deref()).await?;
                let request = |client: &Client| {
                    let wait = client.messages().wait().timeout(context.settings.timeout.value);
                    selected!(wait, filters, after)
                };
                let shown = organization.show(context, VIEW, request).await;
                shown.map_err(|mut failure| {
                    if failure.details().status == Some(408) {
                        let details = failure.details_mut();
                        // The service did not reject anything: it says what is in the mailbox.
                        let start = details.message.find("no matching message").unwrap_or(0);
                        details.message.drain(..start);
                        details.hint = Some(format!(
                            "list all messages: {}",
                            context.svc("sandbox messages list")
                        ));
                    }
                    failure
                })
            }
            Self::Get { id, raw, html, links, attachments, organization } => {
                if let Some(directory) = &attachments {
                    let client = organization.client(context).await?;
                    return attachments::save(context, client.messages(), &id, directory).await;
                }
                let of = &organization;
                match (raw, html, links) {
                    (true, _, _) => of.document(context, |client| client.messages().raw(&id)).await,
                    (_, true, _) => {
                        of.document(context, |client| client.messages().html(&id)).await
                    }
                    (_, _, true) => {
                        of.show(context, VIEW, |client| client.messages().links(&id)).await
                    }
                    _ => of.show(context, VIEW, |client| client.messages().get(&id)).await,
                }
            }
            Self::Delete { ids, filters, organization } => {
                let after = times::after(context, filters.after.as_deref()).await?;
                let Filters { to, from, subject, .. } = &filters;
                let is_selected = [to, from, subject, &filters.after].iter().any(|it| it.is_some());
                let what = match (&ids[..], is_selected) {
                    ([id], _) => format!("message {id}"),
                    ([_, ..], _) => format!("{} messages", ids.len()),
                    ([], true) => "the messages that match".to_owned(),
                    ([], false) => {
                        format!("all messages of {}", organization.name().unwrap_or("Sandbox"))
                    }
                };
                confirm(context, &format!("Delete {what}?")).await?;
                let sentence = format!("deleted {what}");
                let Some((last, others)) = ids.split_last() else {
                    let request =
                        |client: &Client| selected!(client.messages().delete_all(), filters, after);
                    let Some(_) = organization.send(context, request).await? else { return Ok(()) };
                    return context.out.done(&sentence, &Done { ok: true });
                };
                for id in others {
                    organization.send(context, |client| client.messages().delete(id)).await?;
                }
                organization.done(context, &sentence, |client| client.messages().delete(last)).await
            }
            Self::Open { id, print, organization } => {
                let page = open::url(context)?;
                let request = |client: &Client| client.messages().get(&id);
                let Some(message) = organization.send(context, request).await? else {
                    return Ok(());
                };
                let view = format!("mailbox/{}", message.id);
                let url = open::view(context, &page, &view, organization.name()).await?;
                open::open(context, &url, print).await
            }
        }
    }
}
