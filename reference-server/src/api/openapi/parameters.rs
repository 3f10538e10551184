//! The query parameters of the control interface, besides `organization`.

use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Value, json};

use crate::api::control::deliveries::STATES;
use crate::api::control::faults::OperationName;
use crate::model::compatibility::Compatibility;
use crate::model::schema::{Duration, IpAddress, Mailbox};
use crate::model::status::Status;

pub(crate) fn messages(_: &Compatibility) -> Vec<Value> {
    vec![
        query("to", "The address of the recipient.", schema::<Mailbox>()),
        query("from", "The address of the sender.", schema::<Mailbox>()),
        query("subject", "A part of the subject, case-insensitive.", text()),
        query(
            "after",
            "Only messages after this time, or after the message with this ID.",
            position("^msg_"),
        ),
        limit(),
        cursor(json!({"type": "string", "pattern": "^msg_"})),
    ]
}

pub(crate) fn waiting(compatibility: &Compatibility) -> Vec<Value> {
    let mut parameters = messages(compatibility);
    parameters.push(query(
        "timeout",
        "How long to wait, in real time, at most `10m`. Default: `30s`. Then the status is 408.",
        schema::<Duration>(),
    ));
    parameters
}

pub(crate) fn emails(_: &Compatibility) -> Vec<Value> {
    let statuses = Status::ALL.map(Status::as_str);
    vec![
        query("status", "The status.", json!({"type": "string", "enum": statuses})),
        query("address", "The address of the sender or of any recipient.", schema::<Mailbox>()),
        query("subject", "A part of the subject, case-insensitive.", text()),
        query("tag", "The name of a tag, or its name and value as `name=value`.", text()),
        query(
            "after",
            "Only emails after this time, or after the email with this ID.",
            position("^eml_"),
        ),
        query(
            "before",
            "Only emails before this time, or before the email with this ID.",
            position("^eml_"),
        ),
        limit(),
        cursor(json!({"type": "string", "pattern": "^eml_"})),
    ]
}

pub(crate) fn requests(_: &Compatibility) -> Vec<Value> {
    vec![
        query("operation", "The operation.", schema::<OperationName>()),
        query(
            "status",
            "The status of the response, such as `202`, or a class, such as `4xx`.",
            json!({"type": "string", "pattern": "^([1-5]xx|[1-5][0-9][0-9])$"}),
        ),
        query("key", "The ID of the key.", text()),
        query(
            "after",
            "Only requests after this time, or after the request with this ID.",
            position("^req_"),
        ),
        limit(),
        cursor(json!({"type": "string", "pattern": "^req_"})),
    ]
}

pub(crate) fn templates(_: &Compatibility) -> Vec<Value> {
    vec![limit(), cursor(text())]
}

pub(crate) fn domains(_: &Compatibility) -> Vec<Value> {
    vec![limit(), cursor(json!({"type": "string", "pattern": "^dom_"}))]
}

pub(crate) fn audiences(_: &Compatibility) -> Vec<Value> {
    vec![limit(), cursor(json!({"type": "string", "pattern": "^aud_"}))]
}

pub(crate) fn contacts(_: &Compatibility) -> Vec<Value> {
    vec![limit(), cursor(json!({"type": "string", "pattern": "^con_"}))]
}

pub(crate) fn stream(_: &Compatibility) -> Vec<Value> {
    vec![query(
        "after",
        "The `id` of the last event that was received, unless the header `Last-Event-ID` has it.",
        text(),
    )]
}

pub(crate) fn changes(_: &Compatibility) -> Vec<Value> {
    vec![
        query(
            "after",
            "The `next` of the last response. Without it, the events begin now.",
            text(),
        ),
        query(
            "timeout",
            "How long to wait, in real time, at most `60s`. Default: `20s`.",
            schema::<Duration>(),
        ),
    ]
}

pub(crate) fn inbound(_: &Compatibility) -> Vec<Value> {
    vec![
        query(
            "to",
            "For `message/rfc822`: the recipients, separated by commas. Default: those in the header of the message.",
            text(),
        ),
        query(
            "from",
            "For `message/rfc822`: the envelope sender. Default: the sender in the header of the message.",
            text(),
        ),
        query(
            "ip",
            "The IP address of the sending host, for the SPF check. Without it, the SPF result is `none`.",
            schema::<IpAddress>(),
        ),
        query(
            "helo",
            "The name that the sending host gives in `HELO`. Default: the domain of the sender.",
            json!({"type": "string", "pattern": r"^[A-Za-z0-9.:\[\]_-]+$"}),
        ),
    ]
}

pub(crate) fn deliveries(_: &Compatibility) -> Vec<Value> {
    vec![
        query("webhook", "The ID of the webhook.", text()),
        query("event", "The name of the event, such as `email.sent`.", text()),
        query("state", "The state of the delivery.", json!({"type": "string", "enum": STATES})),
        limit(),
        cursor(json!({"type": "string", "format": "uuid"})),
    ]
}

/// A time, or an ID with this pattern.
fn position(pattern: &str) -> Value {
    json!({"anyOf": [
        {"type": "string", "format": "date-time"},
        {"type": "string", "pattern": pattern},
    ]})
}

fn limit() -> Value {
    let schema = json!({"type": "integer", "minimum": 1, "maximum": 100, "default": 20});
    query("limit", "Maximum number of results.", schema)
}

fn cursor(schema: Value) -> Value {
    query("cursor", "The `next` value of the previous page.", schema)
}

fn text() -> Value {
    json!({"type": "string"})
}

fn schema<T: JsonSchema>() -> Value {
    T::json_schema(&mut SchemaGenerator::default()).to_value()
}

#[expect(clippy::needless_pass_by_value, reason = "the macro takes a reference")]
fn query(name: &str, description: &str, schema: Value) -> Value {
    json!({"name": name, "in": "query", "description": description, "schema": schema})
}
