//! The scopes of API keys.

use svc_sdk::Scope;
#[cfg(feature = "server")]
use svc_sdk::Service;

/// All scopes of the email service.
pub(crate) const EMAIL_SCOPES: [Scope; 5] = [
    Scope::EmailsSend,
    Scope::EmailsRead,
    Scope::ContactsManage,
    Scope::DomainsManage,
    Scope::WebhooksManage,
];

/// The scopes of a service.
#[cfg(feature = "server")]
pub(crate) fn scopes(service: Service) -> &'static [Scope] {
    match service {
        Service::Email => &EMAIL_SCOPES,
        _ => &[Scope::Full, Scope::ExtractOnly],
    }
}

/// The scopes of a service with these names, each once, or the index of a name that is none.
#[cfg(feature = "server")]
pub(crate) fn scopes_of(service: Service, names: &[impl AsRef<str>]) -> Result<Vec<Scope>, usize> {
    let mut found = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let scope =
            scopes(service).iter().find(|known| known.as_str() == name.as_ref()).ok_or(index)?;
        if !found.contains(scope) {
            found.push(*scope);
        }
    }
    Ok(found)
}

/// The scopes of a key that may do everything.
#[cfg(feature = "server")]
pub(crate) fn all_scopes(service: Service) -> Vec<Scope> {
    match service {
        Service::Email => EMAIL_SCOPES.to_vec(),
        _ => vec![Scope::Full],
    }
}
