//! Webhooks of the email service.

use std::sync::Arc;

use http::StatusCode;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::decode::{self, Extra, parse_value, resource};
use crate::engine::{
    Call, Deleted, FromResponse, Payload, Received, Shared, payload, request_type,
};
use crate::error::{Error, InvalidInput};
use crate::list::List;
use crate::names::debug_fields;
use crate::operation::Operation;
use crate::secret::Secret;
use crate::webhook::NewWebhook;

/// A webhook: an endpoint that receives events.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Webhook {
    /// The webhook's id; empty if the response has none.
    #[serde(
        deserialize_with = "decode::id",
        skip_serializing_if = "String::is_empty"
    )]
    pub id: String,
    /// The URL of the endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The subscribed events.
    #[serde(deserialize_with = "decode::one_or_many")]
    pub events: Vec<String>,
    /// Whether it is enabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<bool>,
    /// The secret that signs deliveries. Only the response to the creation contains it.
    /// It is never serialized, so store it with [`Secret::expose`].
    #[serde(deserialize_with = "decode::secret", skip_serializing)]
    pub signing_secret: Option<Secret>,
    /// The other fields of the response.
    #[serde(flatten)]
    pub extra: Extra,
}

resource!(Webhook, "a webhook");

debug_fields!(Webhook: id, events, active, extra);

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
    /// Additional fields; sent as given.
    #[serde(flatten)]
    pub extra: Extra,
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

debug_fields!(WebhookUpdate: events, active);

/// The result of a test delivery.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WebhookTest {
    /// The HTTP status of the endpoint's response. `None` if the endpoint did not respond,
    /// or the service does not report the status.
    #[serde(rename = "statusCode", serialize_with = "number")]
    pub status: Option<StatusCode>,
    /// The other fields of the response.
    #[serde(flatten)]
    pub extra: Extra,
}

impl WebhookTest {
    /// True if the endpoint responded with a 2xx status.
    pub fn is_success(&self) -> bool {
        self.status.is_some_and(|status| status.is_success())
    }
}

fn number<S: Serializer>(status: &Option<StatusCode>, serializer: S) -> Result<S::Ok, S::Error> {
    status.map(|status| status.as_u16()).serialize(serializer)
}

impl FromResponse for WebhookTest {
    fn from_response(response: &Received) -> Result<Self, Error> {
        let value = parse_value(&response.body).map_err(|bad| response.decode_error(bad))?;
        let status = find_status(&value);
        let Value::Object(mut fields) = value else {
            return Ok(Self {
                status,
                extra: Extra::default(),
            });
        };
        fields.remove(STATUS_NAMES[0]);
        Ok(Self {
            status,
            extra: Extra(fields),
        })
    }
}

const STATUS_NAMES: [&str; 5] = [
    "statusCode",
    "status_code",
    "status",
    "responseStatus",
    "code",
];

/// Finds the endpoint's status: the first integer from 100 to 599, preferring well-known field
/// names. A null in such a field means that there was no response.
fn find_status(value: &Value) -> Option<StatusCode> {
    let Value::Object(fields) = value else {
        return as_status(value);
    };
    let named = STATUS_NAMES.iter().find_map(|name| fields.get(*name));
    if named == Some(&Value::Null) {
        return None;
    }
    named
        .into_iter()
        .chain(fields.values())
        .find_map(as_status)
        .or_else(|| {
            let mut objects = fields.values().filter(|value| value.is_object());
            objects
                .next()
                .filter(|_| objects.next().is_none())
                .and_then(find_status)
        })
}

fn as_status(value: &Value) -> Option<StatusCode> {
    let number = u16::try_from(value.as_u64()?)
        .ok()
        .filter(|status| *status < 600)?;
    StatusCode::from_u16(number).ok()
}

/// The operations on webhooks. All of them require the scope `webhooks:manage`.
#[derive(Clone, Debug)]
pub struct Webhooks {
    pub(crate) shared: Arc<Shared>,
}

impl Webhooks {
    /// Creates a webhook. Only this response contains its `signing_secret`, so store it.
    ///
    /// ```no_run
    /// # async fn f(client: svc_sdk::EmailClient) -> Result<(), svc_sdk::Error> {
    /// use svc_sdk::email::{Event, NewWebhook};
    ///
    /// let events = [Event::EmailDelivered, Event::EmailBounced];
    /// let webhook = NewWebhook::new("https://shop.example/hooks", events);
    /// let webhook = client.webhooks().create(webhook).await?;
    /// let secret = webhook.signing_secret.expect("the response to the creation contains the secret");
    /// # Ok(())
    /// # }
    /// ```
    pub fn create(&self, webhook: impl Into<NewWebhook>) -> Call<Webhook> {
        let webhook = webhook.into();
        let payload = self
            .check_url(Some(&webhook.url))
            .and_then(|()| payload(webhook));
        Call::new(&self.shared, Operation::WebhooksCreate, &[], payload)
    }

    /// Lists all webhooks.
    pub fn list(&self) -> Call<List<Webhook>> {
        Call::new(
            &self.shared,
            Operation::WebhooksList,
            &[],
            Ok(Payload::Empty),
        )
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
        let payload = self
            .check_url(update.url.as_deref())
            .and_then(|()| payload(update));
        Call::new(
            &self.shared,
            Operation::WebhooksUpdate,
            &[id.as_ref()],
            payload,
        )
    }

    /// Deletes a webhook.
    pub fn delete(&self, id: impl AsRef<str>) -> Call<Deleted> {
        Call::new(
            &self.shared,
            Operation::WebhooksDelete,
            &[id.as_ref()],
            Ok(Payload::Empty),
        )
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
        Call::new(
            &self.shared,
            Operation::WebhooksTest,
            &[id.as_ref()],
            Ok(Payload::Empty),
        )
    }

    /// The service requires `https`; a local server may accept `http`.
    fn check_url(&self, url: Option<&str>) -> Result<(), Error> {
        let is_https = |url: &str| {
            url.get(..8)
                .is_some_and(|start| start.eq_ignore_ascii_case("https://"))
        };
        let is_checked =
            self.shared.settings.local_checks && !self.shared.allows_insecure_webhook_urls();
        if is_checked && url.is_some_and(|url| !is_https(url)) {
            return Err(InvalidInput::new("url", "must be an https URL").into());
        }
        Ok(())
    }
}
