//! What the reference of both services says, statement by statement: the step whose exchange shows it,
//! and what is expected there.

use serde_json::{Map, Value};
use svc_sdk::Service;
use svc_sdk::Service::{Email, Extraction};

use self::Expect::*;
use super::Level::{self, Read, Send, Write};
use super::examiner::Seen;
use super::exchange::{Exchange, each, field, flag, items, objects, own, with};
use super::points::{has_more, opt_outs, status_word, test_status_field};
use super::report::Finding;
use super::write::EVENTS;
use crate::signing::tag;

/// Statements about one service that one level tries.
pub(super) struct Group {
    pub(super) service: Service,
    pub(super) level: Level,
    /// Whether deliveries have to be received.
    pub(super) needs_listener: bool,
    pub(super) statements: &'static [Statement],
}

pub(super) struct Statement {
    pub(super) id: &'static str,
    pub(super) text: &'static str,
    step: &'static str,
    expect: Expect,
}

/// A question about the body of a response.
type Ask = fn(&Seen, &Value) -> bool;
type Type = fn(&Value) -> bool;

/// What a response is expected to be.
enum Expect {
    Success,
    Status(u16),
    /// What was asked for is not there.
    Failure,
    /// An error with this code and a message.
    Refusal(&'static str),
    /// A success whose body is as asked; else it has this problem.
    Is(&'static str, Ask),
    /// As `Is`. A response that is no success does not count: another statement is about that.
    Has(&'static str, Ask),
    /// A list of objects with this field.
    List(&'static str),
    /// The objects of a list have these fields, anywhere inside them.
    Each(&'static [&'static str], Type),
    /// The object with the first name has the others.
    Within(&'static str, &'static [&'static str], Type),
    /// No secret is in this field.
    NoSecret(&'static str),
    /// What the run has made is there, and as asked.
    Made(Mine, &'static str, Ask),
    Gone(Mine),
    /// A delivery has the signature of its exact bytes, made with the secret of the webhook of this step.
    Signed(&'static str),
}

/// Something that the run makes.
#[derive(Clone, Copy)]
enum Mine {
    Audience,
    Contact,
    Domain,
    Webhook,
    Endpoint,
}

const fn group(
    service: Service,
    level: Level,
    needs_listener: bool,
    statements: &'static [Statement],
) -> Group {
    Group {
        service,
        level,
        needs_listener,
        statements,
    }
}

const fn says(
    id: &'static str,
    text: &'static str,
    step: &'static str,
    expect: Expect,
) -> Statement {
    Statement {
        id,
        text,
        step,
        expect,
    }
}

const FLAGS: &[&str] = &[
    "mx_verified",
    "spf_verified",
    "dkim_verified",
    "dmarc_verified",
    "verified",
];
const STATUSES: [&str; 7] = [
    "queued",
    "sending",
    "sent",
    "delivered",
    "bounced",
    "failed",
    "complained",
];
/// The steps whose responses show the webhook again.
const SHOWN_AGAIN: [&str; 4] = [
    "webhooks.list.created",
    "webhooks.update",
    "webhooks.disable",
    "webhooks.list.updated",
];
const ENDPOINTS: &str = "extraction.webhooks.list.created";
const ANY: Ask = |_, _| true;

pub(super) const GROUPS: &[Group] = &[
    group(
        Email,
        Read,
        false,
        &[
            says(
                "audiences.list",
                "GET /api/v1/audiences: list of audiences",
                "audiences.list",
                List("name"),
            ),
            says(
                "audiences.name",
                "an audience has a name",
                "audiences.list",
                Each(&["name"], Value::is_string),
            ),
            says(
                "audiences.get",
                "GET /api/v1/audiences/:id: the audience",
                "audiences.get",
                Has("name is missing", |_, body| has_text(body, "name")),
            ),
            says(
                "contacts.list",
                "GET /api/v1/audiences/:audienceId/contacts: list of contacts",
                "contacts.list",
                List("email"),
            ),
            says(
                "contacts.email",
                "a contact has an email",
                "contacts.list",
                Each(&["email"], Value::is_string),
            ),
            says(
                "domains.list",
                "GET /api/v1/domains: list of domains",
                "domains.list",
                List("name"),
            ),
            says(
                "domains.flags",
                "a domain has the results of its checks, as booleans",
                "domains.list",
                Each(FLAGS, Value::is_boolean),
            ),
            says(
                "domains.verified",
                "verified is true when all four checks pass",
                "domains.list",
                Has(INCONSISTENT, |_, body| all(body, is_consistent)),
            ),
            says(
                "webhooks.list",
                "GET /api/v1/webhooks: list of webhooks",
                "webhooks.list",
                List("url"),
            ),
            says(
                "webhooks.fields",
                "a webhook has a url and events",
                "webhooks.list",
                Each(&["events"], Value::is_array),
            ),
            says(
                "webhooks.no-secret",
                "signingSecret is returned only in the creation response",
                "webhooks.list",
                NoSecret("signingSecret"),
            ),
        ],
    ),
    group(
        Extraction,
        Read,
        false,
        &[
            says("me", "GET /v1/me: 200", "me", Status(200)),
            says(
                "me.organization",
                "organization has id and name, as strings",
                "me",
                Within("organization", &["id", "name"], Value::is_string),
            ),
            says(
                "me.balance",
                "organization.balance_cents is an integer",
                "me",
                Within("organization", &["balance_cents"], Value::is_i64),
            ),
            says(
                "me.method",
                "auth.method is api_key",
                "me",
                Within("auth", &["method"], |it| it == "api_key"),
            ),
            says(
                "me.scope",
                "auth.scope is full or extract_only",
                "me",
                Within("auth", &["scope"], |it| {
                    it == "full" || it == "extract_only"
                }),
            ),
            says(
                "me.key",
                "auth.key_id is a string",
                "me",
                Within("auth", &["key_id"], Value::is_string),
            ),
            says(
                "unauthorized",
                "a malformed key yields 401",
                "me.wrong-key",
                Status(401),
            ),
            says(
                "unauthorized.body",
                "401 has {error: {code: unauthorized, message}}",
                "me.wrong-key",
                Refusal("unauthorized"),
            ),
            says(
                "extraction.webhooks.list",
                "GET /v1/webhooks: list of endpoints",
                "extraction.webhooks.list",
                List("url"),
            ),
            says(
                "extraction.webhooks.no-secret",
                "the registration response is the only place of the secret",
                "extraction.webhooks.list",
                NoSecret("secret"),
            ),
        ],
    ),
    group(
        Email,
        Write,
        false,
        &[
            says(
                "audiences.create",
                "POST /api/v1/audiences: created audience",
                "audiences.create",
                Success,
            ),
            says(
                "audiences.created",
                "a created audience can be read, with its name",
                "audiences.created",
                Made(Mine::Audience, "", ANY),
            ),
            says(
                "audiences.listed",
                "a created audience is in the list",
                "audiences.list.created",
                Made(Mine::Audience, "", ANY),
            ),
            says(
                "audiences.delete",
                "DELETE /api/v1/audiences/:id: 204",
                "audiences.delete",
                Status(204),
            ),
            says(
                "audiences.deleted",
                "a deleted audience is gone",
                "audiences.deleted",
                Failure,
            ),
            says(
                "contacts.create",
                "POST …/contacts: created contact",
                "contacts.create",
                Success,
            ),
            says(
                "contacts.name",
                "a contact has the name that it was created with",
                "contacts.list.created",
                Made(Mine::Contact, "its name is another one", |_, it| {
                    is_text(it, "name", "Svc Conform")
                }),
            ),
            says(
                "contacts.metadata",
                "a contact has the metadata that it was created with",
                "contacts.list.created",
                Made(Mine::Contact, "its metadata is missing", |_, it| {
                    is_text(it, "kept", "yes")
                }),
            ),
            says(
                "contacts.topics",
                "a contact has the topics that it was created with",
                "contacts.list.created",
                Made(Mine::Contact, "its topics are others", |_, it| {
                    lists_text(it, "topics", "news")
                }),
            ),
            says(
                "contacts.page-size",
                "the list of contacts has pages of pageSize",
                "contacts.page.1",
                Is("a page of one contact has more", |_, body| {
                    each(body, "email").len() <= 1
                }),
            ),
            says(
                "contacts.page",
                "page selects the page",
                "contacts.page.2",
                Is("page 2 is page 1 again", |seen, body| {
                    let first = seen.body("contacts.page.1");
                    first_email(body) != first_email(&first)
                }),
            ),
            says(
                "contacts.update",
                "PATCH /api/v1/contacts/:contactId: updated contact",
                "contacts.update",
                Success,
            ),
            says(
                "contacts.updated",
                "an update changes name and topics",
                "contacts.list.updated",
                Made(Mine::Contact, "name or topics are the old ones", |_, it| {
                    is_text(it, "name", "Conform Svc") && lists_text(it, "topics", "offers")
                }),
            ),
            says(
                "contacts.merge",
                "metadata of an update is merged into existing data",
                "contacts.list.updated",
                Made(Mine::Contact, "it is not merged", |_, it| {
                    is_text(it, "kept", "yes") && is_text(it, "added", "yes")
                }),
            ),
            says(
                "contacts.subscribed",
                "an update accepts subscribed",
                "contacts.opt-out",
                Is("it changes nothing", |seen, _| !opt_outs(seen).is_empty()),
            ),
            says(
                "contacts.email-fixed",
                "the email of a contact is not updatable",
                "contacts.list.same-email",
                Made(Mine::Contact, "", ANY),
            ),
            says(
                "contacts.delete",
                "DELETE /api/v1/contacts/:contactId: 204",
                "contacts.delete",
                Status(204),
            ),
            says(
                "contacts.deleted",
                "a deleted contact is gone",
                "contacts.list.deleted",
                Gone(Mine::Contact),
            ),
            says(
                "domains.create",
                "POST /api/v1/domains: the domain",
                "domains.create",
                Success,
            ),
            says(
                "domains.records",
                "creating a domain returns MX, SPF, DKIM and DMARC records",
                "domains.create",
                Has("it lacks one of the four records", |_, body| {
                    let text = body.to_string().to_lowercase();
                    ["\"mx\"", "v=spf1", "_domainkey", "v=dmarc1"]
                        .iter()
                        .all(|mark| text.contains(mark))
                }),
            ),
            says(
                "domains.listed",
                "a created domain is in the list, with its flags",
                "domains.list.created",
                Made(Mine::Domain, "it lacks flags", |_, it| {
                    FLAGS.iter().all(|flag| field(it, flag).is_some())
                }),
            ),
            says(
                "domains.verify",
                "verify returns the five flags, as booleans",
                "domains.verify",
                Is("a flag is missing, or no boolean", |_, body| {
                    FLAGS
                        .iter()
                        .all(|flag| field(body, flag).is_some_and(|(_, value)| value.is_boolean()))
                }),
            ),
            says(
                "domains.verify.verified",
                "verified is true when all four flags pass",
                "domains.verify",
                Has(INCONSISTENT, |_, body| is_consistent(body)),
            ),
            says(
                "domains.delete",
                "DELETE /api/v1/domains/:id: {ok: true}",
                "domains.delete",
                Is("it does not answer {ok: true}", |_, body| {
                    field(body, "ok").is_some_and(|(_, ok)| *ok == true)
                }),
            ),
            says(
                "domains.deleted",
                "a deleted domain is removed",
                "domains.list.deleted",
                Gone(Mine::Domain),
            ),
            says(
                "webhooks.create",
                "POST /api/v1/webhooks: created webhook",
                "webhooks.create",
                Success,
            ),
            says(
                "webhooks.secret",
                "the creation response has signingSecret",
                "webhooks.create",
                Has("signingSecret is missing", |_, body| {
                    has_text(body, "signingSecret")
                }),
            ),
            says(
                "webhooks.secret-once",
                "signingSecret is returned only in the creation response",
                SHOWN_AGAIN[0],
                Has("it is shown again", |seen, _| {
                    !SHOWN_AGAIN
                        .iter()
                        .any(|step| seen.reveals(step, "webhooks.create"))
                }),
            ),
            says(
                "webhooks.listed",
                "a created webhook is in the list, active, with its events",
                "webhooks.list.created",
                Made(
                    Mine::Webhook,
                    "its events are others, or it is not active",
                    |_, it| {
                        let is_off = field(it, "active").is_some_and(|(_, value)| *value != true);
                        EVENTS.iter().all(|event| lists_text(it, "events", event)) && !is_off
                    },
                ),
            ),
            says(
                "webhooks.update",
                "PATCH /api/v1/webhooks/:id changes the events",
                "webhooks.list.updated",
                Made(Mine::Webhook, "the events are the old ones", |_, it| {
                    !lists_text(it, "events", EVENTS[1])
                }),
            ),
            says(
                "webhooks.active",
                "PATCH /api/v1/webhooks/:id with active disables it",
                "webhooks.list.updated",
                Made(Mine::Webhook, "it is still active", |_, it| {
                    field(it, "active").is_none_or(|(_, value)| *value != true)
                }),
            ),
            says(
                "webhooks.delete",
                "DELETE /api/v1/webhooks/:id: 204",
                "webhooks.delete",
                Status(204),
            ),
            says(
                "webhooks.deleted",
                "a deleted webhook is gone",
                "webhooks.list.deleted",
                Gone(Mine::Webhook),
            ),
        ],
    ),
    group(
        Email,
        Write,
        true,
        &[
            says(
                "webhooks.test",
                "test returns the status that the endpoint answered with",
                "webhooks.test",
                Is("the status is not in the response", |_, body| {
                    test_status_field(body).is_some()
                }),
            ),
            says(
                "webhooks.test.delivery",
                "test sends a payload to the endpoint, as JSON",
                "webhooks.test",
                Has("no delivery in JSON arrived", |seen, _| {
                    seen.at("delivery.test")
                        .is_some_and(|delivery| !delivery.sent().is_null())
                }),
            ),
            says(
                "webhooks.test.signature",
                "Mail-Signature of the test: HMAC-SHA256 of the raw body",
                "delivery.test",
                Signed("webhooks.create"),
            ),
        ],
    ),
    group(
        Extraction,
        Write,
        false,
        &[
            says(
                "extraction.webhooks.create",
                "POST /v1/webhooks: {id, url, secret, events, status}",
                "extraction.webhooks.create",
                Is("one of them is missing", |_, body| {
                    ["id", "url", "secret", "events", "status"]
                        .iter()
                        .all(|name| field(body, name).is_some())
                }),
            ),
            says(
                "extraction.webhooks.status",
                "a new endpoint is active",
                "extraction.webhooks.create",
                Has("its status is another one", |_, body| {
                    field(body, "status").is_none_or(|(_, status)| status == "active")
                }),
            ),
            says(
                "extraction.webhooks.listed",
                "a new endpoint is in the list",
                ENDPOINTS,
                Made(Mine::Endpoint, "", ANY),
            ),
            says(
                "extraction.webhooks.secret-once",
                "the secret is only in the registration response",
                ENDPOINTS,
                Has("it is shown again", |seen, _| {
                    !seen.reveals(ENDPOINTS, "extraction.webhooks.create")
                }),
            ),
            says(
                "extraction.webhooks.delete",
                "DELETE /v1/webhooks/:id removes the endpoint",
                "extraction.webhooks.delete",
                Success,
            ),
            says(
                "extraction.webhooks.deleted",
                "a removed endpoint is gone",
                "extraction.webhooks.list.deleted",
                Gone(Mine::Endpoint),
            ),
        ],
    ),
    group(
        Email,
        Send,
        false,
        &[
            says(
                "emails.send",
                "POST /api/v1/emails: the accepted email",
                "emails.send",
                Success,
            ),
            says(
                "emails.get",
                "GET /api/v1/emails/:id: the email with its status",
                "emails.get",
                Is("it has no status", |_, body| status_word(body).is_some()),
            ),
            says(
                "emails.status",
                "the status is one of the seven of the reference",
                "emails.get",
                Has("it is another word", |_, body| {
                    status_word(body)
                        .is_none_or(|(_, word)| STATUSES.contains(&word.to_lowercase().as_str()))
                }),
            ),
            says(
                "emails.scheduled",
                "an email with scheduledAt is sent later",
                "emails.scheduled",
                Has("it is sent at once", |_, body| !is_sent(body)),
            ),
            says(
                "emails.cancel",
                "PATCH /api/v1/emails/:id/cancel cancels a scheduled email",
                "emails.cancel",
                Success,
            ),
            says(
                "emails.cancelled",
                "a cancelled email is not sent",
                "emails.cancelled",
                Has("it is sent", |_, body| !is_sent(body)),
            ),
            says(
                "emails.batch",
                "POST /api/v1/emails/batch: a result for each email",
                "emails.batch",
                Has("it has fewer results than emails", |_, body| {
                    let beside =
                        field(body, "failedRequests").and_then(|(_, failed)| failed.as_object());
                    objects_in_lists(body) + beside.map_or(0, Map::len) >= 2
                }),
            ),
            says(
                "emails.unverified",
                "email is sent only from a verified domain",
                "emails.batch",
                Has("an unverified sender is accepted", |seen, _| {
                    seen.id("batch-accepted") != Some("2")
                }),
            ),
        ],
    ),
    group(
        Email,
        Send,
        true,
        &[
            says(
                "deliveries.signature",
                "Mail-Signature: HMAC-SHA256 hex digest of the raw body",
                "delivery.event",
                Signed("webhooks.events"),
            ),
            says(
                "deliveries.retry",
                "a delivery that is not answered with 2xx is retried",
                "delivery.retry",
                Has("the retry has another body", |seen, _| {
                    let body = |step| seen.at(step).map(|delivery| &delivery.request_body);
                    body("delivery.event") == body("delivery.retry")
                }),
            ),
            says(
                "deliveries.retry.signature",
                "a retry is signed, too",
                "delivery.retry",
                Signed("webhooks.events"),
            ),
        ],
    ),
];

const INCONSISTENT: &str = "verified is not what the four flags say";

impl Statement {
    /// A step that did not happen was not tried, nor one that the key may not do.
    pub(super) fn check(&self, seen: &Seen) -> Finding {
        let step = self.step;
        let Some(exchange) = seen.at(step) else {
            return Finding::not_tried("there is nothing to try it with");
        };
        if matches!(self.expect, Signed(webhook) if seen.secret(webhook).is_none()) {
            return Finding::not_tried("the secret is not known");
        }
        let answered = format!("answered {}", exchange.status);
        let is_about_body = matches!(
            self.expect,
            Has(..) | Each(..) | Within(..) | NoSecret(_) | Gone(_)
        );
        // The status of a delivery is ours.
        let is_delivery = step.starts_with("delivery.");
        let is_refused = matches!(exchange.status, 403 | 429);
        if !is_delivery && (is_refused || is_about_body && !exchange.is_success()) {
            return Finding::not_tried(answered);
        }
        let body = exchange.json();
        let is_elsewhere =
            matches!(self.expect, Made(mine, ..) if mine.within(seen, &body).is_none());
        if is_elsewhere && has_more(exchange) {
            return Finding::not_tried("it may be on another page of the list");
        }
        match self.problem(seen, exchange, &body) {
            Some(problem) if problem.is_empty() => Finding::differs(step, answered),
            Some(problem) => Finding::differs(step, problem),
            None => Finding::agrees(step),
        }
    }

    /// What is wrong; an empty text if it is the status.
    fn problem(&self, seen: &Seen, exchange: &Exchange, body: &Value) -> Option<String> {
        let is_success = exchange.is_success() || self.step.starts_with("delivery.");
        let status_unless = |is_right: bool| (!is_right).then(String::new);
        let unless = |is_right: bool, problem: &str| (!is_right).then(|| problem.to_owned());
        match self.expect {
            Success => status_unless(is_success),
            Status(status) => status_unless(exchange.status == status),
            Failure => unless(!is_success, "it is still there"),
            Refusal(code) => {
                let error = &body["error"];
                let is_right = error["code"] == code && error["message"].is_string();
                unless(is_right, "the body is another one")
            }
            Signed(webhook) => wrong_signature(exchange, seen.secret(webhook)),
            _ if !is_success => Some(String::new()),
            Is(problem, ask) | Has(problem, ask) => unless(ask(seen, body), problem),
            List(name) => unless(is_list(exchange, body, name), "it is no list"),
            Each(names, is_right) => {
                let lacks = |item: &Value, name: &str| {
                    !field(item, name).is_some_and(|(_, value)| is_right(value))
                };
                let mut wrong = names.iter();
                let wrong = wrong.find(|name| !all(body, |item| !lacks(item, name)));
                wrong.map(|name| format!("{name} is missing, or of another type"))
            }
            Within(outer, names, is_right) => {
                let wrong = names.iter().find(|name| !is_right(&body[outer][**name]));
                wrong.map(|name| format!("{outer}.{name} is missing, or another value"))
            }
            NoSecret(name) => {
                let is_shown = field(body, name)
                    .and_then(|(_, value)| value.as_str())
                    .is_some_and(|secret| secret.len() >= 8 && !secret.contains(['*', '…', '•']));
                unless(!is_shown, "it is in the list")
            }
            Made(mine, problem, ask) => match mine.within(seen, body) {
                Some(found) => unless(ask(seen, &found), problem),
                None => Some("it is not there".to_owned()),
            },
            Gone(mine) => unless(mine.within(seen, body).is_none(), "it is still there"),
        }
    }
}

impl Mine {
    fn within(self, seen: &Seen, body: &Value) -> Option<Value> {
        let (name, value) = match self {
            Self::Audience => ("name", seen.run.clone()),
            Self::Contact => ("email", seen.address(1)),
            Self::Domain => ("name", seen.domain()),
            Self::Webhook => ("url", seen.sent_url("webhooks.create")),
            Self::Endpoint => ("url", seen.sent_url("extraction.webhooks.create")),
        };
        with(body, name, &value).cloned().map(Value::Object)
    }
}

impl Seen {
    /// Whether the response to a step shows the secret of a webhook.
    fn reveals(&self, step: &str, webhook: &str) -> bool {
        let shown = self.at(step).map(Exchange::text).unwrap_or_default();
        self.secret(webhook)
            .is_some_and(|secret| shown.contains(secret))
    }

    /// The body of the response to a step.
    pub(super) fn body(&self, step: &str) -> Value {
        self.at(step).map(Exchange::json).unwrap_or_default()
    }

    /// The first contact of the run, in a list.
    pub(super) fn contact_at(&self, step: &str) -> Option<Value> {
        Mine::Contact.within(self, &self.body(step))
    }

    /// The address of a contact that the run makes.
    pub(super) fn address(&self, number: u32) -> String {
        format!("{}-{number}@example.com", self.run)
    }

    /// The name of the domain that the run makes.
    pub(super) fn domain(&self) -> String {
        format!("{}.example", self.run)
    }

    /// The URL of a webhook that a step created.
    fn sent_url(&self, step: &str) -> String {
        let sent = self.at(step).map(Exchange::sent).unwrap_or_default();
        sent["url"].as_str().unwrap_or_default().to_owned()
    }
}

fn wrong_signature(delivery: &Exchange, secret: Option<&str>) -> Option<String> {
    let expected = hex::encode(tag(secret?.as_bytes(), &delivery.request_body));
    let problem = match delivery.request_header("Mail-Signature") {
        Some(signature) if signature.eq_ignore_ascii_case(&expected) => return None,
        Some(_) => "it is not that of the body",
        None => "the header is missing",
    };
    Some(problem.to_owned())
}

/// A list, in whatever shape, or what an empty one may be.
fn is_list(exchange: &Exchange, body: &Value, name: &str) -> bool {
    let is_nothing = |value: &Value| value.is_null() || value == "";
    let has_nothing =
        |fields: &Map<String, Value>| fields.is_empty() || fields.values().any(is_nothing);
    let is_flat = |fields: &Map<String, Value>| {
        !fields
            .values()
            .any(|value| value.is_object() || value.is_array())
    };
    items(body).is_some()
        || !each(body, name).is_empty()
        || matches!(&*exchange.text(), "" | "null")
        || objects(body).into_iter().any(has_nothing)
        || body.as_object().is_some_and(is_flat)
}

/// Whether all objects of a list are right.
fn all(body: &Value, is_right: impl Fn(&Value) -> bool) -> bool {
    let found = items(body).map(|list| list.items).unwrap_or_default();
    let mut found = found.into_iter().filter(|item| item.is_object());
    found.all(is_right)
}

fn is_consistent(domain: &Value) -> bool {
    let is_set = |name: &&str| field(domain, name).and_then(|(_, value)| flag(value));
    let flags = FLAGS.iter().map(is_set).collect::<Option<Vec<bool>>>();
    let flags = flags.unwrap_or_default();
    flags
        .split_last()
        .is_none_or(|(all, four)| *all == four.iter().all(|is_set| *is_set))
}

fn has_text(body: &Value, name: &str) -> bool {
    let text = field(body, name).and_then(|(_, value)| value.as_str());
    text.is_some_and(|text| !text.is_empty())
}

fn is_text(object: &Value, name: &str, wanted: &str) -> bool {
    field(object, name).is_some_and(|(_, value)| value == wanted)
}

/// Whether a list of texts in this field has this one.
fn lists_text(object: &Value, name: &str, wanted: &str) -> bool {
    let found = field(object, name).and_then(|(_, value)| value.as_array());
    found.is_some_and(|texts| texts.iter().any(|text| text == wanted))
}

fn first_email(page: &Value) -> Option<&Value> {
    let contact = each(page, "email").into_iter().next()?;
    Some(own(contact, "email")?.1)
}

fn is_sent(email: &Value) -> bool {
    let word = status_word(email).map(|(_, word)| word.to_lowercase());
    word.is_some_and(|word| ["sending", "sent", "delivered"].contains(&word.as_str()))
}

fn objects_in_lists(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().filter(|item| item.is_object()).count(),
        Value::Object(fields) => fields.values().map(objects_in_lists).sum(),
        _ => 0,
    }
}
