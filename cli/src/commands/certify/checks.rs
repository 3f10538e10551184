//! The table of checks.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use svc_sdk::Service;
use uuid::Uuid;
use webhook_verify::Secret;

use super::exam::Exam;
use super::judge::Judge;
use super::keys::{header_of, sign};
use super::request::{Form, Request, Signature};
use crate::commands::trigger::EVENTS;
use crate::commands::trigger::payload;

/// A check of the receiver.
pub(super) struct Check {
    /// The stable name, for `--only` and `--skip`.
    pub(super) name: &'static str,
    pub(super) severity: Severity,
    /// The services whose receivers it applies to.
    pub(super) services: &'static [Service],
    /// May contain [`TIMEOUT`], as `expected`.
    sent: &'static str,
    expected: &'static str,
    pub(super) requests: fn(&Exam) -> Vec<Request>,
    pub(super) judge: Judge,
}

/// Stands for the service's timeout.
const TIMEOUT: &str = "{timeout}";

impl Check {
    pub(super) fn sent(&self, service: Option<Service>) -> String {
        self.sent.replace(TIMEOUT, shown_timeout(service))
    }

    pub(super) fn expected(&self, service: Option<Service>) -> String {
        self.expected.replace(TIMEOUT, shown_timeout(service))
    }
}

/// Whether the service's reference names [`RESPONSE_TIMEOUT`](crate::deliver::RESPONSE_TIMEOUT).
pub(super) fn is_timeout_documented(service: Service) -> bool {
    service == Service::Email
}

fn shown_timeout(service: Option<Service>) -> &'static str {
    if service.is_none_or(is_timeout_documented) { "10 s" } else { "10 s (assumed)" }
}

/// What it means if a check does not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    /// The receiver is wrong: it accepts forged deliveries, or loses good ones.
    Failure,
    /// The receiver works, and could be more robust.
    Advice,
}

const BOTH: &[Service] = &[Service::Email, Service::Extraction];
const EXTRACTION: &[Service] = &[Service::Extraction];

const ACCEPTED: &str = "2xx within {timeout}";
const REFUSED: &str = "a response other than 2xx";

/// Every check, in the order in which they run: those that can block a receiver with one thread
/// come last.
pub(super) const CHECKS: &[Check] = &[
    accepts("good-delivery", BOTH, "each documented event, correctly signed", |exam| {
        let prefix = format!("{}.", exam.service());
        let events = EVENTS.iter().filter(|event| event.starts_with(&prefix));
        events.map(|event| Request::good(exam.service(), event).named(event)).collect()
    }),
    accepts("unknown-event", BOTH, "an event that is not documented", |exam| {
        let event = format!("{}.archived", exam.service());
        let mut value = payload::of(documented_event(exam.service()));
        value["event"] = event.as_str().into();
        vec![Request::with_value(exam.service(), &event, &value)]
    }),
    accepts("unknown-field", BOTH, "fields that are not documented", |exam| {
        let mut value = value(exam);
        value["certify"] = json!({"nested": [1, null]});
        value["data"]["certify"] = true.into();
        vec![with_value(exam, &value)]
    }),
    accepts("upper-case-hex", BOTH, "the signature in upper-case hex digits", |exam| {
        vec![good(exam).with_signatures([Signature::Signed(exam.service(), Form::UpperCase)])]
    }),
    accepts("formatted-body", BOTH, "JSON with white space between the tokens", |exam| {
        let value = value(exam);
        vec![with_value(exam, &value).with_body(formatted(&value))]
    }),
    Check {
        name: "body-not-utf8",
        severity: Severity::Failure,
        services: EXTRACTION,
        sent: "a correctly signed body that is not UTF-8",
        expected: "2xx, or a 4xx status that does not blame the signature (401, 403)",
        requests: |exam| vec![not_utf8(exam)],
        judge: Judge::BytesVerified,
    },
    Check {
        name: "repeated-delivery",
        severity: Severity::Failure,
        services: BOTH,
        sent: "the same delivery twice, one after the other",
        expected: "2xx both times",
        requests: |exam| vec![good(exam)],
        judge: Judge::Repeated,
    },
    Check {
        name: "simultaneous-deliveries",
        severity: Severity::Failure,
        services: BOTH,
        sent: "the same delivery three times at once",
        expected: "2xx, or 503 with Retry-After and 2xx later",
        requests: |exam| vec![good(exam)],
        judge: Judge::Simultaneous,
    },
    refuses("missing-signature", BOTH, "no signature header", |exam| {
        vec![good(exam).with_signatures([])]
    }),
    refuses("empty-signature", BOTH, "a signature header without digits", |exam| {
        let (_, prefix) = header_of(exam.service());
        vec![good(exam).with_signatures([Signature::Literal(prefix.to_owned())])]
    }),
    refuses(
        "wrong-secret",
        BOTH,
        "signatures made with a random secret, an empty one, and the secret in other notations: \
         without its prefix, with `whsec_` before it, in hex digits, decoded from hex or Base64",
        |exam| {
            let mut requests = vec![forged(exam).named("a random secret")];
            requests.extend(exam.sender.other_keys.iter().map(|(name, key)| {
                let request = good(exam).named(name);
                let signature = key.sign(exam.service(), &request.body);
                request.with_signatures([Signature::Literal(signature)])
            }));
            requests
        },
    ),
    refuses(
        "truncated-signature",
        BOTH,
        "the first 8 digits of the signature, its first half, all but the last digit, and with \
         zeros after the first 8",
        |exam| {
            let forms = [
                ("8 digits", Form::FirstDigits(8)),
                ("half of the digits", Form::FirstDigits(32)),
                ("63 digits", Form::FirstDigits(63)),
                ("zeros after 8 correct digits", Form::ZerosAfter(8)),
            ];
            with_forms(exam, forms)
        },
    ),
    refuses(
        "extended-signature",
        BOTH,
        "the correct signature with more digits or text after it, twice, and with a wrong one \
         before or after it in the same header",
        |exam| {
            let (_, prefix) = header_of(exam.service());
            let wrong = format!("{prefix}{}", "0".repeat(64));
            let after = |text: &str| Form::Around(String::new(), text.to_owned());
            let forms = [
                ("more digits", after("00")),
                ("text", after("x")),
                ("a parameter", after(";v=1")),
                ("twice, with a comma", Form::Twice(",")),
                ("twice, with a space", Form::Twice(" ")),
                ("a wrong one after a comma", after(&format!(", {wrong}"))),
                ("a wrong one after a space", after(&format!(" {wrong}"))),
                ("a wrong one before a comma", Form::Around(format!("{wrong},"), String::new())),
                ("a wrong one before a space", Form::Around(format!("{wrong} "), String::new())),
            ];
            with_forms(exam, forms)
        },
    ),
    refuses("changed-body", BOTH, "the signature of another delivery", |exam| {
        vec![good(exam).signed_over(value(exam).to_string())]
    }),
    refuses("truncated-body", BOTH, "half of the body that was signed", |exam| {
        let request = good(exam);
        let half = request.body[..request.body.len() / 2].to_vec();
        let whole = request.body.clone();
        vec![request.with_body(half).signed_over(whole)]
    }),
    refuses(
        "reserialized-body",
        BOTH,
        "the signature of the same JSON in another notation",
        |exam| {
            let value = value(exam);
            let request = with_value(exam, &value).with_body(formatted(&value));
            let mut sorted = value.clone();
            sorted.sort_all_objects();
            let notations = [
                ("without white space", value.to_string()),
                ("with spaces as Python writes it", spaced(&value)),
                ("with sorted keys", sorted.to_string()),
            ];
            let requests =
                notations.map(|(name, notation)| request.clone().named(name).signed_over(notation));
            requests.into()
        },
    ),
    refuses(
        "decoded-body",
        BOTH,
        "a body that is not UTF-8, with the signature of its text with replacement characters",
        |exam| {
            let request = not_utf8(exam);
            let text = String::from_utf8_lossy(&request.body).into_owned();
            vec![request.signed_over(text)]
        },
    ),
    refuses("other-service", BOTH, "the header and signature of the other service", |exam| {
        let other = match exam.service() {
            Service::Email => Service::Extraction,
            _ => Service::Email,
        };
        vec![good(exam).with_signatures([Signature::Signed(other, Form::Documented)])]
    }),
    refuses(
        "doubled-header",
        BOTH,
        "two signature headers: a correct and a wrong one, in both orders, and a correct one twice",
        |exam| {
            let correct = Signature::Signed(exam.service(), Form::Documented);
            let wrong =
                Signature::Literal(wrong_signature(exam, &value(exam).to_string().into_bytes()));
            let pairs = [
                ("the correct one first", [correct.clone(), wrong.clone()]),
                ("the wrong one first", [wrong, correct.clone()]),
                ("the correct one twice", [correct.clone(), correct]),
            ];
            pairs.map(|(name, pair)| good(exam).named(name).with_signatures(pair)).into()
        },
    ),
    refuses("other-prefix", BOTH, "other text before the signature's digits", |exam| {
        let prefixes: &[&str] = match exam.service() {
            Service::Email => &["sha256=", "v1="],
            _ => &["", "md5=", "v1="],
        };
        with_prefixes(exam, prefixes)
    }),
    refuses("prefix-letter-case", EXTRACTION, "the prefix SHA256= or Sha256=", |exam| {
        with_prefixes(exam, &["SHA256=", "Sha256="])
    }),
    Check {
        name: "reveals-signature",
        severity: Severity::Failure,
        services: BOTH,
        sent: "a signature made with another secret",
        expected: "a response that does not contain the correct signature",
        requests: |exam| vec![forged(exam)],
        judge: Judge::RevealsSignature,
    },
    advice(
        "refusal-reason",
        "no signature, a malformed one, and one made with another secret",
        "the same status and text each time, so that a forger learns nothing",
        |exam| {
            let malformed = Signature::Literal("malformed".to_owned());
            vec![
                good(exam).with_signatures([]).named("no signature"),
                good(exam).with_signatures([malformed]).named("a malformed one"),
                forged(exam).named("another secret"),
            ]
        },
        Judge::RefusalReason,
    ),
    advice(
        "old-secret",
        "a delivery that is signed with the old secret",
        "2xx, so that no delivery is lost while the secret is replaced",
        |exam| vec![good(exam).with_signatures([Signature::SignedWithOldSecret])],
        Judge::OldSecret,
    ),
    advice(
        "response-time",
        "a correctly signed delivery",
        "no accepted delivery takes more than 5 s, half of the service's timeout of {timeout}",
        |exam| vec![good(exam)],
        Judge::ResponseTime,
    ),
    advice(
        "hang-up",
        "a delivery whose sender disconnects before the response, at the latest after {timeout}, \
         and the same delivery again",
        "2xx within 30 s of the disconnection, but not before the handler can have finished",
        |exam| vec![good(exam), good(exam), good(exam)],
        Judge::HangUp,
    ),
    advice(
        "size-limit",
        "a forged body of 32 MiB",
        "413, or any response before the whole body was sent",
        |exam| vec![forged(exam)],
        Judge::SizeLimit,
    ),
    advice(
        "body-deadline",
        "a forged body, one byte each half second",
        "a response or the end of the connection within 15 s",
        |exam| vec![forged(exam)],
        Judge::BodyDeadline,
    ),
];

const fn accepts(
    name: &'static str,
    services: &'static [Service],
    sent: &'static str,
    requests: fn(&Exam) -> Vec<Request>,
) -> Check {
    let judge = Judge::Accepted;
    let severity = Severity::Failure;
    Check { name, severity, services, sent, expected: ACCEPTED, requests, judge }
}

const fn refuses(
    name: &'static str,
    services: &'static [Service],
    sent: &'static str,
    requests: fn(&Exam) -> Vec<Request>,
) -> Check {
    let judge = Judge::Refused;
    let severity = Severity::Failure;
    Check { name, severity, services, sent, expected: REFUSED, requests, judge }
}

const fn advice(
    name: &'static str,
    sent: &'static str,
    expected: &'static str,
    requests: fn(&Exam) -> Vec<Request>,
    judge: Judge,
) -> Check {
    Check { name, severity: Severity::Advice, services: BOTH, sent, expected, requests, judge }
}

fn documented_event(service: Service) -> &'static str {
    match service {
        Service::Email => "email.sent",
        _ => "extraction.completed",
    }
}

/// A good delivery. Each has its own id, because a receiver may respond with 2xx to one that it
/// knows, however it is signed.
fn good(exam: &Exam) -> Request {
    Request::good(exam.service(), documented_event(exam.service()))
}

/// The body of a good delivery.
fn value(exam: &Exam) -> Value {
    payload::of(documented_event(exam.service()))
}

fn with_value(exam: &Exam, value: &Value) -> Request {
    Request::with_value(exam.service(), documented_event(exam.service()), value)
}

/// A delivery that is signed with another secret.
fn forged(exam: &Exam) -> Request {
    let request = good(exam);
    let signature = wrong_signature(exam, &request.body);
    request.with_signatures([Signature::Literal(signature)])
}

/// A signature made with another secret.
fn wrong_signature(exam: &Exam, body: &[u8]) -> String {
    let (_, prefix) = header_of(exam.service());
    match Secret::new(Uuid::new_v4().to_string()) {
        Ok(secret) => sign(exam.service(), &secret, body),
        Err(_) => format!("{prefix}{}", "0".repeat(64)),
    }
}

fn with_prefixes(exam: &Exam, prefixes: &[&'static str]) -> Vec<Request> {
    let named = |prefix: &'static str| if prefix.is_empty() { "no prefix" } else { prefix };
    with_forms(exam, prefixes.iter().map(|prefix| (named(prefix), Form::Prefix(prefix))))
}

/// Deliveries with the correct signature in other forms.
fn with_forms(exam: &Exam, forms: impl IntoIterator<Item = (&'static str, Form)>) -> Vec<Request> {
    let request = |(name, form)| {
        good(exam).named(name).with_signatures([Signature::Signed(exam.service(), form)])
    };
    forms.into_iter().map(request).collect()
}

/// JSON with white space, which a receiver that parses and writes it again does not preserve.
fn formatted(value: &Value) -> String {
    format!("\n{value:#}\t")
}

/// JSON as Python writes it by default.
fn spaced(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let pairs = map.iter().map(|(key, value)| format!("\"{key}\": {}", spaced(value)));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(spaced).collect::<Vec<_>>().join(", "))
        }
        scalar => scalar.to_string(),
    }
}

/// A delivery with a text in ISO 8859-1.
fn not_utf8(exam: &Exam) -> Request {
    let mut value = value(exam);
    value["data"]["note"] = "price: ~5".into();
    let text = value.to_string();
    let body = text.bytes().map(|byte| if byte == b'~' { 0xE9 } else { byte });
    with_value(exam, &value).with_body(body.collect::<Vec<_>>())
}
