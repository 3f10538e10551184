//! The envelope of a verified delivery. The tests make it long: what they look at
//! has no public constructor, so they stand beside it.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::fmt;
use core::ops::Range;
use core::time::Duration;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::error::Category;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use crate::signature::Hex;
use crate::{AgeError, Scheme, Tag, Timestamp, Verified};

/// A verified delivery with its envelope read: event, id, created, data.
///
/// Only the event has to be there. Unknown events are kept, unknown fields
/// stay reachable through [`json`](Self::json).
#[derive(Clone)]
pub struct Delivery<S: Scheme, B> {
    verified: Verified<S, B>,
    event: S::Event,
    header_event: HeaderEvent,
    id: Option<Box<str>>,
    created: Option<Box<str>>,
    /// Where `data` stands in the body.
    data: Option<Range<usize>>,
}

/// What tells a delivery from all others: its scheme, and its event and `id`
/// or, where it has no `id`, its tag. At most 300 bytes, whatever was sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeliveryKey(Box<str>);

impl DeliveryKey {
    #[cfg(all(test, feature = "dedup"))]
    pub(crate) fn new(key: &str) -> Self {
        Self(key.into())
    }

    pub(crate) fn of_tag<S: Scheme>(tag: Tag) -> Self {
        Self(format!("{}:tag:{tag}", S::NAME).into())
    }

    /// Two events with two ids are two keys, whatever is in them: of what is
    /// long, or has the sign between the two in it, there is a digest.
    fn of_id<S: Scheme>(event: &str, id: &str) -> Self {
        let scheme = S::NAME;
        if event.len() + id.len() <= LONGEST_NAMES && !event.contains(':') {
            return Self(format!("{scheme}:{event}:id:{id}").into());
        }
        let digest = Sha256::new_with_prefix((event.len() as u64).to_be_bytes());
        let digest = digest.chain_update(event).chain_update(id).finalize();
        Self(format!("{scheme}:sha256:{}", Hex(&digest.into())).into())
    }

    /// The key as text, such as
    /// `extraction:extraction.completed:id:7c0e`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DeliveryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// How the unsigned header that names the event compares with the body.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderEvent {
    /// There was no such header, or nobody looked for one.
    Absent,
    /// The header names the body's event.
    Same,
    /// The header names another event than the body: somebody changed it on
    /// the way. [`Delivery::event`] is the body's.
    Different(Box<str>),
    /// The body names no event, and you named a header that does
    /// (`Receiver::event_header`, [`Verified::with_event_header`]).
    /// [`Delivery::event`] is the header's, which **nobody has signed**.
    Only,
}

impl<S: Scheme, B: AsRef<[u8]>> Delivery<S, B> {
    pub(crate) fn parse(verified: Verified<S, B>) -> Result<Self, EnvelopeError> {
        let body = verified.body();
        let wire = Wire::read(body)?;

        let in_body = text(wire.event).or_else(|| text(wire.kind));
        let in_header = verified.event_header().map(String::from_utf8_lossy);
        let may_be_only = verified.may_take_event_from_header();
        let (event, header_event) = match (in_body, in_header) {
            (Some(event), None) => (event, HeaderEvent::Absent),
            (Some(event), Some(header)) if header == event => (event, HeaderEvent::Same),
            (Some(event), Some(header)) => (event, HeaderEvent::Different(header.into())),
            (None, Some(header)) if may_be_only => (header.into_owned(), HeaderEvent::Only),
            (None, _) => return Err(EnvelopeError::NoEvent),
        };

        Ok(Self {
            event: S::Event::from(&event),
            header_event,
            id: text(wire.id).or_else(|| number(wire.id)).map(Into::into),
            created: text(wire.created).map(Into::into),
            data: wire.data.map(|data| place(data.get(), body)),
            verified,
        })
    }

    /// The event, taken from the signed body. Dispatch on this and not on a
    /// header, except as [`HeaderEvent::Only`] says.
    pub fn event(&self) -> &S::Event {
        &self.event
    }

    /// How the unsigned event header compares with the body.
    pub fn header_event(&self) -> &HeaderEvent {
        &self.header_event
    }

    /// The delivery's `id`; retries keep it.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// What tells this delivery from all others, and its retries not from it.
    ///
    /// The event is part of it, so that a sender whose `id` names an email, and
    /// not the delivery, loses none of the email's events.
    pub fn key(&self) -> DeliveryKey {
        let Some(id) = self.id().filter(|id| !id.is_empty()) else { return self.verified.key() };
        // With an unsigned event in it, a replay could choose another key.
        let event = match self.header_event {
            HeaderEvent::Only => "",
            _ => self.event.as_ref(),
        };
        DeliveryKey::of_id::<S>(event, id)
    }

    /// The `created` time as it came.
    pub fn created(&self) -> Option<&str> {
        self.created.as_deref()
    }

    /// The `created` time, where it is one (ISO 8601; UTC without an offset).
    pub fn created_at(&self) -> Option<Timestamp> {
        self.created().and_then(Timestamp::parse)
    }

    /// Refuses a delivery whose signed `created` is more than `max_age` from
    /// `now`, in either direction.
    ///
    /// A bound on replay and no protection from it: within `max_age` only
    /// de-duplication helps. Choose it longer than the sender goes on retrying.
    ///
    /// # Errors
    ///
    /// [`AgeError`]
    pub fn check_age(&self, now: Timestamp, max_age: Duration) -> Result<(), AgeError> {
        let created = self.created_at().ok_or(AgeError::Unknown)?;
        if now.saturating_since(created) > max_age {
            return Err(AgeError::TooOld);
        }
        if created.saturating_since(now) > max_age {
            return Err(AgeError::InTheFuture);
        }
        Ok(())
    }

    /// The `data` of the delivery as your own type; `null` when it has none.
    ///
    /// # Errors
    ///
    /// [`JsonError`] when it does not fit the type.
    pub fn data<'a, T: Deserialize<'a>>(&'a self) -> Result<T, JsonError> {
        serde_json::from_str(self.data_json()).map_err(JsonError::new)
    }

    /// The JSON text of `data`, exactly as it was received; `null` when the
    /// delivery has none.
    pub fn data_json(&self) -> &str {
        self.data
            .clone()
            .and_then(|data| self.body().get(data))
            .and_then(|data| core::str::from_utf8(data).ok())
            .unwrap_or("null")
    }

    /// The whole body as your own type.
    ///
    /// # Errors
    ///
    /// [`JsonError`] when it does not fit the type.
    pub fn json<'a, T: Deserialize<'a>>(&'a self) -> Result<T, JsonError> {
        self.verified.json()
    }

    /// The body's exact bytes.
    pub fn body(&self) -> &[u8] {
        self.verified.body()
    }

    /// The verified tag; byte-identical retries have the same.
    pub fn tag(&self) -> Tag {
        self.verified.tag()
    }

    /// Which secret made the signature: 0 is the newest.
    pub fn matched_secret(&self) -> usize {
        self.verified.matched_secret()
    }

    /// The verified body underneath.
    pub fn verified(&self) -> &Verified<S, B> {
        &self.verified
    }

    /// The body as it was handed in.
    pub fn into_body(self) -> B {
        self.verified.into_body()
    }
}

/// Event, id, time and size, and nothing else of the content.
impl<S: Scheme, B: AsRef<[u8]>> fmt::Debug for Delivery<S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery")
            .field("event", &self.event)
            .field("header_event", &self.header_event)
            .field("id", &self.id)
            .field("created", &self.created)
            .field("verified", &self.verified)
            .finish_non_exhaustive()
    }
}

/// Why a verified body is no delivery. It holds nothing of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnvelopeError {
    /// The body is not JSON.
    #[error("the body is not JSON (line {line}, column {column})")]
    NotJson {
        /// Line of the first error, counted from 1.
        line: usize,
        /// Column of the first error, counted from 1.
        column: usize,
    },
    /// The body is JSON and no object.
    #[error("the body is not a JSON object")]
    NotAnObject,
    /// A field of the envelope is there twice, so that two readers could
    /// understand two different deliveries.
    #[error("a field of the envelope is there twice")]
    RepeatedField,
    /// Neither `event` nor `type` nor a header that you named gives the event.
    #[error("the delivery names no event")]
    NoEvent,
}

impl EnvelopeError {
    fn not_json(error: &serde_json::Error) -> Self {
        Self::NotJson { line: error.line(), column: error.column() }
    }
}

/// A verified body that does not fit the type asked for.
///
/// `Display` and `Debug` give the place and nothing of the content;
/// [`detail`](Self::detail) may quote it.
#[derive(thiserror::Error)]
#[error("the JSON does not fit the type (line {}, column {})", .0.line(), .0.column())]
pub struct JsonError(serde_json::Error);

impl JsonError {
    pub(crate) fn new(error: serde_json::Error) -> Self {
        Self(error)
    }

    /// What `serde_json` says, which **may quote the content**: not for logs.
    pub fn detail(&self) -> &serde_json::Error {
        &self.0
    }
}

impl fmt::Debug for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonError")
            .field("line", &self.0.line())
            .field("column", &self.0.column())
            .finish_non_exhaustive()
    }
}

/// Raw values, because no type of a field may spoil the others.
#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow, default)]
    event: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    created: Option<&'a RawValue>,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
}

impl<'a> Wire<'a> {
    fn read(body: &'a [u8]) -> Result<Self, EnvelopeError> {
        // Asked first, because an array of values would do for the struct.
        if !body.trim_ascii_start().starts_with(b"{") {
            return Err(match serde_json::from_slice::<IgnoredAny>(body) {
                Ok(_) => EnvelopeError::NotAnObject,
                Err(error) => EnvelopeError::not_json(&error),
            });
        }
        serde_json::from_slice(body).map_err(|error| match error.classify() {
            Category::Data => EnvelopeError::RepeatedField,
            _ => EnvelopeError::not_json(&error),
        })
    }
}

/// Event and id together, in bytes: what a key holds of them as they are.
const LONGEST_NAMES: usize = 256;

fn text(value: Option<&RawValue>) -> Option<String> {
    serde_json::from_str(value?.get()).ok()
}

fn number(value: Option<&RawValue>) -> Option<String> {
    let raw = value?.get();
    raw.starts_with(|c: char| c == '-' || c.is_ascii_digit()).then(|| raw.to_owned())
}

/// Where a part of the body stands in it.
fn place(part: &str, body: &[u8]) -> Range<usize> {
    let start = part.as_ptr().addr() - body.as_ptr().addr();
    start..start + part.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Extraction, ExtractionEvent, ExtractionSigner, ExtractionVerifier, Secret};

    fn parse(body: &[u8]) -> Result<Delivery<Extraction, &[u8]>, EnvelopeError> {
        verified(body).into_delivery()
    }

    fn verified(body: &[u8]) -> Verified<Extraction, &[u8]> {
        let secret = Secret::new("whsec_test").unwrap();
        let signature = ExtractionSigner::new(&secret).sign(body);
        ExtractionVerifier::new(secret).verify_signature(&signature, body).unwrap()
    }

    #[test]
    fn the_documented_envelope() {
        let body = br#"{ "event": "extraction.completed", "id": "5b2e", "x": 1,
            "data": {"total": 12.50}, "created": "2026-03-01T09:30:00Z" }"#;
        let delivery = parse(body).unwrap();
        assert_eq!(*delivery.event(), ExtractionEvent::Completed);
        assert_eq!(*delivery.header_event(), HeaderEvent::Absent);
        assert_eq!(delivery.id(), Some("5b2e"));
        assert_eq!(delivery.data_json(), r#"{"total": 12.50}"#);
        assert_eq!(delivery.key().as_str(), "extraction:extraction.completed:id:5b2e");
        assert_eq!(delivery.created(), Some("2026-03-01T09:30:00Z"));
        assert_eq!(delivery.json::<serde_json::Value>().unwrap()["x"], 1);
    }

    #[test]
    fn what_is_not_documented_is_kept() {
        let delivery = parse(br#"{"event":"extraction.paused","id":17,"created":"soon"}"#).unwrap();
        assert_eq!(*delivery.event(), ExtractionEvent::Unknown("extraction.paused".into()));
        assert_eq!(delivery.id(), Some("17"));
        assert_eq!(delivery.created(), Some("soon"));
        assert_eq!(delivery.created_at(), None);
        assert_eq!(delivery.data_json(), "null");
        assert_eq!(delivery.data::<Option<u8>>().unwrap(), None);

        let delivery = parse(br#"{"type":"extraction.failed","event":null,"id":null}"#).unwrap();
        assert_eq!(*delivery.event(), ExtractionEvent::Failed);
        let key = format!("extraction:tag:{}", delivery.tag());
        assert_eq!(delivery.key().as_str(), key);
    }

    /// Whoever could make one delivery's key be another's, would have the other
    /// answered as a repeat; and a key is held for days.
    #[test]
    #[cfg_attr(miri, ignore = "a hundred deliveries take it minutes, in safe code")]
    fn no_two_deliveries_share_a_key_and_none_is_long() {
        let key = |event: &str, id: &str| {
            let body = serde_json::json!({"event": event, "id": id}).to_string();
            parse(body.as_bytes()).unwrap().key()
        };
        let odd = ["a", "b", "a:id:b", "b:id:c", ":", "", "sha256", "\r\nDEL *\r\n", "{a}"];
        let mut names = odd.map(ToOwned::to_owned).to_vec();
        names.extend([100, 256, 512].map(|length| "x".repeat(length)));
        let mut keys = alloc::collections::BTreeSet::new();
        for event in &names {
            for id in names.iter().filter(|id| !id.is_empty()) {
                let key = key(event, id);
                assert!(key.as_str().len() <= 300, "{} bytes", key.as_str().len());
                assert!(keys.insert(key), "{event:.9?} {id:.9?}");
            }
        }
        let long = "x".repeat(512);
        assert_eq!(key(&long, "1"), key(&long, "1"));
        // printf '\0\0\0\0\0\0\0\3a:bc' | sha256sum
        assert_eq!(
            key("a:b", "c").as_str(),
            "extraction:sha256:59582b2d751aa7bab9e234466e6d17093b0f3b3c3efde4b79bfccccd92875989"
        );
    }

    #[test]
    fn what_is_odd_json_and_what_is_none() {
        for (body, error) in [
            (r#"{"event":"a","\u0065vent":"b"}"#, EnvelopeError::RepeatedField),
            (r#"{"event":"a","id":"1","id":"1"}"#, EnvelopeError::RepeatedField),
            (r#"{"event":"a","created":1,"created":2}"#, EnvelopeError::RepeatedField),
            (r#"{"event":"a","data":1,"data":null}"#, EnvelopeError::RepeatedField),
            (r#"{"type":"a","type":"a"}"#, EnvelopeError::RepeatedField),
            (r#"{"event":"\ud800"}"#, EnvelopeError::NoEvent),
            (r#"{"event":"a"}{}"#, EnvelopeError::NotJson { line: 1, column: 14 }),
            ("\u{feff}{}", EnvelopeError::NotJson { line: 1, column: 1 }),
        ] {
            assert_eq!(parse(body.as_bytes()).unwrap_err(), error, "{body}");
        }
        // The one that the documents name counts, whatever else there is.
        let both = parse(br#"{"type":"extraction.failed","event":"e"}"#).unwrap();
        assert_eq!(both.event().as_str(), "e");

        // Numbers that fit nowhere, and half of a character.
        let odd = parse(br#"{"event":"e","id":1e999999999,"data":-1e999,"created":"\udc00"}"#);
        let odd = odd.unwrap();
        assert_eq!((odd.id(), odd.data_json()), (Some("1e999999999"), "-1e999"));
        assert_eq!(odd.created(), None);
        assert!(odd.data::<f64>().is_err() && odd.json::<serde_json::Value>().is_err());

        // Nesting that a recursive reader would not survive.
        let deep = if cfg!(miri) { 1 << 9 } else { 1 << 19 };
        let nested = [b"[".repeat(deep), b"]".repeat(deep)].concat();
        assert_eq!(parse(&nested).unwrap_err(), EnvelopeError::NotAnObject);
        assert!(matches!(parse(&nested[..deep]).unwrap_err(), EnvelopeError::NotJson { .. }));
        let body = [br#"{"event":"e","x":"#, &nested[..], br#","data":"#, &nested, b"}"].concat();
        let delivery = parse(&body).unwrap();
        assert_eq!(delivery.data_json().as_bytes(), nested);
        assert!(delivery.data::<serde_json::Value>().is_err());
    }

    #[test]
    fn the_unsigned_header_never_wins() {
        let body = br#"{"event":"extraction.failed"}"#;
        let header = |value: &str| verified(body).with_event_header(value).into_delivery().unwrap();
        assert_eq!(*header("extraction.failed").header_event(), HeaderEvent::Same);
        let changed = header("extraction.completed");
        assert_eq!(*changed.event(), ExtractionEvent::Failed);
        assert_eq!(*changed.header_event(), HeaderEvent::Different("extraction.completed".into()));

        let silent = verified(b"{}").with_event_header("extraction.failed").into_delivery();
        let silent = silent.unwrap();
        assert_eq!(*silent.event(), ExtractionEvent::Failed);
        assert_eq!(*silent.header_event(), HeaderEvent::Only);

        // A replay could choose the event, and with it the key.
        let key = |event| {
            let replay = verified(br#"{"id":"5b2e"}"#).with_event_header(event).into_delivery();
            replay.unwrap().key()
        };
        assert_eq!(key("extraction.failed"), key("extraction.completed"));
    }

    #[test]
    fn what_is_no_delivery_is_said_without_its_content() {
        for (body, error) in [
            (&b"hush"[..], EnvelopeError::NotJson { line: 1, column: 1 }),
            (b"", EnvelopeError::NotJson { line: 1, column: 0 }),
            (b"{\"event\":\n\"hush", EnvelopeError::NotJson { line: 2, column: 5 }),
            (b"\"hush\"", EnvelopeError::NotAnObject),
            (b"17", EnvelopeError::NotAnObject),
            (b" []", EnvelopeError::NotAnObject),
            (br#"["extraction.failed",null,"5b2e",null,{}]"#, EnvelopeError::NotAnObject),
            (br#"{"event":"a","event":"b"}"#, EnvelopeError::RepeatedField),
            (br#"{"id":"hush"}"#, EnvelopeError::NoEvent),
            (br#"{"event":{"hush":1}}"#, EnvelopeError::NoEvent),
        ] {
            assert_eq!(parse(body).unwrap_err(), error);
        }
        let delivery = parse(br#"{"event":"e","data":"hush"}"#).unwrap();
        let error = delivery.data::<u8>().unwrap_err();
        assert!(!format!("{error} {error:?} {delivery:?}").contains("hush"));
        assert!(format!("{}", error.detail()).contains("hush"));
    }

    #[test]
    fn age() {
        let delivery = parse(br#"{"event":"e","created":"2026-03-01T00:10:00Z"}"#).unwrap();
        let at = |text: &str| Timestamp::parse(text).unwrap();
        let max = Duration::from_secs(300);
        assert_eq!(delivery.check_age(at("2026-03-01T00:15:00Z"), max), Ok(()));
        assert_eq!(delivery.check_age(at("2026-03-01T00:15:00.001Z"), max), Err(AgeError::TooOld));
        assert_eq!(delivery.check_age(at("2026-03-01T00:05:00Z"), max), Ok(()));
        assert_eq!(delivery.check_age(at("2026-03-01T00:04:59Z"), max), Err(AgeError::InTheFuture));

        // What says nothing about its age is as good as too old.
        for created in
            ["1772357400", "\"10000-01-01T00:00:00Z\"", "\"+10000-01-01T00:00:00Z\"", "\"\""]
        {
            let body = format!(r#"{{"event":"e","created":{created}}}"#);
            let undated = parse(body.as_bytes()).unwrap();
            assert_eq!(undated.check_age(at("2026-03-01T00:00:00Z"), max), Err(AgeError::Unknown));
        }
        // Clocks that are off by all there is.
        let of = |created: &str, now, max| {
            let body = format!(r#"{{"event":"e","created":"{created}"}}"#);
            parse(body.as_bytes()).unwrap().check_age(Timestamp::from_unix_millis(now), max)
        };
        let (first, last) = ("0000-01-01T00:00:00+23:59", "9999-12-31T23:59:60-23:59");
        assert_eq!(of(first, i64::MAX, max), Err(AgeError::TooOld));
        assert_eq!(of(last, i64::MIN, max), Err(AgeError::InTheFuture));
        assert_eq!(of(last, 0, Duration::ZERO), Err(AgeError::InTheFuture));
        for created in [first, last] {
            assert_eq!(of(created, i64::MIN, Duration::MAX), Ok(()));
            assert_eq!(of(created, i64::MAX, Duration::MAX), Ok(()));
        }
    }
}
