//! The checks of `svc certify`, as a constant table: what is sent (`Variant`: a delivery by its
//! differences from a good one), what is expected, and how the responses are judged (`Judge`).
//! Names are stable, because `--only` and users' scripts use them. A check that is `advice` does
//! not fail a receiver. `exam.rs` makes requests of the variants, `judge.rs` decides.

use svc_sdk::Service;

use self::Body::{
    Another, Dated, Decoded, EachEvent, Formatted, Good, Half, NotUtf8, SortedKeys, Spaced,
    UnknownEvent, UnknownField,
};

/// A check of the receiver.
pub(super) struct Check {
    /// The stable name, for `--only`.
    pub(super) name: &'static str,
    /// Whether a receiver that does not pass works all the same, and could be more robust.
    pub(super) is_advice: bool,
    /// The services whose receivers it applies to.
    pub(super) services: &'static [Service],
    pub(super) sent: &'static str,
    pub(super) expected: &'static str,
    pub(super) variants: &'static [Variant],
    pub(super) judge: Judge,
}

/// How what comes back is judged.
#[derive(Clone, Copy, Debug)]
pub(super) enum Judge {
    /// Every request gets a 2xx response.
    Accepted,
    /// No request gets a 2xx response.
    Refused,
    /// The signature is not blamed for the encoding of the body.
    BytesVerified,
    Repeated,
    RevealsSignature,
}

/// A delivery, by its differences from a good one.
#[derive(Clone, Copy)]
pub(super) struct Variant {
    /// Tells it from the others of its check.
    pub(super) name: &'static str,
    pub(super) body: Body,
    /// What the signature covers, if it is not the body.
    pub(super) signed: Option<Body>,
    pub(super) key: Key,
    /// The signature headers. Each may contain `{prefix}` (of the service), `{digits}`,
    /// `{DIGITS}` (in upper case), `{8}`, `{32}` and `{63}` (the first digits), and `{zeros}` (64
    /// of them).
    pub(super) signatures: &'static [&'static str],
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    Good,
    /// One for each documented event.
    EachEvent,
    UnknownEvent,
    UnknownField,
    /// With white space, which a receiver that parses and writes it again does not preserve.
    Formatted,
    /// As Python writes it.
    Spaced,
    SortedKeys,
    /// With a text in ISO 8859-1.
    NotUtf8,
    /// The same, decoded with replacement characters.
    Decoded,
    Half,
    /// The signature of another delivery.
    Another,
    /// Created this number of days from now.
    Dated(i64),
}

/// The key that signs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Secret,
    Random,
    /// The key of a receiver whose configuration is missing.
    Empty,
}

impl Check {
    const fn only(self, services: &'static [Service]) -> Self {
        Self { services, ..self }
    }

    const fn advice(self) -> Self {
        Self {
            is_advice: true,
            ..self
        }
    }

    const fn judged(self, expected: &'static str, judge: Judge) -> Self {
        Self {
            expected,
            judge,
            ..self
        }
    }
}

const GOOD: Variant = Variant {
    name: "",
    body: Good,
    signed: None,
    key: Key::Secret,
    signatures: &["{prefix}{digits}"],
};

const fn body(body: Body) -> Variant {
    Variant { body, ..GOOD }
}

const fn signed(name: &'static str, body: Body, signed: Body) -> Variant {
    Variant {
        name,
        body,
        signed: Some(signed),
        ..GOOD
    }
}

const fn key(name: &'static str, key: Key) -> Variant {
    Variant { name, key, ..GOOD }
}

const fn with(name: &'static str, signatures: &'static [&'static str]) -> Variant {
    Variant {
        name,
        signatures,
        ..GOOD
    }
}

const fn accepts(name: &'static str, sent: &'static str, variants: &'static [Variant]) -> Check {
    let services = &[Service::Email, Service::Extraction];
    let (is_advice, judge) = (false, Judge::Accepted);
    let expected = "2xx within 10 s";
    Check {
        name,
        is_advice,
        services,
        sent,
        expected,
        variants,
        judge,
    }
}

const fn refuses(name: &'static str, sent: &'static str, variants: &'static [Variant]) -> Check {
    accepts(name, sent, variants).judged("a response other than 2xx", Judge::Refused)
}

/// Every check, in the order in which they run.
pub(super) const CHECKS: &[Check] = &[
    accepts(
        "good-delivery",
        "each documented event, correctly signed",
        &[body(EachEvent)],
    ),
    accepts(
        "unknown-event",
        "an event that is not documented",
        &[body(UnknownEvent)],
    ),
    accepts(
        "unknown-field",
        "fields that are not documented",
        &[body(UnknownField)],
    ),
    accepts(
        "formatted-body",
        "JSON with white space between the tokens",
        &[body(Formatted)],
    ),
    accepts(
        "body-not-utf8",
        "a correctly signed body that is not UTF-8",
        &[body(NotUtf8)],
    )
    .only(&[Service::Extraction])
    .judged(
        "2xx, or a 4xx status that does not blame the signature (401, 403)",
        Judge::BytesVerified,
    ),
    accepts(
        "repeated-delivery",
        "the same delivery twice, one after the other",
        &[GOOD],
    )
    .judged("2xx both times", Judge::Repeated),
    refuses("missing-signature", "no signature header", &[with("", &[])]),
    refuses(
        "empty-signature",
        "a signature header without digits",
        &[with("", &["{prefix}"])],
    ),
    refuses(
        "wrong-secret",
        "signatures made with a random secret, and with an empty one",
        &[
            key("a random secret", Key::Random),
            key("an empty secret", Key::Empty),
        ],
    ),
    refuses(
        "truncated-signature",
        "the first 8 digits of the signature, its first half, all but the last digit, and with \
         zeros after the first 8",
        &[
            with("8 digits", &["{prefix}{8}"]),
            with("half of the digits", &["{prefix}{32}"]),
            with("63 digits", &["{prefix}{63}"]),
            with(
                "zeros after 8 correct digits",
                &["{prefix}{8}00000000000000000000000000000000000000000000000000000000"],
            ),
        ],
    ),
    refuses(
        "extended-signature",
        "the correct signature with more digits or text after it, twice, and with a wrong one \
         before or after it in the same header",
        &[
            with("more digits", &["{prefix}{digits}00"]),
            with("text", &["{prefix}{digits}x"]),
            with("a parameter", &["{prefix}{digits};v=1"]),
            with(
                "twice, with a comma",
                &["{prefix}{digits},{prefix}{digits}"],
            ),
            with(
                "twice, with a space",
                &["{prefix}{digits} {prefix}{digits}"],
            ),
            with(
                "a wrong one after a comma",
                &["{prefix}{digits}, {prefix}{zeros}"],
            ),
            with(
                "a wrong one after a space",
                &["{prefix}{digits} {prefix}{zeros}"],
            ),
            with(
                "a wrong one before a comma",
                &["{prefix}{zeros},{prefix}{digits}"],
            ),
            with(
                "a wrong one before a space",
                &["{prefix}{zeros} {prefix}{digits}"],
            ),
        ],
    ),
    refuses(
        "changed-body",
        "the signature of another delivery",
        &[signed("", Good, Another)],
    ),
    refuses(
        "truncated-body",
        "half of the body that was signed",
        &[signed("", Half, Good)],
    ),
    refuses(
        "reserialized-body",
        "the signature of the same JSON in another notation",
        &[
            signed("without white space", Formatted, Good),
            signed("with spaces as Python writes it", Formatted, Spaced),
            signed("with sorted keys", Formatted, SortedKeys),
        ],
    ),
    refuses(
        "decoded-body",
        "a body that is not UTF-8, with the signature of its text with replacement characters",
        &[signed("", NotUtf8, Decoded)],
    ),
    refuses(
        "doubled-header",
        "two signature headers: a correct and a wrong one, in both orders, and a correct one twice",
        &[
            with(
                "the correct one first",
                &["{prefix}{digits}", "{prefix}{zeros}"],
            ),
            with(
                "the wrong one first",
                &["{prefix}{zeros}", "{prefix}{digits}"],
            ),
            with(
                "the correct one twice",
                &["{prefix}{digits}", "{prefix}{digits}"],
            ),
        ],
    ),
    refuses(
        "reveals-signature",
        "a signature made with another secret",
        &[key("", Key::Random)],
    )
    .judged(
        "a response that does not contain the correct signature",
        Judge::RevealsSignature,
    ),
    accepts(
        "upper-case-hex",
        "the signature in upper-case hex digits",
        &[with("", &["{prefix}{DIGITS}"])],
    )
    .advice(),
    refuses(
        "old-delivery",
        "a correctly signed delivery that was created a month ago",
        &[body(Dated(-31))],
    )
    .advice(),
    refuses(
        "future-delivery",
        "a correctly signed delivery that is dated a month ahead",
        &[body(Dated(31))],
    )
    .advice(),
];
