//! Whose key it is, and what it may do (`docs/extraction-service/organization.md`).

use crate::Scope;
use crate::decode::{record, text_enum};

record! {
    /// The organization and the scope of the key.
    pub struct Me {
        /// The organization that the key belongs to.
        pub organization: Organization = "organization";
        /// How the key was taken.
        pub auth: Auth = "auth";
    }
}

record! {
    /// An organization.
    pub struct Organization {
        /// The organization's id.
        pub id: String = "id";
        /// Its name.
        pub name: String = "name";
        /// The balance in cents; live keys bill against it.
        pub balance_cents: Option<i64> = "balance_cents";
    }
}

record! {
    /// How the key was taken.
    pub struct Auth {
        /// `api_key` for a key.
        pub method: Option<String> = "method";
        /// What the key may do.
        pub scope: Option<KeyScope> = "scope";
        /// The key's id.
        pub key_id: Option<String> = "key_id";
    }
}

text_enum! {
    /// The scope of an extraction key.
    pub enum KeyScope {
        /// Everything.
        Full = "full",
        /// Submit and read extractions only.
        ExtractOnly = "extract_only",
    }
}

impl KeyScope {
    /// The scope, where it is a documented one.
    pub fn scope(&self) -> Option<Scope> {
        match self {
            Self::Full => Some(Scope::Full),
            Self::ExtractOnly => Some(Scope::ExtractOnly),
            Self::Other(_) => None,
        }
    }
}
