//! A verified delivery with its envelope parsed.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;
use core::ops::Range;
use core::time::Duration;

use serde::Deserialize;

use crate::envelope::Envelope;
use crate::{
    AgeError, BodyBytes, DeliveryKey, EnvelopeError, JsonError, Scheme, Tag, Timestamp, Verified,
};

/// A verified delivery with its envelope parsed: event, id, creation time and data.
///
/// A `Delivery` exists only for a body whose signature was verified, so code
/// that takes one cannot be reached by a forged request. Get one from a
/// framework adapter through `Receiver`, or from
/// [`Verified::into_delivery`].
///
/// Only the event name is required. If a header that you configured names it, the body
/// may be any JSON, such as an array. An unknown event is kept by name
/// ([`Unknown`](crate::ExtractionEvent::Unknown)), and unknown fields are
/// available through [`json`](Self::json).
///
/// The bodies are described in `docs/extraction-service/events.md` and
/// `docs/email-service/events.md`.
///
/// ```
/// use serde::Deserialize;
/// use webhook_verify::{MailEvent, MailVerifier, Secret};
///
/// #[derive(Deserialize)]
/// struct Data {
///     recipient: String,
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let secret = Secret::new("whsec_3f1c")?;
/// let body = r#"{"event":"email.bounced","id":"7c0e","data":{"recipient":"ada@example.test"}}"#;
/// # let header = webhook_verify::MailSigner::new(&secret).sign(body).to_string();
/// let delivery = MailVerifier::new(secret).verify(&header, body)?.into_delivery()?;
///
/// assert_eq!(*delivery.event(), MailEvent::Bounced);
/// assert_eq!(delivery.id(), Some("7c0e"));
/// assert_eq!(delivery.data::<Data>()?.recipient, "ada@example.test");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Delivery<S: Scheme, B> {
    verified: Verified<S, B>,
    event: S::Event,
    header_event: HeaderEvent,
    id: Option<Box<str>>,
    created: Option<Box<str>>,
    /// Position of `data` in the body.
    data: Option<Range<usize>>,
}

/// How the event name in the request's headers compares with the event name in
/// the body. The signature covers the body only.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderEvent {
    /// The request has no event header, or none was passed in.
    Absent,
    /// The header and the body name the same event.
    Same,
    /// The header names a different event, so it was changed in transit.
    /// [`Delivery::event`] is the body's event.
    Different(Box<str>),
    /// The body names no event, and the header was configured as a fallback
    /// with `Receiver::event_header` or [`Verified::with_event_header`].
    /// [`Delivery::event`] is the header's event, which is **not signed**.
    Fallback,
}

impl<S: Scheme, B: BodyBytes> Delivery<S, B> {
    pub(crate) fn parse(verified: Verified<S, B>) -> Result<Self, EnvelopeError> {
        let body = verified.body();
        let envelope = match Envelope::parse(body) {
            // The header names the event of any JSON.
            Err(EnvelopeError::NotAnObject)
                if verified.event_header().is_some() && verified.event_header_is_fallback() =>
            {
                Envelope::default()
            }
            envelope => envelope?,
        };

        let in_body = envelope.event();
        let in_header = verified.event_header().map(String::from_utf8_lossy);
        let header_is_fallback = verified.event_header_is_fallback();
        let (event, header_event) = match (in_body, in_header) {
            (Some(event), None) => (event, HeaderEvent::Absent),
            (Some(event), Some(header)) if header == event => (event, HeaderEvent::Same),
            (Some(event), Some(header)) => (event, HeaderEvent::Different(header.into())),
            (None, Some(header)) if header_is_fallback => {
                (header.into_owned(), HeaderEvent::Fallback)
            }
            (None, _) => return Err(EnvelopeError::MissingEvent),
        };

        Ok(Self {
            event: S::Event::from(&event),
            header_event,
            id: envelope.id().map(Into::into),
            created: envelope.created().map(Into::into),
            data: envelope.data().map(|data| range_in(data, body)),
            verified,
        })
    }

    /// The event, taken from the signed body.
    ///
    /// Dispatch on this and not on a header. The one exception is
    /// [`HeaderEvent::Fallback`].
    pub fn event(&self) -> &S::Event {
        &self.event
    }

    /// How the unsigned event header compares with the body.
    pub fn header_event(&self) -> &HeaderEvent {
        &self.header_event
    }

    /// The delivery's `id`. All retries of a delivery have the same `id`.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// The key that identifies this delivery and all its retries.
    ///
    /// The key includes the event: if a sender used the id of the email as the
    /// delivery's `id`, the events of one email would still have different keys
    /// (`docs/undocumented/email-service.md#delivery-payload`).
    pub fn key(&self) -> DeliveryKey {
        let Some(id) = self.id().filter(|id| !id.is_empty()) else { return self.verified.key() };
        // An unsigned event must not be part of the key: a replay could change it.
        let event = match self.header_event {
            HeaderEvent::Fallback => "",
            _ => self.event.as_ref(),
        };
        DeliveryKey::from_event_and_id::<S>(event, id)
    }

    /// The `created` field as it was received.
    pub fn created(&self) -> Option<&str> {
        self.created.as_deref()
    }

    /// The `created` field as a point in time, if it is an ISO 8601 date-time.
    /// Without an offset it is taken as UTC.
    pub fn created_at(&self) -> Option<Timestamp> {
        self.created().and_then(Timestamp::parse)
    }

    /// Checks that the signed `created` time is at most `max_age` before or
    /// after `now`.
    ///
    /// This limits how long a captured delivery can be replayed. Within
    /// `max_age`, only de-duplication prevents a replay. Choose a `max_age`
    /// longer than the period over which the sender retries, or late retries
    /// are rejected.
    ///
    /// # Errors
    ///
    /// [`AgeError`] if `created` is missing or unreadable, or outside the range.
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

    /// Deserializes the `data` field into your own type. A missing `data` is
    /// read as `null`.
    ///
    /// # Errors
    ///
    /// [`JsonError`] if `data` does not deserialize into `T`.
    pub fn data<'a, T: Deserialize<'a>>(&'a self) -> Result<T, JsonError> {
        serde_json::from_str(self.data_json()).map_err(JsonError::new)
    }

    /// The JSON text of the `data` field exactly as received, or `null` if the
    /// delivery has none.
    pub fn data_json(&self) -> &str {
        self.data
            .clone()
            .and_then(|data| self.body().get(data))
            .and_then(|data| core::str::from_utf8(data).ok())
            .unwrap_or("null")
    }

    /// Deserializes the whole body into your own type.
    ///
    /// # Errors
    ///
    /// [`JsonError`] if the body does not deserialize into `T`.
    pub fn json<'a, T: Deserialize<'a>>(&'a self) -> Result<T, JsonError> {
        self.verified.json()
    }

    /// The exact bytes of the body.
    pub fn body(&self) -> &[u8] {
        self.verified.body()
    }

    /// The verified signature's tag. Byte-identical bodies have the same tag.
    pub fn tag(&self) -> Tag {
        self.verified.tag()
    }

    /// Index of the secret that produced the signature. 0 is the newest.
    pub fn matched_secret(&self) -> usize {
        self.verified.matched_secret()
    }

    /// The verified body that this delivery was parsed from.
    pub fn verified(&self) -> &Verified<S, B> {
        &self.verified
    }

    /// Returns the body that was passed to the verification.
    pub fn into_body(self) -> B {
        self.verified.into_body()
    }

    pub(crate) fn data_range(&self) -> Option<Range<usize>> {
        self.data.clone()
    }
}

/// Shows event, id, creation time and size, and no other content.
impl<S: Scheme, B: BodyBytes> fmt::Debug for Delivery<S, B> {
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

/// The range of `part` within `body`, of which it is a slice.
pub(crate) fn range_in(part: &str, body: &[u8]) -> Range<usize> {
    let start = part.as_ptr().addr() - body.as_ptr().addr();
    start..start + part.len()
}

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned;
    use alloc::format;

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
    fn parses_the_documented_envelope() {
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
    fn keeps_undocumented_values() {
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

    /// A sender that could produce another delivery's key could have that
    /// delivery dropped as a duplicate. Stores keep keys for days, so keys must
    /// stay short.
    #[test]
    #[cfg_attr(miri, ignore = "takes minutes under Miri, and the code is safe Rust")]
    fn keys_are_unique_and_bounded() {
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
    fn handles_unusual_and_invalid_json() {
        for (body, error) in [
            (r#"{"event":"a","\u0065vent":"b"}"#, EnvelopeError::DuplicateField),
            (r#"{"event":"a","id":"1","id":"1"}"#, EnvelopeError::DuplicateField),
            (r#"{"event":"a","created":1,"created":2}"#, EnvelopeError::DuplicateField),
            (r#"{"event":"a","data":1,"data":null}"#, EnvelopeError::DuplicateField),
            (r#"{"type":"a","type":"a"}"#, EnvelopeError::DuplicateField),
            (r#"{"event":"\ud800"}"#, EnvelopeError::MissingEvent),
            (r#"{"event":"a"}{}"#, EnvelopeError::NotJson { line: 1, column: 14 }),
            ("\u{feff}{}", EnvelopeError::NotJson { line: 1, column: 1 }),
        ] {
            assert_eq!(parse(body.as_bytes()).unwrap_err(), error, "{body}");
        }
        // `event` takes precedence over `type`.
        let both = parse(br#"{"type":"extraction.failed","event":"e"}"#).unwrap();
        assert_eq!(both.event().as_str(), "e");

        // Numbers out of range, and an unpaired surrogate.
        let odd = parse(br#"{"event":"e","id":1e999999999,"data":-1e999,"created":"\udc00"}"#);
        let odd = odd.unwrap();
        assert_eq!((odd.id(), odd.data_json()), (Some("1e999999999"), "-1e999"));
        assert_eq!(odd.created(), None);
        assert!(odd.data::<f64>().is_err() && odd.json::<serde_json::Value>().is_err());

        // Nesting that would overflow the stack of a recursive parser.
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
    fn the_body_takes_precedence_over_the_unsigned_header() {
        let body = br#"{"event":"extraction.failed"}"#;
        let header = |value: &str| verified(body).with_event_header(value).into_delivery().unwrap();
        assert_eq!(*header("extraction.failed").header_event(), HeaderEvent::Same);
        let changed = header("extraction.completed");
        assert_eq!(*changed.event(), ExtractionEvent::Failed);
        assert_eq!(*changed.header_event(), HeaderEvent::Different("extraction.completed".into()));

        let fallback = verified(b"{}").with_event_header("extraction.failed").into_delivery();
        let fallback = fallback.unwrap();
        assert_eq!(*fallback.event(), ExtractionEvent::Failed);
        assert_eq!(*fallback.header_event(), HeaderEvent::Fallback);

        // Otherwise a replay could choose the event, and with it the key.
        let key = |event| {
            let replay = verified(br#"{"id":"5b2e"}"#).with_event_header(event).into_delivery();
            replay.unwrap().key()
        };
        assert_eq!(key("extraction.failed"), key("extraction.completed"));
    }

    #[test]
    fn errors_reveal_no_content() {
        for (body, error) in [
            (&b"hush"[..], EnvelopeError::NotJson { line: 1, column: 1 }),
            (b"", EnvelopeError::NotJson { line: 1, column: 0 }),
            (b"{\"event\":\n\"hush", EnvelopeError::NotJson { line: 2, column: 5 }),
            (b"\"hush\"", EnvelopeError::NotAnObject),
            (b"17", EnvelopeError::NotAnObject),
            (b" []", EnvelopeError::NotAnObject),
            (br#"["extraction.failed",null,"5b2e",null,{}]"#, EnvelopeError::NotAnObject),
            (br#"{"event":"a","event":"b"}"#, EnvelopeError::DuplicateField),
            (br#"{"id":"hush"}"#, EnvelopeError::MissingEvent),
            (br#"{"event":{"hush":1}}"#, EnvelopeError::MissingEvent),
        ] {
            assert_eq!(parse(body).unwrap_err(), error);
        }
        let delivery = parse(br#"{"event":"e","data":"hush"}"#).unwrap();
        let error = delivery.data::<u8>().unwrap_err();
        assert!(!format!("{error} {error:?} {delivery:?}").contains("hush"));
        assert!(format!("{}", error.detail()).contains("hush"));
    }

    #[test]
    fn checks_the_age() {
        let delivery = parse(br#"{"event":"e","created":"2026-03-01T00:10:00Z"}"#).unwrap();
        let at = |text: &str| Timestamp::parse(text).unwrap();
        let max = Duration::from_secs(300);
        assert_eq!(delivery.check_age(at("2026-03-01T00:15:00Z"), max), Ok(()));
        assert_eq!(delivery.check_age(at("2026-03-01T00:15:00.001Z"), max), Err(AgeError::TooOld));
        assert_eq!(delivery.check_age(at("2026-03-01T00:05:00Z"), max), Ok(()));
        assert_eq!(delivery.check_age(at("2026-03-01T00:04:59Z"), max), Err(AgeError::InTheFuture));

        // A delivery of unknown age is rejected.
        for created in
            ["1772357400", "\"10000-01-01T00:00:00Z\"", "\"+10000-01-01T00:00:00Z\"", "\"\""]
        {
            let body = format!(r#"{{"event":"e","created":{created}}}"#);
            let undated = parse(body.as_bytes()).unwrap();
            assert_eq!(undated.check_age(at("2026-03-01T00:00:00Z"), max), Err(AgeError::Unknown));
        }
        // Extreme clock values.
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
