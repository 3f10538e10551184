//! Turns events into deliveries: what their bodies say
//! (`docs/extraction-service/README.md#events`, `docs/undocumented/services.md#delivery-payload`,
//! `docs/undocumented/services.md#extraction-error`). A delivery is stored with its exact bytes in the
//! transaction that causes the event, so that neither exists without the other.

use std::io::{self, Write};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use svc_sdk::{Dialect, Point, Service};

use crate::deliveries::delivery_rows::{self, Delivery};
use crate::emails::email_rows::StoredEmail;
use crate::mail::mime::Incoming;
use crate::messages::message_wire::{DkimResult, SpfVerdict};
use crate::model::{Event, Failure, Millis, RecipientState, Result, schema, time};
use crate::store::Tx;
use crate::store::bodies::{self, NewBody};
use crate::webhooks::webhook_rows;

/// The body of a delivery.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "{D}Delivery")]
pub(crate) struct Body<'a, D> {
    pub(crate) event: &'a str,
    /// The same for every attempt and every replay.
    #[schemars(extend("format" = "uuid"))]
    pub(crate) id: &'a str,
    #[schemars(with = "schema::Time")]
    pub(crate) created: String,
    pub(crate) data: D,
}

/// The subject of an event.
#[derive(Clone, Copy, Default)]
pub(crate) struct About<'a> {
    /// The ID of the email.
    pub(crate) email: Option<&'a str>,
    pub(crate) recipient: Option<&'a str>,
    pub(crate) subject: Option<&'a str>,
}

/// Stores a delivery of an event for every active webhook that subscribes to it. Calls `data` only
/// if there is a webhook. Returns the IDs of the deliveries.
pub(crate) fn emit(
    tx: &mut Tx<'_>,
    organization: i64,
    event: Event,
    about: About<'_>,
    data: impl FnOnce(&mut Tx<'_>) -> Result<Data>,
) -> Result<Vec<String>> {
    let subscribers = webhook_rows::subscribers(tx.reader(), organization, event)?;
    if subscribers.is_empty() {
        return Ok(Vec::new());
    }

    let mut data = data(tx)?;
    if data.shared.is_none() && data.own.get().len() >= MIN_SHARED {
        let shared = NewBody::new(fields(&data.own)?);
        data = Data {
            shared: Some(bodies::put(tx, &shared)?),
            own: to_raw_value(&SharedFields::default()).map_err(Failure::internal)?,
        };
    }

    let mut ids = Vec::with_capacity(subscribers.len());
    for webhook in subscribers {
        let new = Delivery {
            email_id: about.email.map(str::to_owned),
            recipient: about.recipient.map(str::to_owned),
            subject: about.subject.map(str::to_owned),
            ..delivery_rows::new(webhook, event.service(), event.as_str(), tx.now)
        };
        let body = body(
            tx.dialect(),
            event.service(),
            event.as_str(),
            &new.id,
            tx.now,
            &data,
        )?;
        delivery_rows::insert(tx, organization, &new, &body)?;
        delivery_rows::schedule(tx, organization, &new, 0)?;
        ids.push(new.id);
    }

    Ok(ids)
}

/// The data of an event, which is an object.
pub(crate) struct Data {
    /// The id of the fields that are stored once for all deliveries which have them.
    pub(crate) shared: Option<i64>,
    /// The object; with [`SharedFields`] in their place, if there are any.
    pub(crate) own: Box<RawValue>,
}

impl Data {
    /// The data of a single delivery, or of those that do not share it yet.
    pub(crate) fn of(object: &impl Serialize) -> Result<Self> {
        Ok(Self {
            shared: None,
            own: to_raw_value(object).map_err(Failure::internal)?,
        })
    }
}

/// Stands for fields in an object.
#[derive(Default, Serialize)]
pub(crate) struct SharedFields {
    #[serde(rename = "\u{1}")]
    fields: (),
}

/// The JSON of [`SharedFields`] within an object. It comes before what clients sent.
const SHARED_FIELDS: &str = r#""\u0001":null"#;

/// The JSON that takes the place of [`SharedFields`]: an object without its braces.
pub(crate) fn fields(object: &impl Serialize) -> Result<Vec<u8>> {
    // It does not grow, which would take its size twice.
    let mut json = Vec::with_capacity(json_size(object)?);
    serde_json::to_writer(&mut json, object).map_err(Failure::internal)?;
    json.pop();
    json.remove(0);
    Ok(json)
}

/// The size of the JSON of an object, in bytes.
pub(crate) fn json_size(object: &impl Serialize) -> Result<usize> {
    let mut size = Size(0);
    serde_json::to_writer(&mut size, object).map_err(Failure::internal)?;
    Ok(size.0)
}

/// The number of bytes that are written to it.
struct Size(usize);

impl Write for Size {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Size, in bytes, from which data is stored once: a reference to less would cost as much.
const MIN_SHARED: usize = 1024;

/// The body of a delivery (`docs/extraction-service/README.md#events`,
/// `docs/undocumented/services.md#delivery-payload`). That of the extraction service is documented.
pub(crate) fn body(
    dialect: &Dialect,
    service: Service,
    event: &str,
    id: &str,
    created: Millis,
    data: &Data,
) -> Result<delivery_rows::Body> {
    let name = |point: Point| match service {
        Service::Email => dialect.choice(point),
        _ => point.default_choice(),
    };

    let text = |text: &str| to_raw_value(text).map_err(Failure::internal);
    // The data goes last, and takes the place of what follows its name.
    let envelope = Envelope([
        (name(Point::DeliveryEvent), text(event)?),
        (name(Point::DeliveryId), text(id)?),
        (name(Point::DeliveryTime), text(&time::rfc3339(created))?),
        (name(Point::DeliveryData), data.own.clone()),
    ]);
    let json = match name(Point::DeliveryBody) {
        "array" => serde_json::to_string(&[envelope]),
        _ => serde_json::to_string(&envelope),
    };
    let json = json.map_err(Failure::internal)?;
    let (head, tail) = match data.shared {
        Some(_) => json.split_once(SHARED_FIELDS).unwrap_or((&json, "")),
        None => (&*json, ""),
    };
    Ok(delivery_rows::Body {
        head: head.into(),
        shared: data.shared,
        tail: tail.into(),
    })
}

/// An object with its fields in this order.
struct Envelope<'a>([(&'a str, Box<RawValue>); 4]);

impl Serialize for Envelope<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// Data of the events of an outgoing email. Each event is about one recipient.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "OutgoingEmail")]
pub(crate) struct OutgoingEmail<'a> {
    email_id: &'a str,
    from: &'a str,
    recipient: &'a str,
    subject: &'a str,
    tags: &'a Map<String, Value>,
    #[schemars(with = "schema::Time")]
    timestamp: String,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "BouncedEmail")]
pub(crate) struct Bounced<'a> {
    #[serde(flatten)]
    email: OutgoingEmail<'a>,
    bounce: Bounce<'a>,
}

/// Why an email bounced.
#[derive(Serialize, JsonSchema)]
struct Bounce<'a> {
    #[schemars(extend("enum" = ["hard", "soft"]))]
    r#type: &'a str,
    /// Reply of the receiving server.
    reason: &'a str,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ClickedEmail")]
pub(crate) struct Clicked<'a> {
    #[serde(flatten)]
    email: OutgoingEmail<'a>,
    click: Click<'a>,
}

/// Which link was followed.
#[derive(Serialize, JsonSchema)]
struct Click<'a> {
    /// Null only if the event was made by the control interface without a URL.
    url: Option<&'a str>,
}

/// Data of `email.failed` and `email.complained`.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "EmailWithReason")]
pub(crate) struct WithReason<'a> {
    #[serde(flatten)]
    email: OutgoingEmail<'a>,
    reason: &'a str,
}

/// Data of the event that the test operation sends.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "WebhookTest")]
pub(crate) struct TestEvent<'a> {
    pub(crate) webhook_id: &'a str,
    pub(crate) message: &'a str,
    #[schemars(with = "schema::Time")]
    pub(crate) timestamp: String,
}

/// The data of an event about one recipient. `detail` describes the cause, if known.
pub(crate) fn outgoing(
    email: &StoredEmail,
    recipient: &RecipientState,
    event: Event,
    detail: Option<&Value>,
    now: Millis,
) -> Result<Data> {
    let text = |name: &str| {
        detail
            .and_then(|detail| detail.get(name))
            .and_then(Value::as_str)
    };

    let detail_text = detail.and_then(Value::as_str);
    let reason = text("reason").or(detail_text);
    let email = OutgoingEmail {
        email_id: &email.id,
        from: &email.from,
        recipient: &recipient.address,
        subject: &email.subject,
        tags: &email.tags,
        timestamp: time::rfc3339(now),
    };
    match event {
        Event::EmailBounced => Data::of(&Bounced {
            email,
            bounce: Bounce {
                r#type: text("type").unwrap_or("hard"),
                reason: reason.unwrap_or("550 5.1.1 no such mailbox"),
            },
        }),
        Event::EmailClicked => Data::of(&Clicked {
            email,
            click: Click {
                url: text("url").or(detail_text),
            },
        }),
        Event::EmailFailed | Event::EmailComplained => Data::of(&WithReason {
            email,
            reason: reason.unwrap_or("no reason was given"),
        }),
        _ => Data::of(&email),
    }
}

/// Describes the body of the deliveries of an event; `None` is that of a test.
pub(crate) fn schema(
    event: Option<Event>,
    dialect: &Dialect,
    generator: &mut SchemaGenerator,
) -> Schema {
    let Some(event) = event else {
        return generator.subschema_for::<Body<'_, TestEvent<'_>>>();
    };
    match event {
        Event::EmailSent | Event::EmailDelivered | Event::EmailOpened => {
            generator.subschema_for::<Body<'_, OutgoingEmail<'_>>>()
        }
        Event::EmailBounced => generator.subschema_for::<Body<'_, Bounced<'_>>>(),
        Event::EmailClicked => generator.subschema_for::<Body<'_, Clicked<'_>>>(),
        Event::EmailComplained | Event::EmailFailed => {
            generator.subschema_for::<Body<'_, WithReason<'_>>>()
        }
        Event::EmailReceived => generator.subschema_for::<Body<'_, ReceivedEmail<'_, Incoming>>>(),
        Event::ExtractionCompleted => generator.subschema_for::<Body<'_, Fields>>(),
        Event::ExtractionFailed if dialect.is(Point::ExtractionError, "string") => {
            generator.subschema_for::<Body<'_, FailedExtraction<String>>>()
        }
        Event::ExtractionFailed => {
            generator.subschema_for::<Body<'_, FailedExtraction<FailureObject>>>()
        }
    }
}

/// The extracted fields. Their names depend on the template.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ExtractedFields", extend("additionalProperties" = true))]
struct Fields {}

/// The data of a failed extraction that the control interface sends by default.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ExtractionFailure", extend("additionalProperties" = true))]
struct FailedExtraction<E> {
    error: E,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ExtractionError", extend("additionalProperties" = true))]
struct FailureObject {
    code: String,
    message: String,
}

/// The data of `email.received`.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ReceivedEmail")]
pub(crate) struct ReceivedEmail<'a, M> {
    /// The message, whose fields are shared.
    #[serde(flatten)]
    pub(crate) message: M,
    pub(crate) spf: SpfVerdict,
    pub(crate) dkim: &'a DkimResult,
    /// Address of the mailbox that received the message.
    pub(crate) recipient: &'a str,
    /// Id of the message in the control interface.
    pub(crate) message_id: &'a str,
    #[schemars(with = "schema::Time")]
    pub(crate) timestamp: String,
}
