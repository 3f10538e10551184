//! The `svc webhooks` commands, for the email service: create, list, get, update, delete and test.
//! `ServiceWebhook` is what both services have in common, for `CreateWebhook` and `svc listen`; the
//! other implementation is in `extraction/webhooks.rs`. The signing secret is printed only by
//! `create`, because the service does not return it again. A test whose status the response does
//! not tell has an unknown outcome.

use std::marker::PhantomData;

use clap::Args;
use serde_json::{Value, json};
use svc_sdk::email::{NewWebhook, Webhook, WebhookUpdate};
use svc_sdk::{Call, Deleted, EmailClient, ListStream, Operation, Secret};

use crate::command_spec::{changes, creates};
use crate::complete::Values;
use crate::context::{Context, PLAIN};
use crate::failure::{Failure, Kind};
use crate::output;
use crate::output::{Column, View};
use crate::output_schema::{webhook, webhook_test};
use crate::resource::{Anywhere, Delete, Get, ListAll, Resource, id_of};
use crate::urls::check_url;

group! {
    pub enum Command {
        Create(CreateWebhook<Webhook>),
        List(ListAll<Webhook>),
        Get(Get<Webhook>),
        Update(Update),
        Delete(Delete<Webhook>),
        Test(Test),
    }
}

impl Resource for Webhook {
    type Client = EmailClient;
    type Within = Anywhere;
    const GROUP: &'static str = "webhooks";
    const NOUN: &'static str = "webhook";
    const NAMED_BY: &'static str = "URL";
    const SAMPLES: [&'static str; 2] = ["whk_019a", "https://example.com/hooks"];
    const CREATE: &'static str = "create URL --event email.delivered";
    const LISTS: &'static [Operation] = &[Operation::WebhooksList];
    const DELETES: &'static [Operation] = &[Operation::WebhooksDelete];
    const COMPLETED: Values = Values::Webhook;
    const SCHEMA: fn() -> Value = webhook;
    const VIEW: View = View(&[
        Column::id("ID", "/id"),
        Column::flag("ACTIVE", "/active"),
        Column::text("URL", "/url").key(),
        Column::prose("EVENTS", "/events"),
        Column::id("SIGNING SECRET", "/signingSecret"),
    ]);

    async fn client(context: &Context) -> Result<EmailClient, Failure> {
        context.clients.email_client().await
    }

    fn stream(client: &EmailClient) -> Option<ListStream<Self>> {
        Some(client.webhooks().stream())
    }

    fn delete(client: &EmailClient, id: &str) -> Call<Deleted> {
        client.webhooks().delete(id)
    }

    fn named(&self) -> (&String, &Option<String>) {
        (&self.id, &self.url)
    }
}

impl ServiceWebhook for Webhook {
    const CREATES: &'static [Operation] = &[Operation::WebhooksCreate];
    const CREATE_HELP: &'static str = "\
  svc webhooks create https://example.com/hooks --event email.delivered \\
      --event email.bounced
  svc webhooks create https://example.com/hooks --event email.received \\
      --jq .signingSecret

Events: email.sent, email.delivered, email.bounced, email.opened, email.clicked,
email.complained, email.failed, email.received";
    const EVENTS: Values = Values::EmailEvent;

    fn create(client: &EmailClient, url: &str, events: Vec<String>) -> Call<Self> {
        client.webhooks().create(NewWebhook::new(url, events))
    }

    fn secret(&self) -> Option<(&'static str, &Secret)> {
        Some(("signingSecret", self.signing_secret.as_ref()?))
    }
}

/// A webhook of one of the services, which `create` and `svc listen` create.
pub trait ServiceWebhook: Resource {
    const CREATES: &'static [Operation];
    const CREATE_HELP: &'static str;
    /// Completes an event.
    const EVENTS: Values;

    fn create(client: &Self::Client, url: &str, events: Vec<String>) -> Call<Self>;
    /// The field with the signing secret, and the secret.
    fn secret(&self) -> Option<(&'static str, &Secret)>;
}

/// Create a webhook; its signing secret is shown only once
#[derive(Args, Clone, Debug)]
#[command(add = creates(W::CREATES, W::SCHEMA), after_long_help = W::CREATE_HELP)]
pub struct CreateWebhook<W: ServiceWebhook> {
    /// URL that receives the events
    url: String,
    /// Event to subscribe to; repeatable
    #[arg(long, alias = "events", value_name = "EVENT", value_parser = crate::input::event::parse, required = true, value_delimiter = ',', add = W::EVENTS.candidates())]
    event: Vec<String>,
    #[arg(skip)]
    webhook: PhantomData<W>,
}

impl<W: ServiceWebhook> CreateWebhook<W> {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        check_url("URL", &self.url)?;
        let call = W::create(&W::client(context).await?, &self.url, self.event);
        let webhook = context.call(call, "creating").await?;
        let mut value = output::to_value(&webhook)?;
        if let Some((field, secret)) = webhook.secret() {
            value[field] = secret.expose().into();
        }
        context.out.one(&value, W::VIEW)?;
        context
            .out
            .hint("store the signing secret now: the service does not show it again");
        Ok(())
    }
}

/// Update, enable or disable a webhook
#[derive(Args, Debug)]
#[command(add = changes(&[Operation::WebhooksUpdate], webhook))]
#[command(after_long_help = "\
  svc webhooks update whk_019a --active false
  svc webhooks update whk_019a --url https://example.com/new \\
      --event email.bounced")]
pub struct Update {
    /// Webhook id or URL
    #[arg(add = Values::Webhook.candidates())]
    id: String,
    /// HTTPS URL that receives the events
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// New list of events; repeatable
    #[arg(long, alias = "events", value_name = "EVENT", value_parser = crate::input::event::parse, value_delimiter = ',', add = Values::EmailEvent.candidates())]
    event: Vec<String>,
    /// Enable or disable delivery
    #[arg(long, value_name = "true|false", hide_possible_values = true)]
    active: Option<bool>,
}

impl Update {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        if let Some(url) = &self.url {
            check_url("--url", url)?;
        }
        let mut update = WebhookUpdate::default();
        update.url = self.url;
        if !self.event.is_empty() {
            update.events = Some(self.event);
        }
        update.active = self.active;
        if output::to_value(&update)? == json!({}) {
            return Err(Failure::usage("nothing to update")
                .hint("give at least one of --url, --event, --active"));
        }

        let client = context.clients.email_client().await?;
        let id = id_of::<Webhook>(context, &client, &self.id).await?;
        let call = client.webhooks().update(&id, &update);
        let webhook = context.call(call, "updating").await?;
        context.out.one(&webhook, Webhook::VIEW)
    }
}

/// Send a test event to a webhook
///
/// The service sends the event. The exit code is 10 if the endpoint's response is not 2xx.
#[derive(Args, Debug)]
#[command(add = changes(&[Operation::WebhooksTest], webhook_test))]
#[command(after_long_help = "svc webhooks test whk_019a")]
pub struct Test {
    /// Webhook id or URL
    #[arg(add = Values::Webhook.candidates())]
    id: String,
}

impl Test {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.clients.email_client().await?;
        let id = id_of::<Webhook>(context, &client, &self.id).await?;
        let call = client.webhooks().test(&id);
        let test = context.call(call, "testing").await?;
        context.out.one(&test, PLAIN)?;
        let (code, problem) = match test.status.map(|status| status.as_u16()) {
            Some(200..=299) => return Ok(()),
            Some(status) => (
                "endpoint_answered_error",
                format!("responded with {status}"),
            ),
            None if !test.is_known() => {
                let what = "the response does not tell the endpoint's status (the point \
                            `test-status-field` of the dialect)";
                let conform = context.svc("conform", &[]);
                return Err(Failure::new(Kind::OutcomeUnknown, what)
                    .code("test_status_unknown")
                    .hint(format!("find out how the service responds: {conform}")));
            }
            None => ("endpoint_unreachable", "could not be reached".to_owned()),
        };
        Err(
            Failure::check(format!("the endpoint of webhook {} {problem}", self.id))
                .code(code)
                .hint(format!(
                    "check its URL: {}",
                    context.svc("webhooks list", &[])
                )),
        )
    }
}
