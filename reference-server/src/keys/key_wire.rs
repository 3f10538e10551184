//! API keys in the control interface: the endpoints of `/_sandbox/keys`, their types, and the
//! methods of `Client`. A key of the email service has `scopes`, one of the extraction service one
//! `scope`. `Key` is also what `key_rows.rs` stores as JSON, without the secret. Only the response
//! to a creation has that, and `Debug` omits it. `key_api.rs` handles the requests.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_sdk::Service;

use crate::control::{CREATED, Client, DELETE, Endpoint, GET, POST, Request, requests};
use crate::model::{Timestamp, schema};

requests! {
    /// Lists the API keys of both services, without their secrets.
    LIST: fn keys() -> Vec<Key> = Endpoint::new(GET, "sandboxKeysList", "/_sandbox/keys", "List the keys");

    /// Revokes a key with immediate effect.
    REVOKE: fn revoke_key(id) -> () = Endpoint::new(
        DELETE,
        "sandboxKeysRevoke",
        "/_sandbox/keys/{id}",
        "Revoke a key",
    );
}

pub(crate) const CREATE: Endpoint<NewKey, Key> =
    Endpoint::new(POST, "sandboxKeysCreate", "/_sandbox/keys", "Create a key").responds(CREATED);

/// A key of the email service needs `scopes`, one of the extraction service `scope`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("examples" = [{"service": "email", "scopes": ["emails:send"]}]))]
#[schemars(rename = "CreateKey")]
pub struct NewKey {
    /// The organization, by ID or name. Default: that of the client; set it only on a client of none.
    pub organization: Option<String>,
    /// The service.
    pub service: KeyService,
    /// Scopes of the email service, such as `emails:send`.
    #[schemars(with = "Option<schema::EmailScopes>")]
    pub scopes: Option<Vec<String>>,
    /// The scope of a key of the extraction service.
    #[schemars(extend("enum" = ["full", "extract_only", null]))]
    pub scope: Option<String>,
    /// Default: `test`.
    pub mode: Option<KeyMode>,
}

/// The service of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum KeyService {
    /// The email service.
    Email,
    /// The extraction service.
    Extraction,
}

impl KeyService {
    pub(crate) const fn service(self) -> Service {
        match self {
            Self::Email => Service::Email,
            Self::Extraction => Service::Extraction,
        }
    }
}

/// Whether a key is a live or a test key
/// (`docs/undocumented/README.md#live-and-test-keys`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
#[non_exhaustive]
pub enum KeyMode {
    /// A live key.
    Live,
    /// A test key.
    #[default]
    Test,
}

names!(KeyMode);

impl NewKey {
    /// A key of the email service with these scopes, such as `emails:send`.
    pub fn email(scopes: impl IntoIterator<Item = impl ToString>) -> Self {
        let scopes = scopes.into_iter().map(|scope| scope.to_string()).collect();
        Self {
            scopes: Some(scopes),
            ..Self::of(KeyService::Email)
        }
    }

    /// A key of the extraction service with the scope `full` or `extract_only`.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "scopes and strings are passed alike"
    )]
    pub fn extraction(scope: impl ToString) -> Self {
        Self {
            scope: Some(scope.to_string()),
            ..Self::of(KeyService::Extraction)
        }
    }

    fn of(service: KeyService) -> Self {
        Self {
            organization: None,
            service,
            scopes: None,
            scope: None,
            mode: None,
        }
    }
}

/// An API key. The `Debug` output omits the key itself.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Key {
    /// The ID, `key_…`.
    pub id: String,
    /// `email` or `extraction`.
    #[schemars(extend("enum" = ["email", "extraction"]))]
    pub service: String,
    /// `live` or `test`.
    #[schemars(extend("enum" = ["live", "test"]))]
    pub mode: String,
    /// Null for a key of the extraction service.
    pub scopes: Option<Vec<String>>,
    /// Null for a key of the email service.
    pub scope: Option<String>,
    /// The key itself; null but in the response that creates it.
    pub key: Option<String>,
    /// The start of the key; null but in lists.
    pub hint: Option<String>,
    /// The SHA-256 of the key in hexadecimal, to recognize it; null but in lists.
    pub sha256: Option<String>,
    /// When it was created.
    pub created_at: Timestamp,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Creates a key. Only this response contains the key itself.
    pub fn create_key(&self, key: &NewKey) -> Request<Key> {
        self.send(&CREATE, &[], key)
    }
}
