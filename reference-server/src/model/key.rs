//! [`Key`]: what an API key may do.

use svc_sdk::{Scope, Service};

use crate::model::error::Failure;
use crate::model::nearest::did_you_mean;
use crate::model::scope::EMAIL_SCOPES;

/// An API key without its secret.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) id: String,
    pub(crate) organization: i64,
    pub(crate) service: Service,
    pub(crate) scopes: Vec<Scope>,
}

/// The scopes of a service with these names, each once. The error for a name that is none suggests one.
pub(crate) fn scopes_of(
    service: Service,
    names: &[impl AsRef<str>],
) -> Result<Vec<Scope>, Failure> {
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
            return Err(Failure::field(format!("scopes[{index}]"), message));
        };
        if !found.contains(scope) {
            found.push(*scope);
        }
    }
    Ok(found)
}

/// The scopes of a key that may do everything.
pub(crate) fn all_scopes(service: Service) -> Vec<Scope> {
    match service {
        Service::Email => EMAIL_SCOPES.to_vec(),
        _ => vec![Scope::Full],
    }
}
