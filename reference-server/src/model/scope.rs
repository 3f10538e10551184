//! The scopes of API keys.

use svc_sdk::Scope;
#[cfg(feature = "server")]
use {crate::model::error::ApiError, crate::model::nearest::did_you_mean, svc_sdk::Service};

/// All scopes of the email service.
pub(crate) const EMAIL_SCOPES: [Scope; 5] = [
    Scope::EmailsSend,
    Scope::EmailsRead,
    Scope::ContactsManage,
    Scope::DomainsManage,
    Scope::WebhooksManage,
];

/// The scopes of a service with these names, each once. The error for a name that is none suggests one.
#[cfg(feature = "server")]
pub(crate) fn scopes_of(
    service: Service,
    names: &[impl AsRef<str>],
) -> Result<Vec<Scope>, ApiError> {
    let known: &[Scope] = match service {
        Service::Email => &EMAIL_SCOPES,
        _ => &[Scope::Full, Scope::ExtractOnly],
    };
    let mut found = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let name = name.as_ref();
        let Some(scope) = known.iter().find(|known| known.as_str() == name) else {
            let meant = did_you_mean(name, known.iter().map(|known| known.as_str()));
            let message = format!("is not a scope of the {service} service{meant}");
            return Err(ApiError::field(format!("scopes[{index}]"), message));
        };
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
