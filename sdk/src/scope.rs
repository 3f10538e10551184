//! The scopes of API keys of both services.

use std::fmt;
use std::str::FromStr;

/// A scope of an API key: a permission to call certain operations.
///
/// The scopes of the
/// [email service](https://github.com/svc-tools/svc/blob/main/docs/email-service/scopes.md) and of
/// the [extraction service](https://github.com/svc-tools/svc/blob/main/docs/extraction-service/scopes.md).
/// `Display` and `FromStr` use the documented text, such as `emails:send`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Scope {
    /// `emails:send`
    EmailsSend,
    /// `emails:read`
    EmailsRead,
    /// `contacts:manage`
    ContactsManage,
    /// `domains:manage`
    DomainsManage,
    /// `webhooks:manage`
    WebhooksManage,
    /// `full`: all operations of the extraction service.
    Full,
    /// `extract_only`: only submit extractions and read their results.
    ExtractOnly,
}

impl Scope {
    /// All documented scopes of both services.
    pub const ALL: &'static [Self] = &[
        Self::EmailsSend,
        Self::EmailsRead,
        Self::ContactsManage,
        Self::DomainsManage,
        Self::WebhooksManage,
        Self::Full,
        Self::ExtractOnly,
    ];

    /// The documented text of the scope, such as `emails:send`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::EmailsSend => "emails:send",
            Self::EmailsRead => "emails:read",
            Self::ContactsManage => "contacts:manage",
            Self::DomainsManage => "domains:manage",
            Self::WebhooksManage => "webhooks:manage",
            Self::Full => "full",
            Self::ExtractOnly => "extract_only",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The error of parsing a text that is not a documented [`Scope`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a documented scope; the valid scopes are emails:send, emails:read, contacts:manage, \
     domains:manage, webhooks:manage, full, extract_only"
)]
#[non_exhaustive]
pub struct UnknownScope;

impl FromStr for Scope {
    type Err = UnknownScope;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.iter().copied().find(|scope| scope.as_str() == text).ok_or(UnknownScope)
    }
}
