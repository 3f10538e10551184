//! The `svc sandbox messages` commands: list, wait for, show, release and delete messages in local
//! mailboxes, or open one in the browser. `Filters` are the same for `list`, `wait` and `delete`;
//! without any, `delete` is about all messages of the organization, and asks first. Attachments are
//! saved in `messages/attachments.rs`, and requests are sent by `crate::control`.

pub mod attachments;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use svc_reference_server::client::{
    HtmlCheck, Message, MessageFilter, MessageLinks, MessageSummary, Released,
};

use super::messages::attachments::Saved;
use super::open;
use super::open::Output;
use crate::command_spec::local;
use crate::complete::Values;
use crate::context::Context;
use crate::control::{self, Done, Paging, Text, changes, reads, removes};
use crate::failure::Failure;
use crate::output::{Column, View};
use crate::output_schema::{any_of, of};
use crate::prepared::Prepared;
use crate::time_options;

/// Table columns of a message.
pub const VIEW: View = View(&[
    Column::id("ID", "/id"),
    Column::text("FROM", "/from").droppable(),
    Column::text("RECIPIENT", "/recipient").key(),
    Column::text("SUBJECT", "/subject"),
    Column::time("RECEIVED", "/createdAt").droppable(),
]);

const RELEASED: View = View(&[Column::id("ID", "/id"), Column::text("TO", "/to")]);

/// Table columns of a feature that a mail program lacks.
const FEATURES: View = View(&[
    Column::id("FEATURE", "/title"),
    Column::prose("NOT IN", "/none"),
    Column::prose("IN PART IN", "/partial").droppable(),
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

impl Filters {
    async fn read(self, context: &Context) -> Result<MessageFilter, Failure> {
        let after = time_options::after(context, self.after.as_deref()).await?;
        let Self {
            to, from, subject, ..
        } = self;
        Ok(MessageFilter {
            to,
            from,
            subject,
            after,
            search: None,
        })
    }
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// List the delivered messages, newest first
    #[command(add = reads(of::<Vec<MessageSummary>>).of_organization())]
    #[command(after_long_help = "\
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
    #[command(add = reads(of::<Message>).of_organization())]
    #[command(after_long_help = "\
  svc sandbox messages wait --to ada@example.test --timeout 10s --jq .subject")]
    Wait {
        #[command(flatten)]
        filters: Filters,
    },
    /// Show a message, its source, its HTML or its links, or save its attachments
    #[command(add = reads(|| any_of(&[of::<Message>, of::<Text>, of::<MessageLinks>, of::<Vec<Saved>>])).of_organization())]
    #[command(after_long_help = "\
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
    },
    /// Check the HTML of a message against what mail programs support
    ///
    /// Exits with 10 if a program does not support a feature that the HTML uses. The data is that of
    /// <https://www.caniemail.com>.
    #[command(add = reads(of::<HtmlCheck>).of_organization())]
    #[command(after_long_help = "\
  svc sandbox messages check msg_019a
  svc sandbox messages check msg_019a --program Gmail --jq '.features[].title'")]
    Check {
        /// Message id
        #[arg(add = Values::Message.candidates())]
        id: String,
        /// Mail program that counts
        #[arg(long = "program", value_name = "NAME", default_values = ["Apple Mail", "Gmail", "Outlook"])]
        programs: Vec<String>,
    },
    /// Send a message through the relay to an address
    ///
    /// The server must have --relay. The address need not be one of --relay-to.
    #[command(add = changes(of::<Released>).of_organization())]
    #[command(after_long_help = "svc sandbox messages release msg_019a --to me@example.com")]
    Release {
        /// Message id
        #[arg(add = Values::Message.candidates())]
        id: String,
        /// Recipient address
        #[arg(long, value_name = "ADDRESS")]
        to: String,
    },
    /// Delete messages: by id, by filters, or all
    ///
    /// Webhooks, domains and templates stay.
    #[command(add = removes(of::<Done>).of_organization())]
    #[command(after_long_help = "\
  svc sandbox messages delete msg_019a --yes
  svc sandbox messages delete --to ada@example.test --yes")]
    Delete {
        /// Message ids
        #[arg(value_name = "ID", conflicts_with_all = ["to", "from", "subject", "after"], add = Values::Message.candidates())]
        ids: Vec<String>,
        #[command(flatten)]
        filters: Filters,
        /// Delete all, as without ids and filters
        #[arg(long, hide = true, conflicts_with_all = ["ids", "to", "from", "subject", "after"])]
        all: bool,
    },
    /// Open a message on the page of the sandbox, in a browser
    ///
    /// The server must be running. The browser is chosen as for `svc sandbox open`.
    #[command(add = local(of::<Output>).of_organization())]
    #[command(after_long_help = "svc sandbox messages open msg_019a")]
    Open {
        /// Message id
        #[arg(add = Values::Message.candidates())]
        id: String,
        /// Print the URL and open no browser
        #[arg(long)]
        print: bool,
    },
}

impl Command {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::List { filters, paging } => {
                let filter = filters.read(context).await?;
                let client = control::client(context).await?;
                paging
                    .pages(context, VIEW, "no messages", || client.messages(&filter))
                    .await
            }
            Self::Wait { filters } => {
                let filter = filters.read(context).await?;
                let timeout = &context.settings.timeout;
                let client = control::client(context).await?;
                let request = client.wait_for_message(&filter, timeout.value);
                control::show(context, VIEW, request)
                    .await
                    .map_err(|mut failure| {
                        if failure.status == Some(408) {
                            // The service did not reject anything: it says what is in the mailbox.
                            let start = failure.message.find("no matching message").unwrap_or(0);
                            failure.message.drain(..start);
                            failure.hint = Some(format!(
                                "list all messages: {}",
                                context.svc("sandbox messages list", &[])
                            ));
                        }
                        failure
                    })
            }
            Self::Get {
                id,
                raw,
                html,
                links,
                attachments,
            } => {
                let client = control::client(context).await?;
                match (attachments, raw, html, links) {
                    (Some(dir), ..) => attachments::save(context, &client, &id, &dir).await,
                    (_, true, ..) => control::document(context, client.message_source(&id)).await,
                    (_, _, true, _) => control::document(context, client.message_html(&id)).await,
                    (.., true) => control::show(context, VIEW, client.message_links(&id)).await,
                    _ => control::show(context, VIEW, client.message(&id)).await,
                }
            }
            Self::Check { id, programs } => {
                let client = control::client(context).await?;
                let request = client.check_message(&id, &programs);
                let check = control::send(context, request).await?;
                print_check(context, &check)
            }
            Self::Release { id, to } => {
                if let Some(guard) = context.settings.guard.for_run()? {
                    guard.check_recipients(&[&to])?;
                }
                let client = control::client(context).await?;
                control::show(context, RELEASED, client.release_message(&id, to)).await
            }
            Self::Delete { ids, filters, .. } => {
                let filter = filters.read(context).await?;
                let what = match &ids[..] {
                    [id] => format!("message {id}"),
                    [_, ..] => format!("{} messages", ids.len()),
                    [] if filter != MessageFilter::default() => {
                        "the messages that match".to_owned()
                    }
                    [] => {
                        let organization = context.organization.as_deref().unwrap_or("Sandbox");
                        format!("all messages of {organization}")
                    }
                };
                let client = control::client(context).await?;
                let sentence = format!("deleted {what}");
                let requests = match &ids[..] {
                    [] => vec![client.delete_messages(&filter)],
                    ids => ids.iter().map(|id| client.delete_message(id)).collect(),
                };
                let requests = Prepared::new(requests).asking(format!("Delete {what}?"));
                for request in requests.decide(context).await? {
                    control::read(context, request).await?;
                }
                control::print_done(context, &sentence, &Done { ok: true })
            }
            Self::Open { id, print } => {
                let page = open::url(context).await?;
                let request = control::client(context).await?.message(&id);
                let message = control::read(context, request).await?;
                let url = open::view(context, &page, &format!("mailbox/{}", message.id)).await?;
                open::open(context, &url, print).await
            }
        }
    }
}

/// Prints a check, and fails if a program that counts does not support a feature.
fn print_check(context: &Context, check: &HtmlCheck) -> Result<(), Failure> {
    if context.out.is_table() {
        let lacking = check
            .features
            .iter()
            .filter(|one| one.none.len() + one.partial.len() > 0);
        let lacking: Vec<_> = lacking.collect();
        context
            .out
            .list(&lacking, FEATURES, "every feature of the HTML is supported")?;
    } else {
        context.out.one(check, FEATURES)?;
    }

    let unsupported = check.features.iter().filter(|one| !one.none.is_empty());
    let titles: Vec<&str> = unsupported.map(|one| &*one.title).collect();
    if titles.is_empty() {
        return Ok(());
    }

    let message = format!("not every mail program supports {}", titles.join(", "));
    Err(Failure::check(message).code("html_not_supported"))
}
