//! The scopes of API keys of both services.

use std::str::FromStr;

use crate::names::named_enum;

named_enum! {
    /// A scope of an API key: a permission to call certain operations.
    ///
    /// The scopes of the
    /// [email service](https://github.com/svc-tools/svc/blob/main/docs/email-service/README.md#authentication-and-scopes) and of
    /// the [extraction service](https://github.com/svc-tools/svc/blob/main/docs/extraction-service/README.md#authentication-and-scopes).
    /// `Display` and `FromStr` use the documented text, such as `emails:send`.
    pub enum Scope {
        /// `emails:send`
        EmailsSend = "emails:send",
        /// `emails:read`
        EmailsRead = "emails:read",
        /// `contacts:manage`
        ContactsManage = "contacts:manage",
        /// `domains:manage`
        DomainsManage = "domains:manage",
        /// `webhooks:manage`
        WebhooksManage = "webhooks:manage",
        /// `full`: all operations of the extraction service.
        Full = "full",
        /// `extract_only`: only submit extractions and read their results.
        ExtractOnly = "extract_only",
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
        Self::ALL
            .iter()
            .copied()
            .find(|scope| scope.as_str() == text)
            .ok_or(UnknownScope)
    }
}
