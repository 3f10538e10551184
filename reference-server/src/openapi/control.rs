//! The rows of the control interface: what each reads and answers.

use http::StatusCode;
use schemars::JsonSchema as _;
use serde_json::{Value, json};

use super::row::Row;
use super::schema;
use crate::control::{
    Page, clock, deliveries, dns, events, extractions, faults, health, inbound, keys, messages,
    metrics, organizations, reset, templates,
};
use crate::email::stored;
use crate::error::Code;

const SERVER: &str = "Sandbox server";
const TENANTS: &str = "Sandbox organizations and keys";
const TEMPLATES: &str = "Sandbox templates";
const DNS: &str = "Sandbox DNS";
const MESSAGES: &str = "Sandbox messages";
const EVENTS: &str = "Sandbox events";
const DELIVERIES: &str = "Sandbox deliveries";
const FAULTS: &str = "Sandbox faults";

/// Where the answer of a row has the id of what it made.
const ID: &str = "$response.body#/id";
const DELIVERY: &str = "/_sandbox/deliveries/{id}";
/// What takes the id of a message.
const MESSAGE: &[(&str, &str)] = &[
    ("GET", "/_sandbox/messages/{id}"),
    ("GET", "/_sandbox/messages/{id}/raw"),
    ("GET", "/_sandbox/messages/{id}/html"),
    ("GET", "/_sandbox/messages/{id}/links"),
];

/// Nothing where the row is unknown here, which a test forbids.
pub(super) fn describe<'d, 'a>(method: &str, path: &str, row: Row<'d, 'a>) -> Option<Row<'d, 'a>> {
    let ok = StatusCode::OK;
    Some(match (method, path) {
        ("GET", "/_sandbox/health") => row
            .summary(SERVER, "Show whether the server is well, its time and its addresses")
            .json::<health::Health>(ok, "It is well."),
        ("GET", "/readyz") => row
            .summary(SERVER, "Show whether the server is ready")
            .json::<metrics::Ready>(ok, "It is ready."),
        ("GET", "/metrics") => row
            .summary(SERVER, "Show counters in the text format of Prometheus")
            .other(ok, "The counters.", "text/plain"),
        ("GET", "/_sandbox/lease") => row
            .summary(SERVER, "Keep an embedded server running while this is held open")
            .other(ok, "A line feed each second, without an end.", "text/plain"),
        ("GET", "/_sandbox/clock") => {
            row.summary(SERVER, "Show the clock").json::<clock::Clock>(ok, "The clock.")
        }
        ("POST", "/_sandbox/clock") => row
            .summary(SERVER, "Freeze the clock, advance it, or let it go on")
            .body::<clock::Change>()
            .json::<clock::Clock>(ok, "The clock, when all that is due has settled."),
        ("POST", "/_sandbox/reset") => row
            .of_organization()
            .summary(SERVER, "Empty an organization, or all of the server where none is named")
            .optional_body::<reset::Reset>()
            .no_content("It is empty; seeds are put back."),

        ("POST", "/_sandbox/organizations") => row
            .summary(TENANTS, "Create an organization with keys of all scopes")
            .optional_body::<organizations::New>()
            .errors(&[Code::Conflict])
            .json::<organizations::Created>(StatusCode::CREATED, "The organization and its keys."),
        ("GET", "/_sandbox/organizations") => row
            .summary(TENANTS, "List the organizations")
            .json::<Vec<organizations::View>>(ok, "Every organization, the newest last."),
        ("POST", "/_sandbox/keys") => row
            .of_organization()
            .summary(TENANTS, "Create a key")
            .body::<keys::New>()
            .json::<keys::View>(StatusCode::CREATED, "The key, which is shown only here.")
            .leads_to_rows(&[("DELETE", "/_sandbox/keys/{id}")], ID),
        ("GET", "/_sandbox/keys") => row
            .of_organization()
            .summary(TENANTS, "List the keys")
            .json::<Vec<keys::View>>(ok, "Every key, without its secret."),
        ("DELETE", "/_sandbox/keys/{id}") => row
            .of_organization()
            .summary(TENANTS, "Revoke a key")
            .no_content("It fails from the next request on."),

        ("PUT", "/_sandbox/templates/{id}") => row
            .of_organization()
            .summary(TEMPLATES, "Put a template in place")
            .body::<templates::Template>()
            .json::<templates::View>(ok, "The template as it is now.")
            .leads_to_rows(
                &[("GET", "/_sandbox/templates/{id}"), ("DELETE", "/_sandbox/templates/{id}")],
                "$request.path.id",
            ),
        ("GET", "/_sandbox/templates/{id}") => row
            .of_organization()
            .summary(TEMPLATES, "Show a template")
            .json::<templates::View>(ok, "The template."),
        ("DELETE", "/_sandbox/templates/{id}") => {
            row.of_organization().summary(TEMPLATES, "Delete a template").no_content("It is gone.")
        }

        ("POST", "/_sandbox/dns/{domain}/publish") => row
            .of_organization()
            .summary(DNS, "Publish the records that a domain asked for in the built-in zone")
            .optional_body::<dns::Publish>()
            .json::<dns::Published>(ok, "What was published."),
        ("DELETE", "/_sandbox/dns/{domain}") => row
            .of_organization()
            .summary(DNS, "Withdraw all records of a domain")
            .no_content("They are withdrawn."),
        ("DELETE", "/_sandbox/dns/{domain}/{record}") => row
            .of_organization()
            .summary(DNS, "Withdraw one kind of record of a domain")
            .errors(&[Code::ValidationFailed])
            .no_content("It is withdrawn."),

        ("GET", "/_sandbox/messages") => row
            .of_organization()
            .summary(MESSAGES, "List what the mail engine delivered and took in")
            .parameters(search())
            .parameters([limit(), of_messages()])
            .errors(&[Code::ValidationFailed])
            .json::<Page<messages::Summary>>(ok, "The newest first."),
        ("GET", "/_sandbox/messages/wait") => row
            .of_organization()
            .summary(MESSAGES, "Wait for a message")
            .parameters(search())
            .parameters([limit(), of_messages(), timeout()])
            .errors(&[Code::ValidationFailed, Code::RequestTimeout])
            .json::<messages::View>(ok, "The first match, at once or when it comes.")
            .leads_to_rows(MESSAGE, ID),
        ("GET", "/_sandbox/messages/{id}") => row
            .of_organization()
            .summary(MESSAGES, "Show a message")
            .json::<messages::View>(ok, "The message with all that is in it."),
        ("GET", "/_sandbox/messages/{id}/raw") => row
            .of_organization()
            .summary(MESSAGES, "Show the source of a message")
            .other(ok, "RFC 5322, as it was or would be on the wire.", "message/rfc822"),
        ("GET", "/_sandbox/messages/{id}/html") => row
            .of_organization()
            .summary(MESSAGES, "Show the HTML of a message")
            .other(ok, "A page that can only be looked at.", "text/html"),
        ("GET", "/_sandbox/messages/{id}/links") => row
            .of_organization()
            .summary(MESSAGES, "Show the links of a message, and the one-time codes in it")
            .json::<messages::Links>(ok, "The links in their order, and the codes."),

        ("POST", "/_sandbox/emails/{id}/events") => row
            .of_organization()
            .summary(EVENTS, "Make something happen to an email")
            .body::<events::Event>()
            .errors(&[Code::Conflict])
            .json::<stored::View<'_>>(ok, "The email as it is now."),
        ("POST", "/_sandbox/inbound") => row
            .of_organization()
            .summary(EVENTS, "Let a message come in, as if over SMTP")
            .parameters([query(
                "to",
                "Of a whole message: who gets it, separated by commas; by default who its header names.",
                &json!({"type": "string"}),
            ), query(
                "from",
                "Of a whole message: the envelope's sender; by default who its header names.",
                &json!({"type": "string"}),
            ), query(
                "ip",
                "Where it comes from, for SPF to judge; without it the verdict is `none`.",
                &schema::IpAddress::json_schema(&mut schemars::SchemaGenerator::default()).to_value(),
            ), query(
                "helo",
                "The name that the sending host gives; the sender's domain where there is none.",
                &json!({"type": "string", "pattern": r"^[A-Za-z0-9.:\[\]_-]+$"}),
            )])
            .body::<inbound::Short>()
            .body_too("message/rfc822")
            .json::<inbound::Taken>(StatusCode::ACCEPTED, "A message for each recipient here.")
            .leads_to_rows(MESSAGE, "$response.body#/messages/0/id"),
        ("POST", "/_sandbox/extractions") => row
            .of_organization()
            .summary(EVENTS, "Complete or fail an extraction")
            .body::<extractions::New>()
            .json::<extractions::Finished>(StatusCode::ACCEPTED, "Its deliveries are queued."),

        ("GET", "/_sandbox/deliveries") => row
            .of_organization()
            .summary(DELIVERIES, "List the deliveries to webhooks")
            .parameters([
                query("webhook", "The webhook's id.", &json!({"type": "string"})),
                query("event", "Such as `email.sent`.", &json!({"type": "string"})),
                query("state", "", &json!({"type": "string", "enum": deliveries::STATES})),
                limit(),
                cursor(&json!({"type": "string", "format": "uuid"})),
            ])
            .errors(&[Code::ValidationFailed])
            .json::<Page<deliveries::Delivery>>(ok, "The newest first, with their attempts."),
        ("GET", "/_sandbox/deliveries/{id}") => row
            .of_organization()
            .summary(DELIVERIES, "Show a delivery")
            .json::<deliveries::Delivery>(ok, "With its body, and all of each attempt."),
        ("POST", "/_sandbox/deliveries/{id}/replay") => row
            .of_organization()
            .summary(DELIVERIES, "Deliver again: the same event id, the current secret")
            .ignored_body()
            .errors(&[Code::Conflict])
            .json::<deliveries::Delivery>(StatusCode::ACCEPTED, "One more attempt is queued.")
            .leads_to_rows(&[("GET", DELIVERY)], ID),

        ("GET", "/_sandbox/faults") => row
            .of_organization()
            .summary(FAULTS, "List the faults")
            .json::<Vec<faults::View<'_>>>(ok, "Every fault, and what met it."),
        ("POST", "/_sandbox/faults") => row
            .of_organization()
            .summary(FAULTS, "Let the next matching requests meet a fault")
            .body::<faults::New>()
            .json::<faults::View<'_>>(StatusCode::CREATED, "The fault.")
            .leads_to_rows(
                &[("GET", "/_sandbox/faults/{id}"), ("DELETE", "/_sandbox/faults/{id}")],
                ID,
            ),
        ("DELETE", "/_sandbox/faults") => {
            row.of_organization().summary(FAULTS, "Take all faults away").no_content("None is left.")
        }
        ("GET", "/_sandbox/faults/{id}") => row
            .of_organization()
            .summary(FAULTS, "Show a fault")
            .json::<faults::View<'_>>(ok, "The fault, and what met it."),
        ("DELETE", "/_sandbox/faults/{id}") => {
            row.of_organization().summary(FAULTS, "Take a fault away").no_content("It is gone.")
        }
        _ => return None,
    })
}

/// The parameters by which messages are found.
fn search() -> [Value; 4] {
    let mailbox = schemars::SchemaGenerator::default().subschema_for::<schema::Mailbox>();
    let mailbox = mailbox.to_value();
    [
        query("to", "The recipient.", &mailbox),
        query("from", "The sender.", &mailbox),
        query("subject", "A part of the subject, in any case.", &json!({"type": "string"})),
        query(
            "after",
            "Only what came after this time, or after the message with this id.",
            &json!({"anyOf": [
                {"type": "string", "format": "date-time"},
                {"type": "string", "pattern": "^msg_"},
            ]}),
        ),
    ]
}

fn limit() -> Value {
    let schema = json!({"type": "integer", "minimum": 1, "maximum": 100, "default": 20});
    query("limit", "How many at most.", &schema)
}

fn cursor(of_what: &Value) -> Value {
    query("cursor", "The `next` of the part before.", of_what)
}

fn of_messages() -> Value {
    cursor(&json!({"type": "string", "pattern": "^msg_"}))
}

fn timeout() -> Value {
    let schema = schemars::SchemaGenerator::default().subschema_for::<schema::Duration>();
    query("timeout", "In real time, at most `10m`, `30s` by default; then 408.", &schema.to_value())
}

fn query(name: &str, about: &str, schema: &Value) -> Value {
    json!({"name": name, "in": "query", "description": about, "schema": schema})
}
