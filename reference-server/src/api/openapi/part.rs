//! [`Part`]: what a description covers.

/// The part of the server that a description covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    All,
    Email,
    Extraction,
    Control,
}

impl Part {
    pub(super) const ALL: [Self; 4] = [Self::All, Self::Email, Self::Extraction, Self::Control];

    pub(super) const fn path(self) -> &'static str {
        match self {
            Self::All => "/openapi.json",
            Self::Email => "/openapi/email.json",
            Self::Extraction => "/openapi/extraction.json",
            Self::Control => "/openapi/control.json",
        }
    }

    pub(super) fn includes(self, other: Self) -> bool {
        self == Self::All || self == other
    }
}
