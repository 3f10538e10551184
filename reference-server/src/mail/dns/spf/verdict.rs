//! The result of an SPF evaluation (RFC 7208 §2.6).

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The result of an SPF evaluation (RFC 7208 §2.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SpfVerdict {
    /// The domain of the sender has no policy, or the address of the sending host is not known.
    None,
    /// The policy says nothing about the sending host.
    Neutral,
    /// The sending host may send for the domain.
    Pass,
    /// The sending host may not send for the domain.
    Fail,
    /// The sending host probably may not send for the domain.
    SoftFail,
    /// A lookup failed temporarily.
    TempError,
    /// The policy is invalid.
    PermError,
}

impl SpfVerdict {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Neutral => "neutral",
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::SoftFail => "softfail",
            Self::TempError => "temperror",
            Self::PermError => "permerror",
        }
    }
}

impl fmt::Display for SpfVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
