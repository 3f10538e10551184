//! The table of operations: every documented operation of both services with its method,
//! path, required scope, and whether it is idempotent.

use std::fmt;

use http::Method;

use crate::names::named_enum;
use crate::scope::Scope;

named_enum! {
    /// One of the two services.
    pub enum Service {
        /// The email-sending service.
        Email = "email",
        /// The document-extraction service.
        Extraction = "extraction",
    }
}

impl Service {
    /// The beginning of the paths of all operations.
    pub(crate) const fn path_prefix(self) -> &'static str {
        match self {
            Self::Email => "/api/v1",
            Self::Extraction => "/v1",
        }
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

macro_rules! service_name {
    (Email) => {
        "email"
    };
    (Extraction) => {
        "extraction"
    };
}

/// Defines the operations from their table.
macro_rules! operations {
    ($($name:ident: $service:ident $text:literal $method:ident $path:literal $scope:expr, $idempotent:literal;)+) => {
        /// A documented operation of one of the two services.
        ///
        /// New operations may be added, so a `match` needs a wildcard arm. To find the places that
        /// have to handle a new operation, let a test iterate over [`ALL`](Self::ALL).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Operation {
            $(
                #[doc = concat!("`", $text, "`: `", stringify!($method), " ", $path, "`")]
                $name,
            )+
        }

        impl Operation {
            /// All operations, in the order of `tests/contract/operations.tsv`.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The service and the operation's name, such as `email emails.send`, which `Display`
            /// writes, too.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => concat!(service_name!($service), " ", $text),)+
                }
            }

            const fn info(self) -> OperationInfo {
                match self {
                    $(Self::$name => OperationInfo {
                        service: Service::$service,
                        name: $text,
                        method: &Method::$method,
                        path: $path,
                        scope: $scope,
                        idempotent: $idempotent,
                    },)+
                }
            }
        }
    };
}

use Scope::{ContactsManage, DomainsManage, EmailsRead, EmailsSend, Full, WebhooksManage};
use ScopeRule::{AnyKey, Needs, NotDocumented};

operations! {
    Me: Extraction "me" GET "/v1/me" AnyKey, true;
    ExtractionWebhooksCreate: Extraction "webhooks.create" POST "/v1/webhooks" Needs(Full), false;
    ExtractionWebhooksList: Extraction "webhooks.list" GET "/v1/webhooks" Needs(Full), true;
    ExtractionWebhooksDelete: Extraction "webhooks.delete" DELETE "/v1/webhooks/{id}" Needs(Full), true;
    AudiencesCreate: Email "audiences.create" POST "/api/v1/audiences" Needs(ContactsManage), false;
    AudiencesList: Email "audiences.list" GET "/api/v1/audiences" Needs(ContactsManage), true;
    AudiencesGet: Email "audiences.get" GET "/api/v1/audiences/{id}" Needs(ContactsManage), true;
    AudiencesDelete: Email "audiences.delete" DELETE "/api/v1/audiences/{id}" Needs(ContactsManage), true;
    ContactsCreate: Email "contacts.create" POST "/api/v1/audiences/{audienceId}/contacts" Needs(ContactsManage), false;
    ContactsList: Email "contacts.list" GET "/api/v1/audiences/{audienceId}/contacts" Needs(ContactsManage), true;
    ContactsUpdate: Email "contacts.update" PATCH "/api/v1/contacts/{contactId}" Needs(ContactsManage), true;
    ContactsDelete: Email "contacts.delete" DELETE "/api/v1/contacts/{contactId}" Needs(ContactsManage), true;
    DomainsList: Email "domains.list" GET "/api/v1/domains" Needs(DomainsManage), true;
    DomainsCreate: Email "domains.create" POST "/api/v1/domains" Needs(DomainsManage), false;
    DomainsVerify: Email "domains.verify" POST "/api/v1/domains/{id}/verify" Needs(DomainsManage), true;
    DomainsDelete: Email "domains.delete" DELETE "/api/v1/domains/{id}" Needs(DomainsManage), true;
    EmailsSend: Email "emails.send" POST "/api/v1/emails" Needs(EmailsSend), false;
    EmailsSendBatch: Email "emails.send_batch" POST "/api/v1/emails/batch" Needs(EmailsSend), false;
    EmailsGet: Email "emails.get" GET "/api/v1/emails/{id}" Needs(EmailsRead), true;
    EmailsCancel: Email "emails.cancel" PATCH "/api/v1/emails/{id}/cancel" NotDocumented, true;
    WebhooksCreate: Email "webhooks.create" POST "/api/v1/webhooks" Needs(WebhooksManage), false;
    WebhooksList: Email "webhooks.list" GET "/api/v1/webhooks" Needs(WebhooksManage), true;
    WebhooksUpdate: Email "webhooks.update" PATCH "/api/v1/webhooks/{id}" Needs(WebhooksManage), true;
    WebhooksDelete: Email "webhooks.delete" DELETE "/api/v1/webhooks/{id}" Needs(WebhooksManage), true;
    WebhooksTest: Email "webhooks.test" POST "/api/v1/webhooks/{id}/test" Needs(WebhooksManage), false;
}

impl Operation {
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
            Needs(scope) => Some(scope),
            AnyKey | NotDocumented => None,
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
}

/// Writes [`as_str`](Operation::as_str).
impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
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
