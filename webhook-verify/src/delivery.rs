//! `Delivery`: what was verified, and how it is read from the body. `Delivery::parse` gets a body
//! whose signature matched, and rejects only what is not JSON or names a field twice. The body
//! stays as it was received; each field is read by itself, so that a wrong type in one does not
//! hide the others. `Delivery::key` identifies a delivery through all its attempts. An event that
//! only an unsigned header names is not part of it, because a replay could change it.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, NaiveDateTime, Utc};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::error::Category;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use crate::rejection::{JsonError, Rejection};
use crate::signature::{Service, Signature};

/// A verified delivery of a webhook.
///
/// It is created by a [`Verifier`](crate::Verifier) or a [`Receiver`](crate::Receiver). Dispatch on
/// [`event`](Self::event), and de-duplicate by [`key`](Self::key).
///
/// `Debug` shows service, event, id, creation time and size, and no other content.
#[derive(Clone)]
pub struct Delivery {
    service: Service,
    event: Event,
    event_is_signed: bool,
    /// The event that the request's header names, if it differs.
    other_event: Option<Box<str>>,
    key: Box<str>,
    id: Option<Box<str>>,
    created: Option<Box<str>>,
    /// Position of `data` in the body.
    data: Option<Range<usize>>,
    body: Bytes,
    /// The body without unpaired surrogates, if it has any. Every position is the same.
    readable: Option<Bytes>,
    matched_secret: Option<usize>,
    pub(crate) tenant: Option<Arc<str>>,
    /// How long after `created` a receiver accepts this delivery.
    pub(crate) accepted_for: Option<Duration>,
}

impl Delivery {
    /// `header` is the event that a header of the request names, which is not signed, and stands for the
    /// event only if the body names none and `is_fallback` is set.
    pub(crate) fn parse(
        signature: &Signature,
        body: &Bytes,
        matched_secret: usize,
        header: Option<&str>,
        is_fallback: bool,
    ) -> Result<Self, Rejection> {
        let envelope = Envelope::parse(body)?;
        let signed = envelope.event();
        // What verifies is a delivery, whatever it says.
        let fallback = header.filter(|_| is_fallback).unwrap_or_default();
        let event = signed.as_deref().unwrap_or(fallback);
        let service = signature.service();
        let key = match envelope.id().filter(|id| !id.is_empty()) {
            // An unsigned event must not be part of the key: a replay could change it.
            Some(id) => key(service, signed.as_deref().unwrap_or_default(), &id),
            None => format!("{service}:tag:{}", signature.hex()),
        };
        let other_event = header.filter(|value| *value != event).map(Into::into);
        let delivery = Self::new(service, event, key.into(), &envelope, body);
        Ok(Self {
            other_event,
            matched_secret: Some(matched_secret),
            ..delivery
        })
    }

    fn new(
        service: Service,
        event: &str,
        key: Box<str>,
        envelope: &Envelope<'_>,
        body: &Bytes,
    ) -> Self {
        Self {
            service,
            event: Event::from(event),
            event_is_signed: envelope.event().is_some(),
            other_event: None,
            key,
            id: envelope.id().map(Into::into),
            created: string(envelope.created).map(Into::into),
            data: envelope.data.map(|data| range_in(data.get(), body)),
            readable: without_unpaired_surrogates(body),
            body: body.clone(),
            matched_secret: None,
            tenant: None,
            accepted_for: None,
        }
    }

    /// Reads a delivery back that was verified and then stored, for example in a queue. It
    /// **verifies nothing**: the result is as trustworthy as the place where it was stored. Nor does
    /// it say that the header that named the event was verified: a service signs only the body, so
    /// an event that is not in the body is what the sender of the request wrote there, see
    /// [`event_is_signed`](Self::event_is_signed).
    ///
    /// Store [`service`](Self::service), [`event`](Self::event), [`key`](Self::key) and
    /// [`body`](Self::body). The crate `svc-webhook-inbox` does so in PostgreSQL and SQLite.
    pub fn from_storage(
        service: Service,
        event: &str,
        key: impl Into<Box<str>>,
        body: impl Into<Bytes>,
    ) -> Self {
        let body = body.into();
        // The body is not an envelope if a configured header named the event.
        let envelope = Envelope::parse(&body).unwrap_or_default();
        Self::new(service, event, key.into(), &envelope, &body)
    }

    /// The service that sent the delivery.
    pub fn service(&self) -> Service {
        self.service
    }

    /// The event, taken from the signed body.
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// Whether the event is named by the signed body. If not, it comes from the header configured
    /// with [`Receiver::event_header`](crate::Receiver::event_header).
    pub fn event_is_signed(&self) -> bool {
        self.event_is_signed
    }

    /// The event that the request's unsigned header names, if it is another than that of the body.
    /// Then the header was changed on its way.
    pub fn different_header_event(&self) -> Option<&str> {
        self.other_event.as_deref()
    }

    /// The delivery's `id`: a string, or a number as it is written. All attempts have the same.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// The key that identifies this delivery and all its attempts: service, event and `id`, or the
    /// signature if there is no `id`. With a [tenant](Self::tenant), it begins with the tenant.
    ///
    /// It is at most 400 bytes long, whatever the sender puts into event and `id`.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The key within a namespace of your own, such as one of several endpoints that must all handle
    /// a delivery. Different pairs of namespace and key give different keys.
    pub fn key_in_namespace(&self, namespace: &str) -> String {
        in_namespace(namespace, &self.key)
    }

    /// The tenant that the resolver of [`Receiver::resolving`](crate::Receiver::resolving) found.
    pub fn tenant(&self) -> Option<&str> {
        self.tenant.as_deref()
    }

    /// The `created` field as a point in time, if it is an ISO 8601 date-time. Without an offset it
    /// is taken as UTC.
    pub fn created_at(&self) -> Option<DateTime<Utc>> {
        let text = self.created.as_deref()?;
        let without_offset = || NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S%.f");
        text.parse()
            .ok()
            .or_else(|| Some(without_offset().ok()?.and_utc()))
    }

    /// Deserializes the `data` field into your own type. A missing `data` is read as `null`, and half
    /// a character, as JavaScript leaves it when it cuts a text (`\\ud83d`), as U+FFFD.
    ///
    /// # Errors
    ///
    /// [`JsonError`] if `data` does not deserialize into `T`.
    pub fn data<'a, T: Deserialize<'a>>(&'a self) -> Result<T, JsonError> {
        let data = self.data_of(self.readable());
        serde_json::from_str(data).map_err(JsonError)
    }

    /// The JSON text of the `data` field exactly as received, or `null` if there is none.
    pub fn data_json(&self) -> &str {
        self.data_of(&self.body)
    }

    fn data_of<'a>(&self, body: &'a Bytes) -> &'a str {
        let data = self.data.clone().and_then(|data| body.get(data));
        data.and_then(|data| str::from_utf8(data).ok())
            .unwrap_or("null")
    }

    fn readable(&self) -> &Bytes {
        self.readable.as_ref().unwrap_or(&self.body)
    }

    /// Deserializes the whole body into your own type.
    ///
    /// # Errors
    ///
    /// [`JsonError`] if the body does not deserialize into `T`.
    pub fn json<'a, T: Deserialize<'a>>(&'a self) -> Result<T, JsonError> {
        serde_json::from_slice(self.readable()).map_err(JsonError)
    }

    /// The exact bytes of the body.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Index of the secret that produced the signature. 0 is the newest. `None` for a delivery
    /// from storage, such as an inbox: there, it is known only when the delivery is accepted.
    pub fn matched_secret(&self) -> Option<usize> {
        self.matched_secret
    }

    /// Puts the delivery into the namespace of a tenant: an `id` is unique only within an account.
    pub(crate) fn with_tenant(mut self, tenant: Arc<str>) -> Self {
        self.key = in_namespace(&tenant, &self.key).into();
        self.tenant = Some(tenant);
        self
    }
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery")
            .field("service", &self.service)
            .field("event", &self.event)
            .field("id", &self.id)
            .field("created", &self.created)
            .field("tenant", &self.tenant)
            .field("bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// Defines the events, each with its name.
macro_rules! events {
    ($( $(#[$meta:meta])* $variant:ident = $name:literal, )+) => {
        /// An event of either service. Names that this version does not know are kept as text.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Event {
            $( $(#[$meta])* $variant, )+
            /// Another name, as it was received.
            Other(Box<str>),
        }

        impl Event {
            /// The events that the references of both services document.
            pub const DOCUMENTED: &[Self] = &[$( Self::$variant, )+];

            /// The event's name as it appears in the body.
            pub fn as_str(&self) -> &str {
                match self {
                    $( Self::$variant => $name, )+
                    Self::Other(name) => name,
                }
            }
        }

        impl From<&str> for Event {
            fn from(name: &str) -> Self {
                match name {
                    $( $name => Self::$variant, )+
                    other => Self::Other(other.into()),
                }
            }
        }
    };
}

events! {
    /// `email.sent`: the email was accepted and sent to the recipient's server.
    EmailSent = "email.sent",
    /// `email.delivered`: delivery to the inbox was confirmed.
    EmailDelivered = "email.delivered",
    /// `email.bounced`: delivery failed (hard or soft bounce).
    EmailBounced = "email.bounced",
    /// `email.opened`: the recipient opened the email.
    EmailOpened = "email.opened",
    /// `email.clicked`: the recipient clicked a link in the email.
    EmailClicked = "email.clicked",
    /// `email.complained`: the recipient marked the email as spam.
    EmailComplained = "email.complained",
    /// `email.failed`: the email could not be sent because of an error.
    EmailFailed = "email.failed",
    /// `email.received`: an email arrived at a verified domain.
    EmailReceived = "email.received",
    /// `extraction.completed`: an extraction finished successfully.
    ExtractionCompleted = "extraction.completed",
    /// `extraction.failed`: an extraction could not complete.
    ExtractionFailed = "extraction.failed",
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Longest event and `id`, taken together, and longest namespace, that a key contains verbatim, in
/// bytes. Longer ones are hashed.
const MAX_VERBATIM: usize = 256;
const MAX_NAMESPACE: usize = 64;

/// Different pairs of event and id give different keys: pairs that are too long, or whose event
/// contains the separator, are hashed.
fn key(service: Service, event: &str, id: &str) -> String {
    if event.len() + id.len() <= MAX_VERBATIM && !event.contains(':') {
        return format!("{service}:{event}:id:{id}");
    }
    let digest = Sha256::new_with_prefix((event.len() as u64).to_be_bytes());
    let digest = digest.chain_update(event).chain_update(id).finalize();
    format!("{service}:sha256:{}", hex::encode(digest))
}

/// The key within a namespace. Different pairs of namespace and key give different keys: in front of
/// the first slash, a namespace contains no colon, which every key without one has there.
pub(crate) fn in_namespace(namespace: &str, key: &str) -> String {
    if namespace.len() <= MAX_NAMESPACE && !namespace.contains(['/', ':', '#']) {
        return format!("{namespace}/{key}");
    }
    format!("#{}/{key}", hex::encode(Sha256::digest(namespace)))
}

/// The fields of a body as raw JSON, so that an unexpected type in one of them does not make the
/// others unreadable.
#[derive(Default, Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    event: Option<&'a RawValue>,
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    created: Option<&'a RawValue>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

impl<'a> Envelope<'a> {
    fn parse(body: &'a [u8]) -> Result<Self, Rejection> {
        let not_json = |error: &serde_json::Error| Rejection::NotJson {
            line: error.line(),
            column: error.column(),
        };
        // Checked first because serde also deserializes a struct from an array.
        let object = match body.trim_ascii_start().first() {
            Some(b'{') => body,
            // Some services send a list of events. The first one stands for all.
            Some(b'[') => {
                let items: Vec<&RawValue> =
                    serde_json::from_slice(body).map_err(|error| not_json(&error))?;
                match items.first().map(|first| first.get()) {
                    Some(first) if first.starts_with('{') => first.as_bytes(),
                    _ => return Ok(Self::default()),
                }
            }
            _ => {
                let read = serde_json::from_slice::<IgnoredAny>(body);
                return read
                    .map(|_| Self::default())
                    .map_err(|error| not_json(&error));
            }
        };
        serde_json::from_slice(object).map_err(|error| match error.classify() {
            Category::Data => Rejection::DuplicateField,
            _ => not_json(&error),
        })
    }

    /// The event name: `event`, or `type` if there is no `event`.
    fn event(&self) -> Option<String> {
        string(self.event).or_else(|| string(self.kind))
    }

    /// The `id`: a string, or a number as it is written.
    fn id(&self) -> Option<String> {
        let number = |raw: &&str| raw.starts_with(|c: char| c == '-' || c.is_ascii_digit());
        string(self.id).or_else(|| self.id.map(RawValue::get).filter(number).map(str::to_owned))
    }
}

fn string(value: Option<&RawValue>) -> Option<String> {
    serde_json::from_str(value?.get()).ok()
}

/// Replaces escapes like `\ud83d` without their other half by that of U+FFFD, which is as long.
/// `None` if there are none.
fn without_unpaired_surrogates(json: &[u8]) -> Option<Bytes> {
    let mut readable = None;
    let mut at = 0;
    while let Some(skipped) = json[at..].iter().position(|byte| *byte == b'\\') {
        at += skipped;
        let first = escaped_unit(json, at);
        let second = escaped_unit(json, at + 6);
        at += match (first, second) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => 12,
            (Some(0xD800..=0xDFFF), _) => {
                let readable = readable.get_or_insert_with(|| json.to_vec());
                readable[at + 2..at + 6].copy_from_slice(b"fffd");
                6
            }
            _ => 2,
        };
        at = at.min(json.len());
    }
    readable.map(Bytes::from)
}

/// The UTF-16 unit of an escape like `\ud83d` at this position.
fn escaped_unit(json: &[u8], at: usize) -> Option<u16> {
    let digits = json.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}

/// The range of `part` within `body`, of which it is a slice.
fn range_in(part: &str, body: &[u8]) -> Range<usize> {
    let start = part.as_ptr().addr() - body.as_ptr().addr();
    start..start + part.len()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{Secret, Verifier};

    fn parse(body: impl Into<Bytes>) -> Result<Delivery, Rejection> {
        let body = body.into();
        let secret = Secret::new("whsec_test").unwrap();
        let signature = Signature::sign(Service::Extraction, &secret, &body);
        Verifier::extraction(secret).verify_signature(&signature, body)
    }

    #[test]
    fn reads_the_documented_body() {
        let body = r#" { "event": "extraction.completed", "id": "5b2e", "x": 1,
            "data": {"total": 12.50}, "created": "2026-03-01T09:30:00Z" }"#;
        let delivery = parse(body).unwrap();
        let stored = Delivery::from_storage(
            delivery.service(),
            delivery.event().as_str(),
            delivery.key(),
            delivery.body().clone(),
        );
        for delivery in [delivery, stored] {
            assert_eq!(delivery.service(), Service::Extraction);
            assert_eq!(*delivery.event(), Event::ExtractionCompleted);
            assert_eq!(delivery.id(), Some("5b2e"));
            assert_eq!(delivery.data_json(), r#"{"total": 12.50}"#);
            assert_eq!(delivery.key(), "extraction:extraction.completed:id:5b2e");
            assert_eq!(delivery.created_at().unwrap().timestamp(), 1_772_357_400);
            assert_eq!(delivery.json::<serde_json::Value>().unwrap()["x"], 1);
            assert_eq!(delivery.body(), body);
            assert!(!format!("{delivery:?}").contains("12.50"), "{delivery:?}");
        }
    }

    #[test]
    fn keeps_undocumented_values() {
        let delivery = parse(r#"{"event":"extraction.paused","id":17,"created":"soon"}"#).unwrap();
        assert_eq!(*delivery.event(), Event::Other("extraction.paused".into()));
        assert_eq!(
            (delivery.id(), delivery.created.as_deref()),
            (Some("17"), Some("soon"))
        );
        assert_eq!(
            (delivery.created_at(), delivery.data_json()),
            (None, "null")
        );
        assert_eq!(delivery.data::<Option<u8>>().unwrap(), None);
        let error = delivery.data::<u8>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "the JSON does not fit the type (line 1, column 4)"
        );

        let delivery = parse(r#"{"type":"extraction.failed","event":null,"id":null}"#).unwrap();
        assert_eq!(*delivery.event(), Event::ExtractionFailed);
        assert!(
            delivery.key().starts_with("extraction:tag:"),
            "{}",
            delivery.key()
        );
    }

    /// A text that was cut inside a character must not make the delivery unreadable.
    #[test]
    fn half_a_character_is_read_as_the_replacement_character() {
        let body =
            r#"{"event":"e","data":{"text":"\ud83d","whole":"\ud83d\ude00","slash":"\\ud83d"}}"#;
        let delivery = parse(body).unwrap();
        let data: serde_json::Value = delivery.data().unwrap();
        assert_eq!(data["text"], "\u{fffd}");
        assert_eq!(data["whole"], "\u{1f600}");
        assert_eq!(data["slash"], r"\ud83d");
        assert_eq!(delivery.json::<serde_json::Value>().unwrap()["data"], data);
        assert!(delivery.data_json().contains(r#""\ud83d""#));
    }

    #[test]
    fn created_times_may_be_short() {
        for (text, seconds) in [
            ("1970-01-01T00:00:01Z", 1),
            ("1970-01-01T00:00:01.5Z", 1),
            ("1970-01-01T01:00:01+01:00", 1),
            ("1970-01-01T00:00:01", 1),
            ("1970-01-01 00:00:01Z", 1),
        ] {
            let body = format!(r#"{{"event":"e","created":"{text}"}}"#);
            let time = parse(body).unwrap().created_at();
            assert_eq!(time.map(|time| time.timestamp()), Some(seconds), "{text}");
        }
    }

    #[test]
    fn bodies_that_are_no_delivery_are_rejected() {
        for (body, rejection) in [
            ("", Rejection::NotJson { line: 1, column: 0 }),
            ("{\"event\":", Rejection::NotJson { line: 1, column: 9 }),
            (r#"{"event":"a","event":"b"}"#, Rejection::DuplicateField),
            (r#"{"event":"a","id":1,"id":2}"#, Rejection::DuplicateField),
        ] {
            assert_eq!(parse(body).unwrap_err(), rejection, "{body}");
        }
    }

    #[test]
    fn any_json_that_verifies_is_a_delivery() {
        for body in ["[1]", "[]", "{}", "17", r#"{"event":1}"#, "null"] {
            let delivery = parse(body).unwrap();
            assert_eq!(
                (delivery.event().as_str(), delivery.id()),
                ("", None),
                "{body}"
            );
            assert!(delivery.key().contains(":tag:"), "{body}");
        }

        let delivery = parse(r#"[{"event":"email.sent","id":"7","data":{"a":1}},{}]"#).unwrap();
        assert_eq!(
            (delivery.event().as_str(), delivery.id()),
            ("email.sent", Some("7"))
        );
        assert_eq!(delivery.data_json(), r#"{"a":1}"#);
    }

    /// A sender that could produce another delivery's key could have that delivery dropped as a
    /// duplicate. Stores keep keys for days, so keys must stay short.
    #[test]
    fn keys_are_unique_and_bounded() {
        let odd = [
            "a",
            "b",
            "a:id:b",
            "b:id:c",
            ":",
            "",
            "sha256",
            "\r\nDEL *\r\n",
            "a/b",
            "#a",
        ];
        let mut names = odd.map(str::to_owned).to_vec();
        names.extend([64, 65, 256, 512].map(|length| "x".repeat(length)));
        let mut keys = BTreeSet::new();
        for event in &names {
            for id in &names {
                let key = key(Service::Email, event, id);
                assert!(key.len() <= 300, "{} bytes", key.len());
                for namespace in &names {
                    let key_there = in_namespace(namespace, &key);
                    assert!(
                        key_there.len() <= 400 && keys.insert(key_there),
                        "{namespace:.9} {key:.50}"
                    );
                }
                assert!(keys.insert(key), "{event:.9?} {id:.9?}");
            }
        }
    }

    #[test]
    fn event_names_match_the_references() {
        let names: Vec<_> = Event::DOCUMENTED.iter().map(Event::as_str).collect();
        assert_eq!(
            names,
            [
                "email.sent",
                "email.delivered",
                "email.bounced",
                "email.opened",
                "email.clicked",
                "email.complained",
                "email.failed",
                "email.received",
                "extraction.completed",
                "extraction.failed",
            ]
        );
        assert_eq!(format!("{:>12}|", Event::EmailSent), "  email.sent|");
        assert_eq!(Event::from("Email.Sent"), Event::Other("Email.Sent".into()));
    }
}
