//! The organization and permissions of an API key
//! (`docs/extraction-service/organization.md`).

use crate::Scope;

use crate::client::{Resource, ResponseParts};
use crate::decode::{record, text_enum};

use crate::{Error, ErrorKind, Outcome, Scopes};

record! {
    /// The organization and the authentication context of the API key.
    pub struct Me {
        /// The organization that the key belongs to.
        pub organization: Organization = "organization";
        /// How the request was authenticated.
        pub auth: Auth = "auth";
    }
}

impl Resource for Me {
    const NOUN: &'static str = "an organization";

    fn is_identified(&self) -> bool {
        !self.organization.id.is_empty()
    }

    /// Remembers the key's scope, and compares the organization with the expected one.
    fn accept(self, response: &ResponseParts<'_>) -> Result<Self, Error> {
        if let Some(scope) = self.auth.scope.as_ref().and_then(KeyScope::scope) {
            response.learn_scopes(Scopes::NONE.with(scope));
        }
        match response.expected_organization() {
            Some(expected) if *expected != self.organization.id => {
                let kind = ErrorKind::wrong_organization(expected, self.organization.id);
                Err(response.error(kind, Outcome::Refused))
            }
            _ => Ok(self),
        }
    }
}

record! {
    /// An organization.
    pub struct Organization {
        /// The organization's id.
        pub id: String = "id";
        /// The organization's name.
        pub name: String = "name";
        /// The balance in cents. Live keys are billed against it.
        pub balance_cents: Option<i64> = "balance_cents";
    }
}

record! {
    /// How the request was authenticated.
    pub struct Auth {
        /// The method of authentication; `api_key` for an API key.
        pub method: Option<String> = "method";
        /// The key's scope.
        pub scope: Option<KeyScope> = "scope";
        /// The key's id.
        pub key_id: Option<String> = "key_id";
    }
}

text_enum! {
    /// The scope of an extraction key.
    pub enum KeyScope {
        /// All operations.
        Full = "full",
        /// Only submit extractions and read their results.
        ExtractOnly = "extract_only",
    }
}

impl KeyScope {
    /// The corresponding [`Scope`], if it is documented.
    pub fn scope(&self) -> Option<Scope> {
        match self {
            Self::Full => Some(Scope::Full),
            Self::ExtractOnly => Some(Scope::ExtractOnly),
            Self::Other(_) => None,
        }
    }
}
