//! Webhooks of the email service (`docs/email-service/webhooks.md`,
//! `docs/email-service/events.md`).

use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::check_extra;

use crate::client::{Call, Deleted, FromResponse, Payload, Resource, ResponseParts, Shared};

use crate::decode::{DecodeError, parse_value};
use crate::decode::{record, text_enum};
use crate::request::{new_webhook, request_type};

use crate::{Error, InvalidInput, List, Operation};
use crate::{Extra, Secret};

record! {
    /// A webhook: an endpoint that receives events.
    pub struct Webhook {
        /// The webhook's id; empty if the response has none.
        pub id: String = "id";
        /// The URL of the endpoint.
        pub url: Option<String> = "url", hidden;
        /// The subscribed events.
        pub events: Vec<String> = "events";
        /// Whether it is enabled.
        pub active: Option<bool> = "active";
        /// The secret that signs deliveries. Only the response to the creation contains it.
        /// It is never serialized, so store it with [`Secret::expose`].
        pub signing_secret: Option<Secret> = "signingSecret", secret;
    }
}

impl Resource for Webhook {
    const NOUN: &'static str = "a webhook";

    fn is_identified(&self) -> bool {
        !self.id.is_empty()
    }
}

text_enum! {
    /// An event that a webhook can subscribe to (`docs/email-service/events.md`).
    pub enum Event {
        /// The email was sent to the recipient's mail server.
        Sent = "email.sent",
        /// Delivery to the inbox was confirmed.
        Delivered = "email.delivered",
        /// Delivery failed (hard or soft bounce).
        Bounced = "email.bounced",
        /// The recipient opened the email.
        Opened = "email.opened",
        /// The recipient clicked a link in the email.
        Clicked = "email.clicked",
        /// The recipient marked the email as spam.
        Complained = "email.complained",
        /// Sending failed.
        Failed = "email.failed",
        /// An email arrived for a verified domain.
        Received = "email.received",
    }
}

new_webhook!("The parameters of a new webhook.", "The `https` URL of the endpoint.");

/// Changes to a webhook. Fields that are not set stay unchanged.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct WebhookUpdate {
    /// The new URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The new list of events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<String>>,
    /// Whether the webhook is enabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<bool>,
    /// Additional fields without a setter of their own; sent as given.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

request_type!(WebhookUpdate);

impl WebhookUpdate {
    /// Creates an empty update.
    pub fn new() -> Self {
        Self::default()
    }

    /// Changes the endpoint's URL.
    #[must_use]
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.url = Some(url.into());
        self
    }

    /// Replaces the subscribed events.
    #[must_use]
    pub fn events<E: Into<String>>(mut self, events: impl IntoIterator<Item = E>) -> Self {
        self.events = Some(events.into_iter().map(Into::into).collect());
        self
    }

    /// Enables or disables the webhook.
    #[must_use]
    pub fn active(mut self, active: bool) -> Self {
        self.active = Some(active);
        self
    }
}

/// Omits the URL, which may contain a secret in its path or query.
impl std::fmt::Debug for WebhookUpdate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebhookUpdate")
            .field("events", &self.events)
            .field("active", &self.active)
            .finish_non_exhaustive()
    }
}

/// The result of a test delivery.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WebhookTest {
    /// The HTTP status of the endpoint's response. `None` if the endpoint did not respond,
    /// or the service does not report the status.
    pub status: Option<StatusCode>,
    /// The whole response of the service.
    pub extra: Extra,
}

impl WebhookTest {
    /// Creates a result, for example for a test. `None` means that the endpoint did not
    /// respond.
    pub fn new(status: impl Into<Option<StatusCode>>) -> Self {
        Self { status: status.into(), extra: Extra::default() }
    }

    /// True if the endpoint responded with a 2xx status.
    pub fn is_success(&self) -> bool {
        self.status.is_some_and(|status| status.is_success())
    }
}

impl Serialize for WebhookTest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut all = self.extra.all().clone();
        let value = Value::Object(all);
        let found = find_status(&value);
        let Value::Object(fields) = value else { return Map::new().serialize(serializer) };
        all = fields;
        if found != self.status {
            let name = STATUS_NAMES.iter().find(|name| all.contains_key(**name));
            let name = name.copied().unwrap_or(STATUS_NAMES[0]).to_owned();
            all.insert(name, self.status.map(|status| status.as_u16()).into());
        }
        all.serialize(serializer)
    }
}

impl FromResponse for WebhookTest {
    fn from_response(response: &ResponseParts<'_>) -> Result<Self, Error> {
        Self::read(&response.body).map_err(|bad| response.decode_error(bad))
    }
}

impl WebhookTest {
    /// Finds the endpoint's status: the first integer from 100 to 599, preferring
    /// well-known field names. A null in such a field means that there was no response. See
    /// `docs/undocumented/email-service.md#webhook-test`.
    pub(crate) fn read(raw: &bytes::Bytes) -> Result<Self, DecodeError> {
        const MAX_PARSED_LEN: usize = 1024 * 1024;

        let extra = Extra::new(raw.clone(), &STATUS_NAMES);
        // A longer response has no status worth the memory of parsing it.
        if raw.len() > MAX_PARSED_LEN || raw.trim_ascii().is_empty() {
            return Ok(Self { status: None, extra });
        }
        Ok(Self { status: find_status(&parse_value(raw)?), extra })
    }
}

const STATUS_NAMES: [&str; 5] = ["statusCode", "status_code", "status", "responseStatus", "code"];

fn find_status(value: &Value) -> Option<StatusCode> {
    let mut current = value;
    loop {
        let Value::Object(fields) = current else { return as_status(current) };
        match STATUS_NAMES.iter().find_map(|name| fields.get(*name)) {
            Some(Value::Null) => return None,
            Some(named) if as_status(named).is_some() => return as_status(named),
            _ => {}
        }
        if let Some(status) = fields.values().find_map(as_status) {
            return Some(status);
        }
        let mut objects = fields.values().filter(|value| value.is_object());
        match (objects.next(), objects.next()) {
            (Some(only), None) => current = only,
            _ => return None,
        }
    }
}

fn as_status(value: &Value) -> Option<StatusCode> {
    let number =
        u16::try_from(value.as_u64()?).ok().filter(|status| (100..600).contains(status))?;
    StatusCode::from_u16(number).ok()
}

/// The operations on webhooks. All of them require the scope `webhooks:manage`.
#[derive(Clone, Debug)]
pub struct Webhooks {
    pub(crate) shared: std::sync::Arc<Shared>,
}

impl Webhooks {
    /// Creates a webhook. Only this response contains its `signing_secret`, so store it.
    ///
    /// ```no_run
    /// # async fn f(client: svc_sdk::EmailClient) -> Result<(), svc_sdk::Error> {
    /// use svc_sdk::email::{Event, NewWebhook};
    ///
    /// let events = [Event::Delivered, Event::Bounced];
    /// let webhook = NewWebhook::new("https://shop.example/hooks", events);
    /// let webhook = client.webhooks().create(webhook).await?;
    /// let secret = webhook.signing_secret.expect("the response to the creation contains the secret");
    /// # Ok(())
    /// # }
    /// ```
    pub fn create(&self, webhook: impl Into<NewWebhook>) -> Call<Webhook> {
        let webhook = webhook.into();
        let payload = || -> Result<Payload, Error> {
            self.check_url(&webhook.url)?;
            check_extra(&webhook.extra, &[("url", true), ("events", true)])?;
            Payload::json(&webhook)
        };
        Call::new(&self.shared, Operation::WebhooksCreate, &[], payload())
    }

    /// Lists all webhooks.
    pub fn list(&self) -> Call<List<Webhook>> {
        Call::new(&self.shared, Operation::WebhooksList, &[], Ok(Payload::Empty))
    }

    /// Changes a webhook.
    ///
    /// ```no_run
    /// # async fn f(client: svc_sdk::EmailClient) -> Result<(), svc_sdk::Error> {
    /// use svc_sdk::email::WebhookUpdate;
    ///
    /// let update = WebhookUpdate::new().active(false);
    /// client.webhooks().update("whk_1", update).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn update(&self, id: impl AsRef<str>, update: impl Into<WebhookUpdate>) -> Call<Webhook> {
        let update = update.into();
        let payload = || -> Result<Payload, Error> {
            if let Some(url) = &update.url {
                self.check_url(url)?;
            }
            check_extra(
                &update.extra,
                &[
                    ("url", update.url.is_some()),
                    ("events", update.events.is_some()),
                    ("active", update.active.is_some()),
                ],
            )?;
            Payload::json(&update)
        };
        Call::new(&self.shared, Operation::WebhooksUpdate, &[id.as_ref()], payload())
    }

    /// Deletes a webhook.
    pub fn delete(&self, id: impl AsRef<str>) -> Call<Deleted> {
        Call::new(&self.shared, Operation::WebhooksDelete, &[id.as_ref()], Ok(Payload::Empty))
    }

    /// Makes the service send a test delivery to the endpoint, and returns the endpoint's
    /// status.
    ///
    /// ```no_run
    /// # async fn f(client: svc_sdk::EmailClient) -> Result<(), svc_sdk::Error> {
    /// let result = client.webhooks().test("whk_1").await?;
    /// println!("{:?}", result.status);
    /// # Ok(())
    /// # }
    /// ```
    pub fn test(&self, id: impl AsRef<str>) -> Call<WebhookTest> {
        Call::new(&self.shared, Operation::WebhooksTest, &[id.as_ref()], Ok(Payload::Empty))
    }

    /// The service requires `https`; a local server may accept `http`.
    fn check_url(&self, url: &str) -> Result<(), InvalidInput> {
        let https = url.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("https://"));
        if https || !self.shared.local_checks() || self.shared.allows_insecure_webhook_urls() {
            return Ok(());
        }
        Err(InvalidInput::new("url", "must be an https URL"))
    }
}
