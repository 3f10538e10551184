//! The organization and permissions of an API key.

use serde::{Deserialize, Serialize};

use crate::decode::{self, Extra, Resource, has_extra};
use crate::fields::Fields;

/// The organization and the authentication context of the API key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Me {
    /// The organization that the key belongs to.
    #[serde(deserialize_with = "decode::nested")]
    pub organization: Organization,
    /// How the request was authenticated.
    #[serde(deserialize_with = "decode::nested")]
    pub auth: Auth,
    /// The other fields of the response.
    #[serde(flatten)]
    pub extra: Extra,
}

/// An organization.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Organization {
    /// The organization's id.
    #[serde(deserialize_with = "decode::id")]
    pub id: String,
    /// The organization's name.
    pub name: String,
    /// The balance in cents. Live keys are billed against it.
    #[serde(
        deserialize_with = "decode::integer",
        skip_serializing_if = "Option::is_none"
    )]
    pub balance_cents: Option<i64>,
    /// The other fields of the response.
    #[serde(flatten)]
    pub extra: Extra,
}

/// How the request was authenticated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Auth {
    /// The method of authentication; `api_key` for an API key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The key's scope: `full` or `extract_only`. It can be parsed as a
    /// [`Scope`](crate::Scope).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// The key's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_id: Option<String>,
    /// The other fields of the response.
    #[serde(flatten)]
    pub extra: Extra,
}

has_extra!(Me, Organization, Auth);

impl Resource for Me {
    const NOUN: &'static str = "an organization";
    const KIND: &'static str = "me";
    const FIELDS: &'static [&'static str] = &["organization", "auth"];

    fn is_identified_by(fields: &Fields) -> bool {
        fields.contains_key("organization")
    }

    fn is_identified(&self) -> bool {
        !self.organization.id.is_empty()
    }
}
