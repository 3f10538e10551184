//! The control interface.

use serde_json::{Value, json};

use super::parts::{Parts, body, path_parameters, query, refer, success};
use crate::control as handlers;

/// One row: method, path, what it does, the status of success, whether that
/// comes with JSON, and the names of its query parameters.
struct Row(&'static str, &'static str, &'static str, u16, Sends, &'static [&'static str]);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sends {
    Nothing,
    Json,
    /// A message's source, its HTML, or an answer that does not end.
    Other(&'static str),
}

use Sends::{Json, Nothing, Other};

const ORGANIZATION: &[&str] = &["organization"];
const SEARCH: &[&str] = &["organization", "to", "from", "subject", "after", "limit", "cursor"];
const WAIT: &[&str] =
    &["organization", "to", "from", "subject", "after", "limit", "cursor", "timeout"];
const DELIVERIES: &[&str] = &["organization", "webhook", "event", "state", "limit", "cursor"];

#[rustfmt::skip]
const ROWS: &[Row] = &[
    Row("GET", "/_sandbox/health", "Whether the server is well, its time, and where it answers", 200, Json, &[]),
    Row("GET", "/_sandbox/lease", "Held open, it keeps an embedded server running", 200, Other("text/plain"), &[]),
    Row("GET", "/metrics", "Counters in the text format of Prometheus", 200, Other("text/plain"), &[]),
    Row("GET", "/readyz", "Whether the server is ready", 200, Json, &[]),
    Row("POST", "/_sandbox/organizations", "Makes an organization with keys of every scope", 201, Json, &[]),
    Row("GET", "/_sandbox/organizations", "The organizations", 200, Json, &[]),
    Row("POST", "/_sandbox/keys", "Makes a key; it is shown only here", 201, Json, &[]),
    Row("GET", "/_sandbox/keys", "The keys, without their secrets", 200, Json, ORGANIZATION),
    Row("DELETE", "/_sandbox/keys/{id}", "Revokes a key, from the next request on", 204, Nothing, ORGANIZATION),
    Row("PUT", "/_sandbox/templates/{id}", "Puts a template in place", 200, Json, ORGANIZATION),
    Row("GET", "/_sandbox/templates/{id}", "A template", 200, Json, ORGANIZATION),
    Row("DELETE", "/_sandbox/templates/{id}", "Removes a template", 204, Nothing, ORGANIZATION),
    Row("POST", "/_sandbox/dns/{domain}/publish", "Publishes the records that a domain asked for", 200, Json, ORGANIZATION),
    Row("DELETE", "/_sandbox/dns/{domain}", "Withdraws all of a domain's records", 204, Nothing, ORGANIZATION),
    Row("DELETE", "/_sandbox/dns/{domain}/{record}", "Withdraws one kind of a domain's records", 204, Nothing, ORGANIZATION),
    Row("GET", "/_sandbox/messages", "What the mail engine delivered, newest first", 200, Json, SEARCH),
    Row("GET", "/_sandbox/messages/wait", "The first match, at once or when it comes", 200, Json, WAIT),
    Row("GET", "/_sandbox/messages/{id}", "A message", 200, Json, ORGANIZATION),
    Row("GET", "/_sandbox/messages/{id}/raw", "A message's RFC 5322 source", 200, Other("message/rfc822"), ORGANIZATION),
    Row("GET", "/_sandbox/messages/{id}/html", "A message's HTML", 200, Other("text/html"), ORGANIZATION),
    Row("GET", "/_sandbox/messages/{id}/links", "A message's links and codes", 200, Json, ORGANIZATION),
    Row("POST", "/_sandbox/emails/{id}/events", "Makes something happen to an email", 200, Json, ORGANIZATION),
    Row("POST", "/_sandbox/inbound", "Takes a message in for a verified domain", 202, Json, &["organization", "to"]),
    Row("POST", "/_sandbox/extractions", "Completes or fails an extraction", 202, Json, ORGANIZATION),
    Row("GET", "/_sandbox/deliveries", "Deliveries with their attempts, newest first", 200, Json, DELIVERIES),
    Row("GET", "/_sandbox/deliveries/{id}", "A delivery with every attempt", 200, Json, ORGANIZATION),
    Row("POST", "/_sandbox/deliveries/{id}/replay", "Delivers again: same id, current secret, one attempt", 202, Json, ORGANIZATION),
    Row("GET", "/_sandbox/clock", "The server's clock", 200, Json, &[]),
    Row("POST", "/_sandbox/clock", "Freezes the clock, advances it, or lets it go on", 200, Json, &[]),
    Row("GET", "/_sandbox/faults", "The faults in place and the requests that met them", 200, Json, ORGANIZATION),
    Row("POST", "/_sandbox/faults", "The next matching requests meet this fault", 201, Json, ORGANIZATION),
    Row("DELETE", "/_sandbox/faults", "Takes all faults away", 204, Nothing, ORGANIZATION),
    Row("GET", "/_sandbox/faults/{id}", "A fault and the requests that met it", 200, Json, ORGANIZATION),
    Row("DELETE", "/_sandbox/faults/{id}", "Takes a fault away", 204, Nothing, ORGANIZATION),
    Row("POST", "/_sandbox/reset", "Empties an organization, or all of the server", 204, Nothing, ORGANIZATION),
];

/// Every operation: its method, path and description.
pub(super) fn describe(parts: &mut Parts) -> Vec<(&'static str, &'static str, Value)> {
    let rows = ROWS.iter();
    rows.map(|row @ Row(method, path, ..)| (*method, *path, one(row, parts))).collect()
}

fn one(row: &Row, parts: &mut Parts) -> Value {
    let Row(method, path, summary, status, sends, queries) = row;
    let mut parameters = path_parameters(path);
    parameters.extend(queries.iter().map(|name| parameter(name)));
    let free = json!({"type": ["object", "array"]});
    let mut success = success(summary, (*sends == Json).then_some(&free));
    if let Other(content_type) = sends {
        success["content"] = json!({*content_type: {"schema": {"type": "string"}}});
    }
    let mut responses = json!({});
    responses[status.to_string()] = success;
    refer(&mut responses, &[401, 403, 404, 421, 422, 500, 503]);
    let mut described = json!({
        "operationId": id(method, path),
        "tags": ["sandbox"],
        "summary": summary,
        "parameters": parameters,
    });
    if let Some((schema, required)) = input(method, path, parts) {
        described["requestBody"] = body(&schema, required);
        if *path == "/_sandbox/inbound" {
            let source = json!({"schema": {"type": "string"}});
            described["requestBody"]["content"]["message/rfc822"] = source;
        }
        refer(&mut responses, &[400, 408, 413, 415]);
    }
    if ["/_sandbox/emails/{id}/events", "/_sandbox/deliveries/{id}/replay"].contains(path) {
        refer(&mut responses, &[409]);
    }
    if *path == "/_sandbox/messages/wait" {
        refer(&mut responses, &[408]);
    }
    if *method != "GET" {
        refer(&mut responses, &[507]);
    }
    described["responses"] = responses;
    described
}

/// The body that a request may bring, and whether it must.
fn input(method: &str, path: &str, parts: &mut Parts) -> Option<(Value, bool)> {
    Some(match (method, path) {
        ("POST", "/_sandbox/organizations") => {
            (parts.input::<handlers::organizations::New>(), false)
        }
        ("POST", "/_sandbox/keys") => (parts.input::<handlers::keys::New>(), true),
        ("PUT", "/_sandbox/templates/{id}") => {
            (parts.input::<handlers::templates::Template>(), true)
        }
        ("POST", "/_sandbox/dns/{domain}/publish") => {
            (parts.input::<handlers::dns::Publish>(), false)
        }
        ("POST", "/_sandbox/emails/{id}/events") => {
            (parts.input::<handlers::events::Event>(), true)
        }
        ("POST", "/_sandbox/inbound") => (parts.input::<handlers::inbound::Short>(), true),
        ("POST", "/_sandbox/extractions") => (parts.input::<handlers::extractions::New>(), true),
        ("POST", "/_sandbox/clock") => (parts.input::<handlers::clock::Change>(), true),
        ("POST", "/_sandbox/faults") => (parts.input::<handlers::faults::New>(), true),
        ("POST", "/_sandbox/reset") => (parts.input::<handlers::reset::Reset>(), false),
        _ => return None,
    })
}

fn parameter(name: &str) -> Value {
    let text = json!({"type": "string"});
    match name {
        "organization" => query(name, "Its id or its name; `Sandbox` where none is given.", &text),
        "limit" => {
            let limit = json!({"type": "integer", "minimum": 1, "maximum": 100, "default": 20});
            query(name, "How many at most.", &limit)
        }
        "cursor" => query(name, "The `next` of the page before.", &text),
        "state" => {
            let states =
                json!({"type": "string", "enum": ["pending", "delivered", "failed", "dropped"]});
            query(name, "Only deliveries in this state.", &states)
        }
        "timeout" => query(name, "How long to wait, such as 30s, in real time.", &text),
        "after" => query(name, "Only what came after this.", &text),
        _ => query(name, "Only what matches.", &text),
    }
}

/// Such as `sandbox.get.messages.id.raw`.
fn id(method: &str, path: &str) -> String {
    let words = path.trim_start_matches("/_sandbox").trim_start_matches('/').split('/');
    let words: Vec<&str> = words.map(|word| word.trim_matches(['{', '}'])).collect();
    format!("sandbox.{}.{}", method.to_ascii_lowercase(), words.join("."))
}
