//! The scopes of API keys.

use svc_sdk::Scope;

/// All scopes of the email service.
pub(crate) const EMAIL_SCOPES: [Scope; 5] = [
    Scope::EmailsSend,
    Scope::EmailsRead,
    Scope::ContactsManage,
    Scope::DomainsManage,
    Scope::WebhooksManage,
];
