//! The table of operations: every documented operation of both services with its method,
//! path, required scope, and whether it is idempotent.

use std::fmt;

use crate::Scope;

/// One of the two services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Service {
    /// The email-sending service (`docs/email-service/README.md`).
    Email,
    /// The document-extraction service (`docs/extraction-service/README.md`).
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

/// The HTTP method of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Method {
    /// `GET`
    Get,
    /// `POST`
    Post,
    /// `PATCH`
    Patch,
    /// `DELETE`
    Delete,
}

impl Method {
    /// All methods that an operation uses.
    pub const ALL: &'static [Self] = &[Self::Get, Self::Post, Self::Patch, Self::Delete];

    /// The method's name in upper case, such as `GET`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

impl fmt::Display for Method {
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
    /// The service's reference does not name the scope (`emails.cancel`,
    /// `docs/undocumented/email-service.md#scope-of-cancel`).
    NotDocumented,
}

/// A documented operation of one of the two services.
///
/// New operations may be added, so a `match` needs a wildcard arm. To find the places that
/// have to handle a new operation, let a test iterate over [`ALL`](Self::ALL).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Operation {
    /// `GET /v1/me`
    Me,
    /// `POST /v1/webhooks`
    ExtractionWebhooksCreate,
    /// `GET /v1/webhooks`
    ExtractionWebhooksList,
    /// `DELETE /v1/webhooks/{id}`
    ExtractionWebhooksDelete,
    /// `POST /api/v1/audiences`
    AudiencesCreate,
    /// `GET /api/v1/audiences`
    AudiencesList,
    /// `GET /api/v1/audiences/{id}`
    AudiencesGet,
    /// `DELETE /api/v1/audiences/{id}`
    AudiencesDelete,
    /// `POST /api/v1/audiences/{audienceId}/contacts`
    ContactsCreate,
    /// `GET /api/v1/audiences/{audienceId}/contacts`
    ContactsList,
    /// `PATCH /api/v1/contacts/{contactId}`
    ContactsUpdate,
    /// `DELETE /api/v1/contacts/{contactId}`
    ContactsDelete,
    /// `GET /api/v1/domains`
    DomainsList,
    /// `POST /api/v1/domains`
    DomainsCreate,
    /// `POST /api/v1/domains/{id}/verify`
    DomainsVerify,
    /// `DELETE /api/v1/domains/{id}`
    DomainsDelete,
    /// `POST /api/v1/emails`
    EmailsSend,
    /// `POST /api/v1/emails/batch`
    EmailsSendBatch,
    /// `GET /api/v1/emails/{id}`
    EmailsGet,
    /// `PATCH /api/v1/emails/{id}/cancel`
    EmailsCancel,
    /// `POST /api/v1/webhooks`
    WebhooksCreate,
    /// `GET /api/v1/webhooks`
    WebhooksList,
    /// `PATCH /api/v1/webhooks/{id}`
    WebhooksUpdate,
    /// `DELETE /api/v1/webhooks/{id}`
    WebhooksDelete,
    /// `POST /api/v1/webhooks/{id}/test`
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
    pub const fn method(self) -> Method {
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
    pub(crate) const fn creates(self) -> bool {
        matches!(
            self,
            Self::ExtractionWebhooksCreate
                | Self::AudiencesCreate
                | Self::ContactsCreate
                | Self::DomainsCreate
                | Self::EmailsSend
                | Self::WebhooksCreate
        )
    }

    const fn info(self) -> OperationInfo {
        use Method::{Delete, Get, Patch, Post};
        use Scope::{ContactsManage, DomainsManage, EmailsRead, EmailsSend, Full, WebhooksManage};
        use ScopeRule::{AnyKey, Needs, NotDocumented};
        use Service::{Email, Extraction};

        #[rustfmt::skip]
        let (service, name, method, path, scope, idempotent) = match self {
            Self::Me => (Extraction, "me", Get, "/v1/me", AnyKey, true),
            Self::ExtractionWebhooksCreate => (Extraction, "webhooks.create", Post, "/v1/webhooks", Needs(Full), false),
            Self::ExtractionWebhooksList => (Extraction, "webhooks.list", Get, "/v1/webhooks", Needs(Full), true),
            Self::ExtractionWebhooksDelete => (Extraction, "webhooks.delete", Delete, "/v1/webhooks/{id}", Needs(Full), true),
            Self::AudiencesCreate => (Email, "audiences.create", Post, "/api/v1/audiences", Needs(ContactsManage), false),
            Self::AudiencesList => (Email, "audiences.list", Get, "/api/v1/audiences", Needs(ContactsManage), true),
            Self::AudiencesGet => (Email, "audiences.get", Get, "/api/v1/audiences/{id}", Needs(ContactsManage), true),
            Self::AudiencesDelete => (Email, "audiences.delete", Delete, "/api/v1/audiences/{id}", Needs(ContactsManage), true),
            Self::ContactsCreate => (Email, "contacts.create", Post, "/api/v1/audiences/{audienceId}/contacts", Needs(ContactsManage), false),
            Self::ContactsList => (Email, "contacts.list", Get, "/api/v1/audiences/{audienceId}/contacts", Needs(ContactsManage), true),
            Self::ContactsUpdate => (Email, "contacts.update", Patch, "/api/v1/contacts/{contactId}", Needs(ContactsManage), true),
            Self::ContactsDelete => (Email, "contacts.delete", Delete, "/api/v1/contacts/{contactId}", Needs(ContactsManage), true),
            Self::DomainsList => (Email, "domains.list", Get, "/api/v1/domains", Needs(DomainsManage), true),
            Self::DomainsCreate => (Email, "domains.create", Post, "/api/v1/domains", Needs(DomainsManage), false),
            Self::DomainsVerify => (Email, "domains.verify", Post, "/api/v1/domains/{id}/verify", Needs(DomainsManage), true),
            Self::DomainsDelete => (Email, "domains.delete", Delete, "/api/v1/domains/{id}", Needs(DomainsManage), true),
            Self::EmailsSend => (Email, "emails.send", Post, "/api/v1/emails", Needs(EmailsSend), false),
            Self::EmailsSendBatch => (Email, "emails.send_batch", Post, "/api/v1/emails/batch", Needs(EmailsSend), false),
            Self::EmailsGet => (Email, "emails.get", Get, "/api/v1/emails/{id}", Needs(EmailsRead), true),
            Self::EmailsCancel => (Email, "emails.cancel", Patch, "/api/v1/emails/{id}/cancel", NotDocumented, true),
            Self::WebhooksCreate => (Email, "webhooks.create", Post, "/api/v1/webhooks", Needs(WebhooksManage), false),
            Self::WebhooksList => (Email, "webhooks.list", Get, "/api/v1/webhooks", Needs(WebhooksManage), true),
            Self::WebhooksUpdate => (Email, "webhooks.update", Patch, "/api/v1/webhooks/{id}", Needs(WebhooksManage), true),
            Self::WebhooksDelete => (Email, "webhooks.delete", Delete, "/api/v1/webhooks/{id}", Needs(WebhooksManage), true),
            Self::WebhooksTest => (Email, "webhooks.test", Post, "/api/v1/webhooks/{id}/test", Needs(WebhooksManage), false),
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
    method: Method,
    path: &'static str,
    scope: ScopeRule,
    idempotent: bool,
}
