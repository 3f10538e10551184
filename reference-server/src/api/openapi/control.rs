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
use crate::api::control::operation::ControlOperation;
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
/// Operations that take the ID of a message.
const MESSAGE: &[ControlOperation] = &[
    ControlOperation::MessagesGet,
    ControlOperation::MessagesRaw,
    ControlOperation::MessagesHtml,
    ControlOperation::MessagesLinks,
];

pub(super) fn describe<'d, 'a>(
    operation: ControlOperation,
    builder: OperationBuilder<'d, 'a>,
) -> OperationBuilder<'d, 'a> {
    use ControlOperation as O;
    let ok = StatusCode::OK;
    match operation {
        O::Health => builder
            .summary(SERVER, "Get the status, the time and the addresses of the server")
            .json::<health::Health>(ok, "The server is running."),
        O::Ready => builder
            .summary(SERVER, "Check whether the server is ready")
            .json::<metrics::Ready>(ok, "The server is ready."),
        O::Metrics => builder
            .summary(SERVER, "Get metrics in the Prometheus text format")
            .non_json(ok, "The metrics.", "text/plain"),
        O::Lease => builder
            .summary(SERVER, "Keep an embedded server running while this response is open")
            .non_json(ok, "A line feed every second, without end.", "text/plain"),
        O::ClockGet => {
            builder.summary(SERVER, "Get the clock").json::<clock::Clock>(ok, "The clock.")
        }
        O::ClockSet => builder
            .summary(SERVER, "Freeze, advance or resume the clock")
            .body::<clock::Change>()
            .json::<clock::Clock>(ok, "The clock, after all due work is done."),
        O::Reset => builder
            .scoped_to_organization()
            .summary(SERVER, "Delete the data of an organization, or of the whole server if none is given")
            .optional_body::<reset::Reset>()
            .no_content("The data is deleted, and the seed data created again."),

        O::OrganizationsCreate => builder
            .summary(ORGANIZATIONS, "Create an organization with keys that have all scopes")
            .optional_body::<organizations::New>()
            .errors(&[Code::Conflict])
            .json::<organizations::Created>(StatusCode::CREATED, "The organization and its keys."),
        O::OrganizationsList => builder
            .summary(ORGANIZATIONS, "List the organizations")
            .json::<Vec<organizations::View>>(ok, "All organizations, oldest first."),
        O::KeysCreate => builder
            .scoped_to_organization()
            .summary(ORGANIZATIONS, "Create a key")
            .body::<keys::New>()
            .json::<keys::View>(StatusCode::CREATED, "The key with its secret, which no other response contains.")
            .links_to_control(&[O::KeysDelete], ID),
        O::KeysList => builder
            .scoped_to_organization()
            .summary(ORGANIZATIONS, "List the keys")
            .json::<Vec<keys::View>>(ok, "All keys, without their secrets."),
        O::KeysDelete => builder
            .scoped_to_organization()
            .summary(ORGANIZATIONS, "Revoke a key")
            .no_content("The key is revoked with immediate effect."),

        O::TemplatesPut => builder
            .scoped_to_organization()
            .summary(TEMPLATES, "Create or replace a template")
            .body::<templates::Template>()
            .json::<templates::View>(ok, "The template.")
            .links_to_control(
                &[O::TemplatesGet, O::TemplatesDelete],
                "$request.path.id",
            ),
        O::TemplatesGet => builder
            .scoped_to_organization()
            .summary(TEMPLATES, "Get a template")
            .json::<templates::View>(ok, "The template."),
        O::TemplatesDelete => {
            builder.scoped_to_organization().summary(TEMPLATES, "Delete a template").no_content("The template is deleted.")
        }

        O::DnsPublish => builder
            .scoped_to_organization()
            .summary(DNS, "Publish the DNS records of a sending domain in the built-in zone")
            .optional_body::<dns::Publish>()
            .json::<dns::Published>(ok, "The published records."),
        O::DnsWithdraw => builder
            .scoped_to_organization()
            .summary(DNS, "Withdraw all DNS records of a domain")
            .no_content("The records are withdrawn."),
        O::DnsWithdrawRecord => builder
            .scoped_to_organization()
            .summary(DNS, "Withdraw one DNS record of a domain")
            .errors(&[Code::ValidationFailed])
            .no_content("The record is withdrawn."),

        O::MessagesList => builder
            .scoped_to_organization()
            .summary(MESSAGES, "List delivered and received messages")
            .parameters(search())
            .parameters([limit(), message_cursor()])
            .errors(&[Code::ValidationFailed])
            .json::<Page<messages::Summary>>(ok, "Messages, newest first."),
        O::MessagesWait => builder
            .scoped_to_organization()
            .summary(MESSAGES, "Wait for a message")
            .parameters(search())
            .parameters([limit(), message_cursor(), timeout()])
            .errors(&[Code::ValidationFailed, Code::RequestTimeout])
            .json::<messages::View>(ok, "The newest matching message, or the first one to arrive.")
            .links_to_control(MESSAGE, ID),
        O::MessagesGet => builder
            .scoped_to_organization()
            .summary(MESSAGES, "Get a message")
            .json::<messages::View>(ok, "The message with its content."),
        O::MessagesRaw => builder
            .scoped_to_organization()
            .summary(MESSAGES, "Get the source of a message")
            .non_json(ok, "The message in RFC 5322 format.", "message/rfc822"),
        O::MessagesHtml => builder
            .scoped_to_organization()
            .summary(MESSAGES, "Get the HTML of a message")
            .non_json(ok, "The HTML part, with scripts disabled by a content security policy.", "text/html"),
        O::MessagesLinks => builder
            .scoped_to_organization()
            .summary(MESSAGES, "Get the links and the one-time codes of a message")
            .json::<messages::Links>(ok, "The links in order, and the codes."),

        O::EventsCreate => builder
            .scoped_to_organization()
            .summary(EVENTS, "Simulate an event of an email")
            .body::<events::Event>()
            .errors(&[Code::Conflict])
            .json::<emails::View<'_>>(ok, "The updated email."),
        O::InboundCreate => builder
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
        O::ExtractionsCreate => builder
            .scoped_to_organization()
            .summary(EVENTS, "Simulate a completed or failed extraction")
            .body::<extractions::New>()
            .json::<extractions::Finished>(StatusCode::ACCEPTED, "The deliveries are queued."),

        O::DeliveriesList => builder
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
        O::DeliveriesGet => builder
            .scoped_to_organization()
            .summary(DELIVERIES, "Get a delivery")
            .json::<deliveries::Delivery>(ok, "The delivery with its body and the responses to its attempts."),
        O::DeliveriesReplay => builder
            .scoped_to_organization()
            .summary(DELIVERIES, "Attempt a delivery again, with the same event ID and the current secret")
            .ignored_body()
            .errors(&[Code::Conflict])
            .json::<deliveries::Delivery>(StatusCode::ACCEPTED, "The attempt is queued.")
            .links_to_control(&[O::DeliveriesGet], ID),

        O::FaultsList => builder
            .scoped_to_organization()
            .summary(FAULTS, "List the faults")
            .json::<Vec<faults::View<'_>>>(ok, "All faults, with the requests that they affected."),
        O::FaultsCreate => builder
            .scoped_to_organization()
            .summary(FAULTS, "Add a fault that affects the next matching requests")
            .body::<faults::New>()
            .json::<faults::View<'_>>(StatusCode::CREATED, "The fault.")
            .links_to_control(
                &[O::FaultsGet, O::FaultsDelete],
                ID,
            ),
        O::FaultsClear => {
            builder.scoped_to_organization().summary(FAULTS, "Remove all faults").no_content("The faults are removed.")
        }
        O::FaultsGet => builder
            .scoped_to_organization()
            .summary(FAULTS, "Get a fault")
            .json::<faults::View<'_>>(ok, "The fault, with the requests that it affected."),
        O::FaultsDelete => {
            builder.scoped_to_organization().summary(FAULTS, "Remove a fault").no_content("The fault is removed.")
        }
    }
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
