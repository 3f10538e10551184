//! The operations of the control interface: their requests and responses.

use http::StatusCode;
use schemars::JsonSchema as _;
use serde_json::{Value, json};

use super::operation::OperationBuilder;
use crate::api::control::Page;
use crate::api::control::clock;
use crate::api::control::deliveries;
use crate::api::control::dns;
use crate::api::control::events;
use crate::api::control::extractions;
use crate::api::control::faults;
use crate::api::control::health;
use crate::api::control::inbound;
use crate::api::control::keys;
use crate::api::control::messages;
use crate::api::control::metrics;
use crate::api::control::organizations;
use crate::api::control::reset;
use crate::api::control::templates;
use crate::model::error::Code;
use crate::model::schema;
use crate::store::emails;

const SERVER: &str = "Sandbox server";
const ORGANIZATIONS: &str = "Sandbox organizations and keys";
const TEMPLATES: &str = "Sandbox templates";
const DNS: &str = "Sandbox DNS";
const MESSAGES: &str = "Sandbox messages";
const EVENTS: &str = "Sandbox events";
const DELIVERIES: &str = "Sandbox deliveries";
const FAULTS: &str = "Sandbox faults";

/// The ID of the created resource in the response.
const ID: &str = "$response.body#/id";
const DELIVERY: &str = "/_sandbox/deliveries/{id}";
/// Operations that take the ID of a message.
const MESSAGE: &[(&str, &str)] = &[
    ("GET", "/_sandbox/messages/{id}"),
    ("GET", "/_sandbox/messages/{id}/raw"),
    ("GET", "/_sandbox/messages/{id}/html"),
    ("GET", "/_sandbox/messages/{id}/links"),
];

/// Returns `None` for an unknown endpoint; a test ensures that all are known.
pub(super) fn describe<'d, 'a>(
    method: &str,
    path: &str,
    builder: OperationBuilder<'d, 'a>,
) -> Option<OperationBuilder<'d, 'a>> {
    let ok = StatusCode::OK;
    Some(match (method, path) {
        ("GET", "/_sandbox/health") => builder
            .summary(SERVER, "Get the status, the time and the addresses of the server")
            .json::<health::Health>(ok, "The server is running."),
        ("GET", "/readyz") => builder
            .summary(SERVER, "Check whether the server is ready")
            .json::<metrics::Ready>(ok, "The server is ready."),
        ("GET", "/metrics") => builder
            .summary(SERVER, "Get metrics in the Prometheus text format")
            .non_json(ok, "The metrics.", "text/plain"),
        ("GET", "/_sandbox/lease") => builder
            .summary(SERVER, "Keep an embedded server running while this response is open")
            .non_json(ok, "A line feed every second, without end.", "text/plain"),
        ("GET", "/_sandbox/clock") => {
            builder.summary(SERVER, "Get the clock").json::<clock::Clock>(ok, "The clock.")
        }
        ("POST", "/_sandbox/clock") => builder
            .summary(SERVER, "Freeze, advance or resume the clock")
            .body::<clock::Change>()
            .json::<clock::Clock>(ok, "The clock, after all due work is done."),
        ("POST", "/_sandbox/reset") => builder
            .scoped_to_organization()
            .summary(SERVER, "Delete the data of an organization, or of the whole server if none is given")
            .optional_body::<reset::Reset>()
            .no_content("The data is deleted, and the seed data created again."),

        ("POST", "/_sandbox/organizations") => builder
            .summary(ORGANIZATIONS, "Create an organization with keys that have all scopes")
            .optional_body::<organizations::New>()
            .errors(&[Code::Conflict])
            .json::<organizations::Created>(StatusCode::CREATED, "The organization and its keys."),
        ("GET", "/_sandbox/organizations") => builder
            .summary(ORGANIZATIONS, "List the organizations")
            .json::<Vec<organizations::View>>(ok, "All organizations, oldest first."),
        ("POST", "/_sandbox/keys") => builder
            .scoped_to_organization()
            .summary(ORGANIZATIONS, "Create a key")
            .body::<keys::New>()
            .json::<keys::View>(StatusCode::CREATED, "The key with its secret, which no other response contains.")
            .links_to_control(&[("DELETE", "/_sandbox/keys/{id}")], ID),
        ("GET", "/_sandbox/keys") => builder
            .scoped_to_organization()
            .summary(ORGANIZATIONS, "List the keys")
            .json::<Vec<keys::View>>(ok, "All keys, without their secrets."),
        ("DELETE", "/_sandbox/keys/{id}") => builder
            .scoped_to_organization()
            .summary(ORGANIZATIONS, "Revoke a key")
            .no_content("The key is revoked with immediate effect."),

        ("PUT", "/_sandbox/templates/{id}") => builder
            .scoped_to_organization()
            .summary(TEMPLATES, "Create or replace a template")
            .body::<templates::Template>()
            .json::<templates::View>(ok, "The template.")
            .links_to_control(
                &[("GET", "/_sandbox/templates/{id}"), ("DELETE", "/_sandbox/templates/{id}")],
                "$request.path.id",
            ),
        ("GET", "/_sandbox/templates/{id}") => builder
            .scoped_to_organization()
            .summary(TEMPLATES, "Get a template")
            .json::<templates::View>(ok, "The template."),
        ("DELETE", "/_sandbox/templates/{id}") => {
            builder.scoped_to_organization().summary(TEMPLATES, "Delete a template").no_content("The template is deleted.")
        }

        ("POST", "/_sandbox/dns/{domain}/publish") => builder
            .scoped_to_organization()
            .summary(DNS, "Publish the DNS records of a sending domain in the built-in zone")
            .optional_body::<dns::Publish>()
            .json::<dns::Published>(ok, "The published records."),
        ("DELETE", "/_sandbox/dns/{domain}") => builder
            .scoped_to_organization()
            .summary(DNS, "Withdraw all DNS records of a domain")
            .no_content("The records are withdrawn."),
        ("DELETE", "/_sandbox/dns/{domain}/{record}") => builder
            .scoped_to_organization()
            .summary(DNS, "Withdraw one DNS record of a domain")
            .errors(&[Code::ValidationFailed])
            .no_content("The record is withdrawn."),

        ("GET", "/_sandbox/messages") => builder
            .scoped_to_organization()
            .summary(MESSAGES, "List delivered and received messages")
            .parameters(search())
            .parameters([limit(), message_cursor()])
            .errors(&[Code::ValidationFailed])
            .json::<Page<messages::Summary>>(ok, "Messages, newest first."),
        ("GET", "/_sandbox/messages/wait") => builder
            .scoped_to_organization()
            .summary(MESSAGES, "Wait for a message")
            .parameters(search())
            .parameters([limit(), message_cursor(), timeout()])
            .errors(&[Code::ValidationFailed, Code::RequestTimeout])
            .json::<messages::View>(ok, "The newest matching message, or the first one to arrive.")
            .links_to_control(MESSAGE, ID),
        ("GET", "/_sandbox/messages/{id}") => builder
            .scoped_to_organization()
            .summary(MESSAGES, "Get a message")
            .json::<messages::View>(ok, "The message with its content."),
        ("GET", "/_sandbox/messages/{id}/raw") => builder
            .scoped_to_organization()
            .summary(MESSAGES, "Get the source of a message")
            .non_json(ok, "The message in RFC 5322 format.", "message/rfc822"),
        ("GET", "/_sandbox/messages/{id}/html") => builder
            .scoped_to_organization()
            .summary(MESSAGES, "Get the HTML of a message")
            .non_json(ok, "The HTML part, with scripts disabled by a content security policy.", "text/html"),
        ("GET", "/_sandbox/messages/{id}/links") => builder
            .scoped_to_organization()
            .summary(MESSAGES, "Get the links and the one-time codes of a message")
            .json::<messages::Links>(ok, "The links in order, and the codes."),

        ("POST", "/_sandbox/emails/{id}/events") => builder
            .scoped_to_organization()
            .summary(EVENTS, "Simulate an event of an email")
            .body::<events::Event>()
            .errors(&[Code::Conflict])
            .json::<emails::View<'_>>(ok, "The updated email."),
        ("POST", "/_sandbox/inbound") => builder
            .scoped_to_organization()
            .summary(EVENTS, "Receive a message as if it had arrived over SMTP")
            .parameters([query(
                "to",
                "For `message/rfc822`: the recipients, separated by commas. Default: those in the header of the message.",
                &json!({"type": "string"}),
            ), query(
                "from",
                "For `message/rfc822`: the envelope sender. Default: the sender in the header of the message.",
                &json!({"type": "string"}),
            ), query(
                "ip",
                "The IP address of the sending host, for the SPF check. Without it, the SPF result is `none`.",
                &schema::IpAddress::json_schema(&mut schemars::SchemaGenerator::default()).to_value(),
            ), query(
                "helo",
                "The name that the sending host gives in `HELO`. Default: the domain of the sender.",
                &json!({"type": "string", "pattern": r"^[A-Za-z0-9.:\[\]_-]+$"}),
            )])
            .body::<inbound::New>()
            .alternative_body("message/rfc822")
            .json::<inbound::Received>(StatusCode::ACCEPTED, "One message for each local recipient.")
            .links_to_control(MESSAGE, "$response.body#/messages/0/id"),
        ("POST", "/_sandbox/extractions") => builder
            .scoped_to_organization()
            .summary(EVENTS, "Simulate a completed or failed extraction")
            .body::<extractions::New>()
            .json::<extractions::Finished>(StatusCode::ACCEPTED, "The deliveries are queued."),

        ("GET", "/_sandbox/deliveries") => builder
            .scoped_to_organization()
            .summary(DELIVERIES, "List webhook deliveries")
            .parameters([
                query("webhook", "The ID of the webhook.", &json!({"type": "string"})),
                query("event", "The name of the event, such as `email.sent`.", &json!({"type": "string"})),
                query("state", "The state of the delivery.", &json!({"type": "string", "enum": deliveries::STATES})),
                limit(),
                cursor(&json!({"type": "string", "format": "uuid"})),
            ])
            .errors(&[Code::ValidationFailed])
            .json::<Page<deliveries::Delivery>>(ok, "Deliveries with their attempts, newest first."),
        ("GET", "/_sandbox/deliveries/{id}") => builder
            .scoped_to_organization()
            .summary(DELIVERIES, "Get a delivery")
            .json::<deliveries::Delivery>(ok, "The delivery with its body and the responses to its attempts."),
        ("POST", "/_sandbox/deliveries/{id}/replay") => builder
            .scoped_to_organization()
            .summary(DELIVERIES, "Attempt a delivery again, with the same event ID and the current secret")
            .ignored_body()
            .errors(&[Code::Conflict])
            .json::<deliveries::Delivery>(StatusCode::ACCEPTED, "The attempt is queued.")
            .links_to_control(&[("GET", DELIVERY)], ID),

        ("GET", "/_sandbox/faults") => builder
            .scoped_to_organization()
            .summary(FAULTS, "List the faults")
            .json::<Vec<faults::View<'_>>>(ok, "All faults, with the requests that they affected."),
        ("POST", "/_sandbox/faults") => builder
            .scoped_to_organization()
            .summary(FAULTS, "Add a fault that affects the next matching requests")
            .body::<faults::New>()
            .json::<faults::View<'_>>(StatusCode::CREATED, "The fault.")
            .links_to_control(
                &[("GET", "/_sandbox/faults/{id}"), ("DELETE", "/_sandbox/faults/{id}")],
                ID,
            ),
        ("DELETE", "/_sandbox/faults") => {
            builder.scoped_to_organization().summary(FAULTS, "Remove all faults").no_content("The faults are removed.")
        }
        ("GET", "/_sandbox/faults/{id}") => builder
            .scoped_to_organization()
            .summary(FAULTS, "Get a fault")
            .json::<faults::View<'_>>(ok, "The fault, with the requests that it affected."),
        ("DELETE", "/_sandbox/faults/{id}") => {
            builder.scoped_to_organization().summary(FAULTS, "Remove a fault").no_content("The fault is removed.")
        }
        _ => return None,
    })
}

/// The query parameters that select messages.
fn search() -> [Value; 4] {
    let mailbox = schemars::SchemaGenerator::default().subschema_for::<schema::Mailbox>();
    let mailbox = mailbox.to_value();
    [
        query("to", "The address of the recipient.", &mailbox),
        query("from", "The address of the sender.", &mailbox),
        query("subject", "A part of the subject, case-insensitive.", &json!({"type": "string"})),
        query(
            "after",
            "Only messages after this time, or after the message with this ID.",
            &json!({"anyOf": [
                {"type": "string", "format": "date-time"},
                {"type": "string", "pattern": "^msg_"},
            ]}),
        ),
    ]
}

fn limit() -> Value {
    let schema = json!({"type": "integer", "minimum": 1, "maximum": 100, "default": 20});
    query("limit", "Maximum number of results.", &schema)
}

fn cursor(schema: &Value) -> Value {
    query("cursor", "The `next` value of the previous page.", schema)
}

fn message_cursor() -> Value {
    cursor(&json!({"type": "string", "pattern": "^msg_"}))
}

fn timeout() -> Value {
    let schema = schemars::SchemaGenerator::default().subschema_for::<schema::Duration>();
    query(
        "timeout",
        "How long to wait, in real time, at most `10m`. Default: `30s`. Then the status is 408.",
        &schema.to_value(),
    )
}

fn query(name: &str, description: &str, schema: &Value) -> Value {
    json!({"name": name, "in": "query", "description": description, "schema": schema})
}
