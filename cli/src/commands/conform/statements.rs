//! What the reference of both services says, statement by statement, and how a run checks it: one
//! table, and the few ways of looking that its rows share. Long, because there are many statements.

use serde_json::{Map, Value};
use svc_sdk::Service;
use svc_sdk::Service::{Email, Extraction};

use super::Level::{self, Read, Send, Write};
use super::examiner::Seen;
use super::exchange::{Exchange, each, field, flag, items, objects, own, with};
use super::points::{has_more, opt_outs, status_word, test_status_field};
use super::report::Finding;
use super::write::EVENTS;
use crate::signing::tag;

/// A statement of the reference.
pub(super) struct Statement {
    pub(super) id: &'static str,
    pub(super) service: Service,
    /// The level that tries it.
    pub(super) level: Level,
    pub(super) needs_listener: bool,
    pub(super) text: &'static str,
    pub(super) check: fn(&Seen) -> Finding,
}

const fn says(
    service: Service,
    level: Level,
    id: &'static str,
    text: &'static str,
    check: fn(&Seen) -> Finding,
) -> Statement {
    let needs_listener = false;
    Statement {
        id,
        service,
        level,
        needs_listener,
        text,
        check,
    }
}

impl Statement {
    const fn with_listener(self) -> Self {
        Self {
            needs_listener: true,
            ..self
        }
    }
}

const FLAGS: [&str; 5] = [
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
const LISTS: [&str; 4] = [
    "webhooks.list.created",
    "webhooks.update",
    "webhooks.disable",
    "webhooks.list.updated",
];

pub(super) const STATEMENTS: &[Statement] = &[
    says(
        Email,
        Read,
        "audiences.list",
        "GET /api/v1/audiences: list of audiences",
        |seen| seen.lists("audiences.list", "name"),
    ),
    says(
        Email,
        Read,
        "audiences.name",
        "an audience has a name",
        |seen| seen.each("audiences.list", &["name"], Value::is_string),
    ),
    says(
        Email,
        Read,
        "audiences.get",
        "GET /api/v1/audiences/:id: the audience",
        |seen| seen.has("audiences.get", "name"),
    ),
    says(
        Email,
        Read,
        "contacts.list",
        "GET /api/v1/audiences/:audienceId/contacts: list of contacts",
        |seen| seen.lists("contacts.list", "email"),
    ),
    says(
        Email,
        Read,
        "contacts.email",
        "a contact has an email",
        |seen| seen.each("contacts.list", &["email"], Value::is_string),
    ),
    says(
        Email,
        Read,
        "domains.list",
        "GET /api/v1/domains: list of domains",
        |seen| seen.lists("domains.list", "name"),
    ),
    says(
        Email,
        Read,
        "domains.flags",
        "a domain has the results of its checks, as booleans",
        |seen| seen.each("domains.list", &FLAGS, Value::is_boolean),
    ),
    says(
        Email,
        Read,
        "domains.verified",
        "verified is true when all four checks pass",
        |seen| seen.all("domains.list", is_consistent),
    ),
    says(
        Email,
        Read,
        "webhooks.list",
        "GET /api/v1/webhooks: list of webhooks",
        |seen| seen.lists("webhooks.list", "url"),
    ),
    says(
        Email,
        Read,
        "webhooks.fields",
        "a webhook has a url and events",
        |seen| seen.each("webhooks.list", &["events"], Value::is_array),
    ),
    says(
        Email,
        Read,
        "webhooks.no-secret",
        "signingSecret is returned only in the creation response",
        |seen| seen.hides("webhooks.list", "signingSecret"),
    ),
    says(Extraction, Read, "me", "GET /v1/me: 200", |seen| {
        seen.status("me", 200)
    }),
    says(
        Extraction,
        Read,
        "me.organization",
        "organization has id and name, as strings",
        |seen| seen.within("me", "organization", &["id", "name"], Value::is_string),
    ),
    says(
        Extraction,
        Read,
        "me.balance",
        "organization.balance_cents is an integer",
        |seen| seen.within("me", "organization", &["balance_cents"], Value::is_i64),
    ),
    says(
        Extraction,
        Read,
        "me.method",
        "auth.method is api_key",
        |seen| seen.within("me", "auth", &["method"], |value| value == "api_key"),
    ),
    says(
        Extraction,
        Read,
        "me.scope",
        "auth.scope is full or extract_only",
        |seen| {
            seen.within("me", "auth", &["scope"], |value| {
                value == "full" || value == "extract_only"
            })
        },
    ),
    says(
        Extraction,
        Read,
        "me.key",
        "auth.key_id is a string",
        |seen| seen.within("me", "auth", &["key_id"], Value::is_string),
    ),
    says(
        Extraction,
        Read,
        "unauthorized",
        "a malformed key yields 401",
        |seen| {
            seen.answers("me.wrong-key", |exchange| match exchange.status {
                401 => Ok(()),
                status => Err(format!("answered {status}")),
            })
        },
    ),
    says(
        Extraction,
        Read,
        "unauthorized.body",
        "401 has {error: {code: unauthorized, message}}",
        |seen| {
            seen.answers("me.wrong-key", |exchange| {
                let body = exchange.json();
                let is_right =
                    body["error"]["code"] == "unauthorized" && body["error"]["message"].is_string();
                when(is_right, "the body is another one")
            })
        },
    ),
    says(
        Extraction,
        Read,
        "extraction.webhooks.list",
        "GET /v1/webhooks: list of endpoints",
        |seen| seen.lists("extraction.webhooks.list", "url"),
    ),
    says(
        Extraction,
        Read,
        "extraction.webhooks.no-secret",
        "the registration response is the only place of the secret",
        |seen| seen.hides("extraction.webhooks.list", "secret"),
    ),
    says(
        Email,
        Write,
        "audiences.create",
        "POST /api/v1/audiences: created audience",
        |seen| seen.success("audiences.create"),
    ),
    says(
        Email,
        Write,
        "audiences.created",
        "a created audience can be read, with its name",
        |seen| seen.made("audiences.created", "name", &seen.run, |_| Ok(())),
    ),
    says(
        Email,
        Write,
        "audiences.listed",
        "a created audience is in the list",
        |seen| seen.listed("audiences.list.created", "name", &seen.run, |_| Ok(())),
    ),
    says(
        Email,
        Write,
        "audiences.delete",
        "DELETE /api/v1/audiences/:id: 204",
        |seen| seen.status("audiences.delete", 204),
    ),
    says(
        Email,
        Write,
        "audiences.deleted",
        "a deleted audience is gone",
        |seen| {
            seen.answers("audiences.deleted", |exchange| {
                when(!exchange.is_success(), "it is still there")
            })
        },
    ),
    says(
        Email,
        Write,
        "contacts.create",
        "POST …/contacts: created contact",
        |seen| seen.success("contacts.create"),
    ),
    says(
        Email,
        Write,
        "contacts.name",
        "a contact has the name that it was created with",
        |seen| {
            seen.contact("contacts.list.created", |contact| {
                when(
                    text(contact, "name") == Some("Svc Conform"),
                    "its name is another one",
                )
            })
        },
    ),
    says(
        Email,
        Write,
        "contacts.metadata",
        "a contact has the metadata that it was created with",
        |seen| {
            seen.contact("contacts.list.created", |contact| {
                when(has_metadata(contact, "kept"), "its metadata is missing")
            })
        },
    ),
    says(
        Email,
        Write,
        "contacts.topics",
        "a contact has the topics that it was created with",
        |seen| {
            seen.contact("contacts.list.created", |contact| {
                when(has_text(contact, "topics", "news"), "its topics are others")
            })
        },
    ),
    says(
        Email,
        Write,
        "contacts.page-size",
        "the list of contacts has pages of pageSize",
        |seen| {
            seen.answers("contacts.page.1", |exchange| {
                let body = exchange.json();
                let found = each(&body, "email").len();
                when(
                    exchange.is_success() && found <= 1,
                    "a page of one contact has more, or is refused",
                )
            })
        },
    ),
    says(
        Email,
        Write,
        "contacts.page",
        "page selects the page",
        |seen| {
            seen.answers("contacts.page.2", |exchange| {
                let first = seen
                    .at("contacts.page.1")
                    .map(Exchange::json)
                    .unwrap_or_default();
                let (first, second) = (first_email(&first), exchange.json());
                when(
                    exchange.is_success() && first_email(&second) != first,
                    "page 2 is page 1 again",
                )
            })
        },
    ),
    says(
        Email,
        Write,
        "contacts.update",
        "PATCH /api/v1/contacts/:contactId: updated contact",
        |seen| seen.success("contacts.update"),
    ),
    says(
        Email,
        Write,
        "contacts.updated",
        "an update changes name and topics",
        |seen| {
            seen.contact("contacts.list.updated", |contact| {
                let is_changed = text(contact, "name") == Some("Conform Svc")
                    && has_text(contact, "topics", "offers");
                when(is_changed, "name or topics are the old ones")
            })
        },
    ),
    says(
        Email,
        Write,
        "contacts.merge",
        "metadata of an update is merged into existing data",
        |seen| {
            seen.contact("contacts.list.updated", |contact| {
                when(
                    has_metadata(contact, "kept") && has_metadata(contact, "added"),
                    "it is not merged",
                )
            })
        },
    ),
    says(
        Email,
        Write,
        "contacts.subscribed",
        "an update accepts subscribed",
        |seen| {
            seen.answers("contacts.opt-out", |exchange| {
                let is_changed = !opt_outs(seen).is_empty();
                when(
                    exchange.is_success() && is_changed,
                    "it changes nothing, or is refused",
                )
            })
        },
    ),
    says(
        Email,
        Write,
        "contacts.email-fixed",
        "the email of a contact is not updatable",
        |seen| seen.contact("contacts.list.same-email", |_| Ok(())),
    ),
    says(
        Email,
        Write,
        "contacts.delete",
        "DELETE /api/v1/contacts/:contactId: 204",
        |seen| seen.status("contacts.delete", 204),
    ),
    says(
        Email,
        Write,
        "contacts.deleted",
        "a deleted contact is gone",
        |seen| seen.gone("contacts.list.deleted", "email", &seen.address(1)),
    ),
    says(
        Email,
        Write,
        "domains.create",
        "POST /api/v1/domains: the domain",
        |seen| seen.success("domains.create"),
    ),
    says(
        Email,
        Write,
        "domains.records",
        "creating a domain returns MX, SPF, DKIM and DMARC records",
        |seen| {
            seen.holds("domains.create", |exchange| {
                let body = exchange.text().to_lowercase();
                let marks = [
                    ("MX", "\"mx\""),
                    ("SPF", "v=spf1"),
                    ("DKIM", "_domainkey"),
                    ("DMARC", "v=dmarc1"),
                ];
                let missing = marks.iter().find(|(_, mark)| !body.contains(mark));
                missing.map_or(Ok(()), |(kind, _)| Err(format!("it has no {kind} record")))
            })
        },
    ),
    says(
        Email,
        Write,
        "domains.listed",
        "a created domain is in the list, with its flags",
        |seen| {
            seen.listed("domains.list.created", "name", &seen.domain(), |domain| {
                let missing = FLAGS.iter().find(|flag| field(domain, flag).is_none());
                missing.map_or(Ok(()), |flag| Err(format!("{flag} is missing")))
            })
        },
    ),
    says(
        Email,
        Write,
        "domains.verify",
        "verify returns the five flags, as booleans",
        |seen| {
            seen.answers("domains.verify", |exchange| {
                let body = exchange.json();
                let is_flag =
                    |flag: &&str| field(&body, flag).is_some_and(|(_, value)| value.is_boolean());
                let missing = FLAGS.iter().find(|flag| !is_flag(flag));
                missing.map_or(Ok(()), |flag| {
                    Err(format!("{flag} is missing or no boolean"))
                })
            })
        },
    ),
    says(
        Email,
        Write,
        "domains.verify.verified",
        "verified is true when all four flags pass",
        |seen| seen.holds("domains.verify", |exchange| is_consistent(&exchange.json())),
    ),
    says(
        Email,
        Write,
        "domains.delete",
        "DELETE /api/v1/domains/:id: {ok: true}",
        |seen| {
            seen.answers("domains.delete", |exchange| {
                let body = exchange.json();
                let is_ok = field(&body, "ok").is_some_and(|(_, value)| *value == true);
                when(
                    exchange.is_success() && is_ok,
                    "it does not answer {ok: true}",
                )
            })
        },
    ),
    says(
        Email,
        Write,
        "domains.deleted",
        "a deleted domain is removed",
        |seen| seen.gone("domains.list.deleted", "name", &seen.domain()),
    ),
    says(
        Email,
        Write,
        "webhooks.create",
        "POST /api/v1/webhooks: created webhook",
        |seen| seen.success("webhooks.create"),
    ),
    says(
        Email,
        Write,
        "webhooks.secret",
        "the creation response has signingSecret",
        |seen| seen.has("webhooks.create", "signingSecret"),
    ),
    says(
        Email,
        Write,
        "webhooks.secret-once",
        "signingSecret is returned only in the creation response",
        |seen| {
            let shown = LISTS
                .into_iter()
                .find(|step| seen.reveals(step, seen.secret.as_deref()));
            match shown {
                Some(step) => Finding::differs(step, "it is shown again"),
                None => seen.holds(LISTS[0], |_| Ok(())),
            }
        },
    ),
    says(
        Email,
        Write,
        "webhooks.listed",
        "a created webhook is in the list, active, with its events",
        |seen| {
            seen.listed(
                "webhooks.list.created",
                "url",
                &seen.sent_url("webhooks.create"),
                |webhook| {
                    let events = EVENTS
                        .iter()
                        .all(|event| has_text(webhook, "events", event));
                    let is_off = field(webhook, "active").is_some_and(|(_, value)| *value != true);
                    when(
                        events && !is_off,
                        "its events are others, or it is not active",
                    )
                },
            )
        },
    ),
    says(
        Email,
        Write,
        "webhooks.update",
        "PATCH /api/v1/webhooks/:id changes the events",
        |seen| {
            seen.listed(
                "webhooks.list.updated",
                "url",
                &seen.sent_url("webhooks.create"),
                |webhook| {
                    when(
                        !has_text(webhook, "events", EVENTS[1]),
                        "the events are the old ones",
                    )
                },
            )
        },
    ),
    says(
        Email,
        Write,
        "webhooks.active",
        "PATCH /api/v1/webhooks/:id with active disables it",
        |seen| {
            seen.listed(
                "webhooks.list.updated",
                "url",
                &seen.sent_url("webhooks.create"),
                |webhook| {
                    let is_on = field(webhook, "active").is_some_and(|(_, value)| *value == true);
                    when(!is_on, "it is still active")
                },
            )
        },
    ),
    says(
        Email,
        Write,
        "webhooks.test",
        "test returns the status that the endpoint answered with",
        |seen| {
            seen.answers("webhooks.test", |exchange| {
                let is_there = test_status_field(&exchange.json()).is_some();
                when(
                    exchange.is_success() && is_there,
                    "the status is not in the response",
                )
            })
        },
    )
    .with_listener(),
    says(
        Email,
        Write,
        "webhooks.test.delivery",
        "test sends a payload to the endpoint, as JSON",
        |seen| {
            let Some(_) = seen
                .at("webhooks.test")
                .filter(|exchange| exchange.is_success())
            else {
                return Finding::not_tried("the test failed");
            };
            match seen.at("delivery.test") {
                Some(delivery) if delivery.sent().is_null() => {
                    Finding::differs("delivery.test", "it is not JSON")
                }
                Some(_) => Finding::agrees("delivery.test"),
                None => Finding::differs("webhooks.test", "no delivery arrived"),
            }
        },
    )
    .with_listener(),
    says(
        Email,
        Write,
        "webhooks.test.signature",
        "Mail-Signature of the test: HMAC-SHA256 of the raw body",
        |seen| seen.signed("delivery.test", seen.secret.as_deref()),
    )
    .with_listener(),
    says(
        Email,
        Write,
        "webhooks.delete",
        "DELETE /api/v1/webhooks/:id: 204",
        |seen| seen.status("webhooks.delete", 204),
    ),
    says(
        Email,
        Write,
        "webhooks.deleted",
        "a deleted webhook is gone",
        |seen| {
            seen.gone(
                "webhooks.list.deleted",
                "url",
                &seen.sent_url("webhooks.create"),
            )
        },
    ),
    says(
        Extraction,
        Write,
        "extraction.webhooks.create",
        "POST /v1/webhooks: {id, url, secret, events, status}",
        |seen| {
            seen.answers("extraction.webhooks.create", |exchange| {
                let body = exchange.json();
                let mut names = ["id", "url", "secret", "events", "status"].into_iter();
                let missing = names.find(|name| field(&body, name).is_none());
                match missing {
                    _ if !exchange.is_success() => Err(format!("answered {}", exchange.status)),
                    Some(name) => Err(format!("{name} is missing")),
                    None => Ok(()),
                }
            })
        },
    ),
    says(
        Extraction,
        Write,
        "extraction.webhooks.status",
        "a new endpoint is active",
        |seen| {
            seen.holds("extraction.webhooks.create", |exchange| {
                let body = exchange.json();
                let status = field(&body, "status").map(|(_, value)| value.clone());
                when(
                    status.is_none_or(|status| status == "active"),
                    "its status is another one",
                )
            })
        },
    ),
    says(
        Extraction,
        Write,
        "extraction.webhooks.listed",
        "a new endpoint is in the list",
        |seen| {
            let url = seen.sent_url("extraction.webhooks.create");
            seen.listed("extraction.webhooks.list.created", "url", &url, |_| Ok(()))
        },
    ),
    says(
        Extraction,
        Write,
        "extraction.webhooks.secret-once",
        "the secret is only in the registration response",
        |seen| {
            let secret = seen.text_at("extraction.webhooks.create", "secret");
            let list = "extraction.webhooks.list.created";
            match seen.reveals(list, secret.as_deref()) {
                true => Finding::differs(list, "it is shown again"),
                false => seen.holds(list, |_| Ok(())),
            }
        },
    ),
    says(
        Extraction,
        Write,
        "extraction.webhooks.delete",
        "DELETE /v1/webhooks/:id removes the endpoint",
        |seen| seen.success("extraction.webhooks.delete"),
    ),
    says(
        Extraction,
        Write,
        "extraction.webhooks.deleted",
        "a removed endpoint is gone",
        |seen| {
            let url = seen.sent_url("extraction.webhooks.create");
            seen.gone("extraction.webhooks.list.deleted", "url", &url)
        },
    ),
    says(
        Email,
        Send,
        "emails.send",
        "POST /api/v1/emails: the accepted email",
        |seen| seen.success("emails.send"),
    ),
    says(
        Email,
        Send,
        "emails.get",
        "GET /api/v1/emails/:id: the email with its status",
        |seen| {
            seen.answers("emails.get", |exchange| {
                let has_status = exchange.is_success() && status_word(&exchange.json()).is_some();
                when(has_status, "it has no status")
            })
        },
    ),
    says(
        Email,
        Send,
        "emails.status",
        "the status is one of the seven of the reference",
        |seen| {
            seen.holds("emails.get", |exchange| {
                let body = exchange.json();
                let word = status_word(&body).map(|(_, word)| word.to_lowercase());
                let unknown = word.filter(|word| !STATUSES.contains(&word.as_str()));
                unknown.map_or(Ok(()), |word| Err(format!("it is {word}")))
            })
        },
    ),
    says(
        Email,
        Send,
        "emails.scheduled",
        "an email with scheduledAt is sent later",
        |seen| seen.holds("emails.scheduled", not_sent),
    ),
    says(
        Email,
        Send,
        "emails.cancel",
        "PATCH /api/v1/emails/:id/cancel cancels a scheduled email",
        |seen| seen.success("emails.cancel"),
    ),
    says(
        Email,
        Send,
        "emails.cancelled",
        "a cancelled email is not sent",
        |seen| seen.holds("emails.cancelled", not_sent),
    ),
    says(
        Email,
        Send,
        "emails.batch",
        "POST /api/v1/emails/batch: a result for each email",
        |seen| {
            seen.holds("emails.batch", |exchange| {
                let body = exchange.json();
                let lists = objects_in_lists(&body);
                let beside =
                    field(&body, "failedRequests").and_then(|(_, failed)| failed.as_object());
                when(
                    lists + beside.map_or(0, Map::len) >= 2,
                    "it has fewer results than emails",
                )
            })
        },
    ),
    says(
        Email,
        Send,
        "emails.unverified",
        "email is sent only from a verified domain",
        |seen| {
            let step = "emails.batch";
            match (seen.at(step), seen.id("batch-accepted")) {
                (Some(batch), Some("2")) if batch.is_success() => {
                    Finding::differs(step, "an unverified sender is accepted")
                }
                (Some(_), Some(_)) => Finding::agrees(step),
                _ => Finding::not_tried("no body of a batch is understood"),
            }
        },
    ),
    says(
        Email,
        Send,
        "deliveries.signature",
        "Mail-Signature: HMAC-SHA256 hex digest of the raw body",
        |seen| seen.signed("delivery.event", seen.event_secret.as_deref()),
    )
    .with_listener(),
    says(
        Email,
        Send,
        "deliveries.retry",
        "a delivery that is not answered with 2xx is retried",
        |seen| {
            seen.answers("delivery.retry", |retry| {
                let first = seen.at("delivery.event");
                let is_same = first.is_some_and(|first| first.request_body == retry.request_body);
                when(is_same, "the retry has another body")
            })
        },
    )
    .with_listener(),
    says(
        Email,
        Send,
        "deliveries.retry.signature",
        "a retry is signed, too",
        |seen| seen.signed("delivery.retry", seen.event_secret.as_deref()),
    )
    .with_listener(),
];

type Checked = Result<(), String>;

fn when(is_right: bool, problem: &str) -> Checked {
    is_right.then_some(()).ok_or_else(|| problem.to_owned())
}

/// How a run reads what it has seen. A step that did not happen was not tried, nor one that the key
/// may not do.
impl Seen {
    fn answers(&self, step: &'static str, check: impl Fn(&Exchange) -> Checked) -> Finding {
        match self.at(step) {
            None => Finding::not_tried("there is nothing to try it with"),
            Some(exchange) if matches!(exchange.status, 403 | 429) => {
                Finding::not_tried(format!("answered {}", exchange.status))
            }
            Some(exchange) => match check(exchange) {
                Ok(()) => Finding::agrees(step),
                Err(problem) => Finding::differs(step, problem),
            },
        }
    }

    /// As [`answers`](Self::answers), for what a successful response holds.
    fn holds(&self, step: &'static str, check: impl Fn(&Exchange) -> Checked) -> Finding {
        match self.at(step) {
            Some(exchange) if !exchange.is_success() => {
                Finding::not_tried(format!("answered {}", exchange.status))
            }
            _ => self.answers(step, check),
        }
    }

    fn success(&self, step: &'static str) -> Finding {
        self.answers(step, |exchange| {
            let answered = format!("answered {}", exchange.status);
            when(exchange.is_success(), &answered)
        })
    }

    fn status(&self, step: &'static str, status: u16) -> Finding {
        self.answers(step, |exchange| {
            let answered = format!("answered {}", exchange.status);
            when(exchange.status == status, &answered)
        })
    }

    fn lists(&self, step: &'static str, name: &str) -> Finding {
        self.answers(step, |exchange| {
            let body = exchange.json();
            let is_list = items(&body).is_some() || !each(&body, name).is_empty();
            let has_nothing = |fields: &Map<String, Value>| {
                fields.is_empty() || fields.values().any(|value| value.is_null() || value == "")
            };
            let is_empty = matches!(&*exchange.text(), "" | "null")
                || objects(&body).into_iter().any(has_nothing)
                || body.as_object().is_some_and(|fields| !has_object(fields));
            when(
                exchange.is_success() && (is_list || is_empty),
                "it is no list",
            )
        })
    }

    /// Every resource of a list has these fields, anywhere inside it.
    fn each(&self, step: &'static str, names: &[&str], is_right: fn(&Value) -> bool) -> Finding {
        self.all(step, |item| {
            let is_there =
                |name: &&str| field(item, name).is_some_and(|(_, value)| is_right(value));
            let missing = names.iter().find(|name| !is_there(name));
            missing.map_or(Ok(()), |name| {
                Err(format!("{name} is missing, or of another type"))
            })
        })
    }

    fn all(&self, step: &'static str, check: impl Fn(&Value) -> Checked) -> Finding {
        self.holds(step, |exchange| {
            let body = exchange.json();
            let found = items(&body).map(|list| list.items).unwrap_or_default();
            found
                .into_iter()
                .filter(|item| item.is_object())
                .try_for_each(&check)
        })
    }

    fn has(&self, step: &'static str, name: &str) -> Finding {
        self.holds(step, |exchange| {
            let body = exchange.json();
            let is_there = field(&body, name)
                .is_some_and(|(_, value)| value.as_str().is_some_and(|it| !it.is_empty()));
            when(is_there, &format!("{name} is missing"))
        })
    }

    /// The object with this name has these fields.
    fn within(
        &self,
        step: &'static str,
        outer: &str,
        names: &[&str],
        is_right: fn(&Value) -> bool,
    ) -> Finding {
        self.holds(step, |exchange| {
            let body = exchange.json();
            let wrong = names.iter().find(|name| !is_right(&body[outer][**name]));
            wrong.map_or(Ok(()), |name| {
                Err(format!("{outer}.{name} is missing, or another value"))
            })
        })
    }

    /// No resource of a list shows a secret. One that is masked is not shown.
    fn hides(&self, step: &'static str, name: &str) -> Finding {
        self.holds(step, |exchange| {
            let body = exchange.json();
            let is_shown = field(&body, name)
                .and_then(|(_, value)| value.as_str())
                .is_some_and(|secret| secret.len() >= 8 && !secret.contains(['*', '…', '•']));
            when(!is_shown, "it is in the list")
        })
    }

    fn reveals(&self, step: &str, secret: Option<&str>) -> bool {
        let exchange = self.at(step);
        exchange
            .zip(secret)
            .is_some_and(|(exchange, secret)| exchange.text().contains(secret))
    }

    /// A response has what we have made.
    fn made(
        &self,
        step: &'static str,
        name: &str,
        value: &str,
        check: impl Fn(&Value) -> Checked,
    ) -> Finding {
        self.answers(step, |exchange| {
            let body = exchange.json();
            let found = with(&body, name, value).cloned().map(Value::Object);
            let found = found.ok_or_else(|| "it is not there".to_owned())?;
            check(&found)
        })
    }

    /// As [`made`](Self::made), for a list, which may have more pages.
    fn listed(
        &self,
        step: &'static str,
        name: &str,
        value: &str,
        check: impl Fn(&Value) -> Checked,
    ) -> Finding {
        match self.at(step) {
            Some(list) if with(&list.json(), name, value).is_none() && has_more(list) => {
                Finding::not_tried("it may be on another page of the list")
            }
            _ => self.made(step, name, value, check),
        }
    }

    fn gone(&self, step: &'static str, name: &str, value: &str) -> Finding {
        self.holds(step, |exchange| {
            when(
                with(&exchange.json(), name, value).is_none(),
                "it is still there",
            )
        })
    }

    /// The first contact of the run, in a list.
    fn contact(&self, step: &'static str, check: impl Fn(&Value) -> Checked) -> Finding {
        self.listed(step, "email", &self.address(1), check)
    }

    pub(super) fn contact_at(&self, step: &str) -> Option<Value> {
        let body = self.at(step)?.json();
        with(&body, "email", &self.address(1))
            .cloned()
            .map(Value::Object)
    }

    /// A delivery has the signature of its exact bytes.
    fn signed(&self, step: &'static str, secret: Option<&str>) -> Finding {
        let (Some(delivery), Some(secret)) = (self.at(step), secret) else {
            return Finding::not_tried("no delivery arrived");
        };
        let expected = hex::encode(tag(secret.as_bytes(), &delivery.request_body));
        match delivery.request_header("Mail-Signature") {
            Some(signature) if signature.eq_ignore_ascii_case(&expected) => Finding::agrees(step),
            Some(_) => Finding::differs(step, "it is not that of the body"),
            None => Finding::differs(step, "the header is missing"),
        }
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

    fn text_at(&self, step: &str, name: &str) -> Option<String> {
        let body = self.at(step)?.json();
        Some(field(&body, name)?.1.as_str()?.to_owned())
    }
}

fn is_consistent(domain: &Value) -> Checked {
    let is_set = |name| field(domain, name).and_then(|(_, value)| flag(value));
    let four = FLAGS[..4]
        .iter()
        .map(|name| is_set(name))
        .collect::<Option<Vec<bool>>>();
    let (Some(four), Some(all)) = (four, is_set("verified")) else {
        return Ok(());
    };
    let problem = "verified is not what the four flags say";
    when(all == four.iter().all(|is_set| *is_set), problem)
}

fn text<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    own(object.as_object()?, name)?.1.as_str()
}

/// Whether a list of texts in this field has this one.
fn has_text(object: &Value, name: &str, wanted: &str) -> bool {
    let found = field(object, name).and_then(|(_, value)| value.as_array());
    found.is_some_and(|texts| texts.iter().any(|text| text == wanted))
}

/// Whether the contact has our entry, in whichever field.
fn has_metadata(contact: &Value, name: &str) -> bool {
    field(contact, name).is_some_and(|(_, value)| value == "yes")
}

fn first_email(page: &Value) -> Option<&Value> {
    each(page, "email")
        .first()
        .and_then(|contact| contact.values().find(|value| is_address(value)))
}

fn is_address(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.contains('@'))
}

fn not_sent(exchange: &Exchange) -> Checked {
    let word = status_word(&exchange.json()).map(|(_, word)| word.to_lowercase());
    let is_sent =
        word.is_some_and(|word| ["sending", "sent", "delivered"].contains(&word.as_str()));
    when(!is_sent, "it is sent at once")
}

fn objects_in_lists(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().filter(|item| item.is_object()).count(),
        Value::Object(fields) => fields.values().map(objects_in_lists).sum(),
        _ => 0,
    }
}

fn has_object(fields: &Map<String, Value>) -> bool {
    fields
        .values()
        .any(|value| value.is_object() || value.is_array())
}
