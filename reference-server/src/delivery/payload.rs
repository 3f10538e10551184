//! Bodies of webhook deliveries: the types that they are serialized from, which also
//! describe them in `/openapi.json` (`docs/extraction-service/README.md#events`,
//! `docs/undocumented/services.md#delivery-payload`,
//! `docs/undocumented/services.md#extraction-error`).

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Map, Value};
use svc_sdk::{Dialect, Point};

pub(crate) use super::emit::Body;
use super::inbound::ReceivedEmail;
use crate::model::error::ApiError;
use crate::model::event::Event;
use crate::model::schema;
use crate::model::status::RecipientState;
use crate::model::time::{self, Millis};
use crate::store::emails::StoredEmail;

/// Data of the events of an outgoing email. Each event is about one recipient.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "OutgoingEmail")]
pub(crate) struct Outgoing<'a> {
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
    email: Outgoing<'a>,
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
    email: Outgoing<'a>,
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
    email: Outgoing<'a>,
    reason: &'a str,
}

/// Data of the event that the test operation sends.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "WebhookTest")]
pub(crate) struct Test<'a> {
    pub(crate) webhook_id: &'a str,
    pub(crate) message: &'a str,
    #[schemars(with = "schema::Time")]
    pub(crate) timestamp: String,
}

/// The data of an event about one recipient, as JSON. `detail` describes the cause, if known.
pub(crate) fn outgoing(
    email: &StoredEmail,
    recipient: &RecipientState,
    event: Event,
    detail: Option<&Value>,
    now: Millis,
) -> Result<Vec<u8>, ApiError> {
    let text = |name: &str| {
        detail
            .and_then(|detail| detail.get(name))
            .and_then(Value::as_str)
    };
    let detail_text = detail.and_then(Value::as_str);
    let reason = text("reason").or(detail_text);
    let email = Outgoing {
        email_id: &email.id,
        from: &email.from,
        recipient: &recipient.address,
        subject: &email.subject,
        tags: &email.tags,
        timestamp: time::rfc3339(now),
    };
    let json = match event {
        Event::EmailBounced => serde_json::to_vec(&Bounced {
            email,
            bounce: Bounce {
                r#type: text("type").unwrap_or("hard"),
                reason: reason.unwrap_or("550 5.1.1 no such mailbox"),
            },
        }),
        Event::EmailClicked => serde_json::to_vec(&Clicked {
            email,
            click: Click {
                url: text("url").or(detail_text),
            },
        }),
        Event::EmailFailed | Event::EmailComplained => serde_json::to_vec(&WithReason {
            email,
            reason: reason.unwrap_or("no reason was given"),
        }),
        _ => serde_json::to_vec(&email),
    };
    json.map_err(ApiError::internal)
}

/// Describes the body of the deliveries of an event.
pub(crate) fn schema(event: Event, dialect: &Dialect, generator: &mut SchemaGenerator) -> Schema {
    match event {
        Event::EmailSent | Event::EmailDelivered | Event::EmailOpened => {
            generator.subschema_for::<Body<'_, Outgoing<'_>>>()
        }
        Event::EmailBounced => generator.subschema_for::<Body<'_, Bounced<'_>>>(),
        Event::EmailClicked => generator.subschema_for::<Body<'_, Clicked<'_>>>(),
        Event::EmailComplained | Event::EmailFailed => {
            generator.subschema_for::<Body<'_, WithReason<'_>>>()
        }
        Event::EmailReceived => generator.subschema_for::<Body<'_, ReceivedEmail<'_>>>(),
        Event::ExtractionCompleted => generator.subschema_for::<Body<'_, Fields>>(),
        Event::ExtractionFailed if dialect.is(Point::ExtractionError, "string") => {
            generator.subschema_for::<Body<'_, Failure<String>>>()
        }
        Event::ExtractionFailed => generator.subschema_for::<Body<'_, Failure<FailureObject>>>(),
    }
}

/// The extracted fields. Their names depend on the template.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ExtractedFields", extend("additionalProperties" = true))]
struct Fields {}

/// The data of a failed extraction that the control interface sends by default.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ExtractionFailure", extend("additionalProperties" = true))]
struct Failure<E> {
    error: E,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ExtractionError", extend("additionalProperties" = true))]
struct FailureObject {
    code: String,
    message: String,
}
