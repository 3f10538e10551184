//! The table of operations: every documented operation of both services with its method,
//! path, required scope, and whether it is idempotent.

use std::fmt;

use http::Method;

use crate::scope::Scope;

/// One of the two services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Service {
    /// The email-sending service.
    Email,
    /// The document-extraction service.
    Extraction,
}

impl Service {
    /// Both services.
    pub const ALL: &'static [Self] = &[Self::Email, Self::Extraction];

    /// The service's short name: `email` or `extraction`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Email => "email",
            Self::Extraction => "extraction",
        }
    }

    /// What the paths of all operations start with.
    pub(crate) const fn path_prefix(self) -> &'static str {
        match self {
            Self::Email => "/api/v1",
            Self::Extraction => "/v1",
        }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The scope that an operation requires, according to the service's reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ScopeRule {
    /// The key must have this scope.
    Needs(Scope),
    /// Any key of the service may call the operation.
    AnyKey,
    /// The service's reference does not name the scope, as for `emails.cancel`.
    NotDocumented,
}

/// A documented operation of one of the two services.
///
/// New operations may be added, so a `match` needs a wildcard arm. To find the places that
/// have to handle a new operation, let a test iterate over [`ALL`](Self::ALL).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Operation {
    /// `me`: `GET /v1/me`
    Me,
    /// `webhooks.create`: `POST /v1/webhooks`
    ExtractionWebhooksCreate,
    /// `webhooks.list`: `GET /v1/webhooks`
    ExtractionWebhooksList,
    /// `webhooks.delete`: `DELETE /v1/webhooks/{id}`
    ExtractionWebhooksDelete,
    /// `audiences.create`: `POST /api/v1/audiences`
    AudiencesCreate,
    /// `audiences.list`: `GET /api/v1/audiences`
    AudiencesList,
    /// `audiences.get`: `GET /api/v1/audiences/{id}`
    AudiencesGet,
    /// `audiences.delete`: `DELETE /api/v1/audiences/{id}`
    AudiencesDelete,
    /// `contacts.create`: `POST /api/v1/audiences/{audienceId}/contacts`
    ContactsCreate,
    /// `contacts.list`: `GET /api/v1/audiences/{audienceId}/contacts`
    ContactsList,
    /// `contacts.update`: `PATCH /api/v1/contacts/{contactId}`
    ContactsUpdate,
    /// `contacts.delete`: `DELETE /api/v1/contacts/{contactId}`
    ContactsDelete,
    /// `domains.list`: `GET /api/v1/domains`
    DomainsList,
    /// `domains.create`: `POST /api/v1/domains`
    DomainsCreate,
    /// `domains.verify`: `POST /api/v1/domains/{id}/verify`
    DomainsVerify,
    /// `domains.delete`: `DELETE /api/v1/domains/{id}`
    DomainsDelete,
    /// `emails.send`: `POST /api/v1/emails`
    EmailsSend,
    /// `emails.send_batch`: `POST /api/v1/emails/batch`
    EmailsSendBatch,
    /// `emails.get`: `GET /api/v1/emails/{id}`
    EmailsGet,
    /// `emails.cancel`: `PATCH /api/v1/emails/{id}/cancel`
    EmailsCancel,
    /// `webhooks.create`: `POST /api/v1/webhooks`
    WebhooksCreate,
    /// `webhooks.list`: `GET /api/v1/webhooks`
    WebhooksList,
    /// `webhooks.update`: `PATCH /api/v1/webhooks/{id}`
    WebhooksUpdate,
    /// `webhooks.delete`: `DELETE /api/v1/webhooks/{id}`
    WebhooksDelete,
    /// `webhooks.test`: `POST /api/v1/webhooks/{id}/test`
    WebhooksTest,
}

impl Operation {
    /// All operations, in the order of `tests/contract/operations.tsv`.
    pub const ALL: &'static [Self] = &[
        Self::Me,
        Self::ExtractionWebhooksCreate,
        Self::ExtractionWebhooksList,
        Self::ExtractionWebhooksDelete,
        Self::AudiencesCreate,
        Self::AudiencesList,
        Self::AudiencesGet,
        Self::AudiencesDelete,
        Self::ContactsCreate,
        Self::ContactsList,
        Self::ContactsUpdate,
        Self::ContactsDelete,
        Self::DomainsList,
        Self::DomainsCreate,
        Self::DomainsVerify,
        Self::DomainsDelete,
        Self::EmailsSend,
        Self::EmailsSendBatch,
        Self::EmailsGet,
        Self::EmailsCancel,
        Self::WebhooksCreate,
        Self::WebhooksList,
        Self::WebhooksUpdate,
        Self::WebhooksDelete,
        Self::WebhooksTest,
    ];

    /// The service that offers the operation.
    pub const fn service(self) -> Service {
        self.info().service
    }

    /// The operation's name within its service, such as `emails.send_batch`.
    pub const fn name(self) -> &'static str {
        self.info().name
    }

    /// The HTTP method.
    pub const fn method(self) -> &'static Method {
        self.info().method
    }

    /// The path template relative to the base URL, with parameters in braces.
    pub const fn path(self) -> &'static str {
        self.info().path
    }

    /// Which scope the operation requires.
    pub const fn scope_rule(self) -> ScopeRule {
        self.info().scope
    }

    /// The required scope. `None` if any key will do or the scope is not documented.
    pub const fn required_scope(self) -> Option<Scope> {
        match self.info().scope {
            ScopeRule::Needs(scope) => Some(scope),
            ScopeRule::AnyKey | ScopeRule::NotDocumented => None,
        }
    }

    /// Whether the operation is idempotent: performing it twice has the same effect as
    /// performing it once, so it is safe to retry after an ambiguous failure.
    ///
    /// Reads, deletions, updates, cancellations and domain verifications are idempotent.
    /// Operations that create or send something are not.
    pub const fn is_idempotent(self) -> bool {
        self.info().idempotent
    }

    /// Whether the operation creates a resource, so that its response must contain an id.
    pub(crate) fn creates(self) -> bool {
        self == Self::EmailsSend || self.name().ends_with(".create")
    }

    const fn info(self) -> OperationInfo {
        use Scope::{ContactsManage, DomainsManage, EmailsRead, EmailsSend, Full, WebhooksManage};
        use ScopeRule::{AnyKey, Needs, NotDocumented};
        use Service::{Email, Extraction};

        #[rustfmt::skip]
        let (service, name, method, path, scope, idempotent) = match self {
            Self::Me => (Extraction, "me", &Method::GET, "/v1/me", AnyKey, true),
            Self::ExtractionWebhooksCreate => (Extraction, "webhooks.create", &Method::POST, "/v1/webhooks", Needs(Full), false),
            Self::ExtractionWebhooksList => (Extraction, "webhooks.list", &Method::GET, "/v1/webhooks", Needs(Full), true),
            Self::ExtractionWebhooksDelete => (Extraction, "webhooks.delete", &Method::DELETE, "/v1/webhooks/{id}", Needs(Full), true),
            Self::AudiencesCreate => (Email, "audiences.create", &Method::POST, "/api/v1/audiences", Needs(ContactsManage), false),
            Self::AudiencesList => (Email, "audiences.list", &Method::GET, "/api/v1/audiences", Needs(ContactsManage), true),
            Self::AudiencesGet => (Email, "audiences.get", &Method::GET, "/api/v1/audiences/{id}", Needs(ContactsManage), true),
            Self::AudiencesDelete => (Email, "audiences.delete", &Method::DELETE, "/api/v1/audiences/{id}", Needs(ContactsManage), true),
            Self::ContactsCreate => (Email, "contacts.create", &Method::POST, "/api/v1/audiences/{audienceId}/contacts", Needs(ContactsManage), false),
            Self::ContactsList => (Email, "contacts.list", &Method::GET, "/api/v1/audiences/{audienceId}/contacts", Needs(ContactsManage), true),
            Self::ContactsUpdate => (Email, "contacts.update", &Method::PATCH, "/api/v1/contacts/{contactId}", Needs(ContactsManage), true),
            Self::ContactsDelete => (Email, "contacts.delete", &Method::DELETE, "/api/v1/contacts/{contactId}", Needs(ContactsManage), true),
            Self::DomainsList => (Email, "domains.list", &Method::GET, "/api/v1/domains", Needs(DomainsManage), true),
            Self::DomainsCreate => (Email, "domains.create", &Method::POST, "/api/v1/domains", Needs(DomainsManage), false),
            Self::DomainsVerify => (Email, "domains.verify", &Method::POST, "/api/v1/domains/{id}/verify", Needs(DomainsManage), true),
            Self::DomainsDelete => (Email, "domains.delete", &Method::DELETE, "/api/v1/domains/{id}", Needs(DomainsManage), true),
            Self::EmailsSend => (Email, "emails.send", &Method::POST, "/api/v1/emails", Needs(EmailsSend), false),
            Self::EmailsSendBatch => (Email, "emails.send_batch", &Method::POST, "/api/v1/emails/batch", Needs(EmailsSend), false),
            Self::EmailsGet => (Email, "emails.get", &Method::GET, "/api/v1/emails/{id}", Needs(EmailsRead), true),
            Self::EmailsCancel => (Email, "emails.cancel", &Method::PATCH, "/api/v1/emails/{id}/cancel", NotDocumented, true),
            Self::WebhooksCreate => (Email, "webhooks.create", &Method::POST, "/api/v1/webhooks", Needs(WebhooksManage), false),
            Self::WebhooksList => (Email, "webhooks.list", &Method::GET, "/api/v1/webhooks", Needs(WebhooksManage), true),
            Self::WebhooksUpdate => (Email, "webhooks.update", &Method::PATCH, "/api/v1/webhooks/{id}", Needs(WebhooksManage), true),
            Self::WebhooksDelete => (Email, "webhooks.delete", &Method::DELETE, "/api/v1/webhooks/{id}", Needs(WebhooksManage), true),
            Self::WebhooksTest => (Email, "webhooks.test", &Method::POST, "/api/v1/webhooks/{id}/test", Needs(WebhooksManage), false),
        };
        OperationInfo { service, name, method, path, scope, idempotent }
    }
}

/// Formats as the service and the operation's name, such as `email emails.send`.
impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.service(), self.name())
    }
}

#[derive(Clone, Copy)]
struct OperationInfo {
    service: Service,
    name: &'static str,
    method: &'static Method,
    path: &'static str,
    scope: ScopeRule,
    idempotent: bool,
}
