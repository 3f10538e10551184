//! Webhooks of the email service: `Webhook`, `WebhookUpdate`, the result of a test delivery
//! (`WebhookTest`), and the operations, `Webhooks`. `NewWebhook`, which both services share, is in
//! `crate::webhook`. Only the response to a creation has the signing secret; it is never serialized
//! or printed. The status of a test is read only from fields that name one, so that a duration or
//! an ID is not taken for it.

use http::StatusCode;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::client::collection;
use crate::decode::{self, Extra, parse_value, resource};
use crate::dialect::Point;
use crate::engine::{Call, FromResponse, Received, payload, update_request};
use crate::error::{Error, InvalidInput};
use crate::fields::{Fields, at, is_nothing, plain, whole_number};
use crate::names::{debug_fields, setters};
use crate::operation::Operation;
use crate::secret::Secret;
use crate::webhook::NewWebhook;
use crate::words::WORDS;

resource! {
    /// A webhook: an endpoint that receives events.
    Webhook, "a webhook", "webhook";

    /// The URL of the endpoint.
    url: Option<String>;

    /// The subscribed events. `None` if the response does not contain them.
    events: Option<Vec<String>> = "decode::texts";

    /// Whether it is enabled.
    active: Option<bool> = "decode::flag";

    /// The secret that signs deliveries. Only the response to the creation contains it.
    /// It is never serialized, so store it with [`Secret::expose`].
    #[serde(skip_serializing)]
    signing_secret ["signingSecret"]: Option<Secret> = "decode::secret";
}

debug_fields!(Webhook: id, events, active, extra);

update_request! {
    /// Changes to a webhook.
    WebhookUpdate;

    /// The new URL.
    url: Option<String>;

    /// The new list of events.
    events: Option<Vec<String>>;

    /// Whether the webhook is enabled.
    active: Option<bool>;
}

impl WebhookUpdate {
    /// Replaces the subscribed events.
    pub fn events<E: Into<String>>(mut self, events: impl IntoIterator<Item = E>) -> Self {
        self.events = Some(events.into_iter().map(Into::into).collect());
        self
    }
}

setters! {
    impl WebhookUpdate;

    /// Changes the endpoint's URL.
    url(url: impl Into<String>) { url = Some(url.into()) }

    /// Enables or disables the webhook.
    active(active: bool) { active = Some(active) }
}

debug_fields!(WebhookUpdate: events, active);

/// The result of a test delivery.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WebhookTest {
    /// The HTTP status of the endpoint's response. `None` if the endpoint did not respond,
    /// or the service does not report the status, see [`is_known`](Self::is_known).
    #[serde(rename = "statusCode", serialize_with = "number")]
    pub status: Option<StatusCode>,
    /// The other fields of the response.
    #[serde(flatten)]
    pub extra: Extra,
    /// Whether the response has a field for the status, even if that is empty.
    #[serde(skip)]
    has_field: bool,
}

impl WebhookTest {
    /// True if the endpoint responded with a 2xx status.
    pub fn is_success(&self) -> bool {
        self.status.is_some_and(|status| status.is_success())
    }

    /// True if the response tells what became of the delivery: a status, or none because the
    /// endpoint did not respond. If not, nothing is known, although the test was made.
    pub fn is_known(&self) -> bool {
        self.has_field
    }
}

fn number<S: Serializer>(status: &Option<StatusCode>, serializer: S) -> Result<S::Ok, S::Error> {
    status.map(|status| status.as_u16()).serialize(serializer)
}

impl FromResponse for WebhookTest {
    fn from_response(response: &Received) -> Result<Self, Error> {
        let value = match parse_value(&response.body) {
            Ok(value) => value,
            Err(_) if response.may_be_text() => Value::Null,
            Err(bad) => return Err(response.decode_error(bad)),
        };
        let pinned = response.dialect.pinned(Point::TestStatusField);
        let found = find_status(&value, pinned);
        let mut fields = match value {
            Value::Object(fields) => fields,
            _ => Fields::new(),
        };
        fields.remove("statusCode");
        Ok(Self {
            status: found.flatten(),
            extra: Extra(fields),
            has_field: found.is_some(),
        })
    }
}

/// The endpoint's status in a field that is one; `Some(None)` if that says that there is none. A
/// number elsewhere, such as a duration, is no status.
fn find_status(value: &Value, pinned: Option<&str>) -> Option<Option<StatusCode>> {
    let Value::Object(fields) = value else {
        return as_status(value).map(Some);
    };

    // What is inside is about the delivery, even if an envelope has a status of its own.
    let inside = fields
        .iter()
        .filter(|(name, value)| {
            value.is_object() && WORDS.test_objects.contains(&plain(name).as_str())
        })
        .find_map(|(_, inner)| find_status(inner, pinned));
    if inside.is_some() {
        return inside;
    }

    let read = |value: &Value| {
        // Some write zero for an endpoint that did not respond.
        if is_nothing(value) || whole_number(value) == Some(0) {
            return Some(None);
        }
        as_status(value).map(Some)
    };

    let named = |name: &str| fields.iter().find(|(field, _)| plain(field) == name);
    match pinned {
        Some(path) => {
            let value = named(&plain(path)).map(|(_, value)| value);
            read(value.or_else(|| at(fields, path))?)
        }
        None => WORDS
            .test_statuses
            .iter()
            .find_map(|name| read(named(name)?.1)),
    }
}

/// A number from 100 to 599, perhaps in a text, such as `200 OK`.
fn as_status(value: &Value) -> Option<StatusCode> {
    let number = match value {
        Value::String(text) => text.split_whitespace().next()?.parse().ok()?,
        value => value.as_u64()?,
    };
    let number = u16::try_from(number).ok().filter(|status| *status < 600)?;
    StatusCode::from_u16(number).ok()
}

collection! {
    /// The operations on webhooks. All of them require the scope `webhooks:manage`.
    Webhooks of Webhook;
    /// Lists the webhooks.
    list WebhooksList;
    /// Deletes a webhook.
    delete WebhooksDelete;
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
        Call::without_body(&self.shared, Operation::WebhooksTest, &[id.as_ref()])
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
