//! The checks of `svc certify`, which `checks.json` lists: what is sent (`Variant`: a delivery by its
//! differences from a good one), what is expected, and how the responses are judged (`Judge`).
//! Names are stable, because `--only` and users' scripts use them. A check that is advice does
//! not fail a receiver. `exam.rs` makes requests of the variants, `judge.rs` decides.

use std::sync::LazyLock;

use serde::Deserialize;
use svc_sdk::Service;

/// The first check: without it, the others say little.
pub(super) const GOOD_DELIVERY: &str = "good-delivery";

/// Every check, in the order in which they run.
pub(super) static CHECKS: LazyLock<Vec<Check>> =
    LazyLock::new(|| serde_json::from_str(include_str!("checks.json")).expect("valid JSON"));

/// A check of the receiver.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Check {
    /// The stable name, for `--only`.
    pub(super) name: &'static str,
    pub(super) sent: &'static str,
    pub(super) expected: &'static str,
    pub(super) judge: Judge,
    /// The only service whose receivers it applies to.
    #[serde(borrow)]
    only: Option<&'static str>,
    /// Whether a receiver that does not pass works all the same, and could be more robust.
    #[serde(default)]
    pub(super) is_advice: bool,
    pub(super) variants: Vec<Variant>,
}

impl Check {
    /// Whether receivers of a service should pass it.
    pub(super) fn is_for(&self, service: Service) -> bool {
        self.only.is_none_or(|only| only == service.as_str())
    }
}

/// How what comes back is judged.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
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
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Variant {
    /// Tells it from the others of its check.
    pub(super) name: &'static str,
    pub(super) body: Body,
    /// The bytes that the signature covers, if it is not the body.
    pub(super) signed: Option<Body>,
    pub(super) key: Key,
    /// The signature headers. Each may contain `{prefix}` (of the service), `{digits}`,
    /// `{DIGITS}` (in upper case), `{8}`, `{32}` and `{63}` (the first digits), and `{zeros}` (64
    /// of them).
    #[serde(borrow)]
    pub(super) signatures: Vec<&'static str>,
}

impl Default for Variant {
    fn default() -> Self {
        Self {
            name: "",
            body: Body::Good,
            signed: None,
            key: Key::Secret,
            signatures: vec!["{prefix}{digits}"],
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Body {
    Good,
    /// One for each documented event.
    EachEvent,
    UnknownEvent,
    UnknownField,
    /// With white space, which a receiver that parses and writes it again does not preserve.
    Formatted,
    /// Spaces after `:` and `,`, as Python writes them.
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
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Key {
    Secret,
    Random,
    /// The key of a receiver whose configuration is missing.
    Empty,
}
