//! The webhooks of both services.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::control::{Endpoint, GET, requests};
use crate::model::Timestamp;

requests! {
    /// Lists the webhooks of both services with their secrets, oldest first.
    LIST: fn webhooks() -> Vec<Webhook> = Endpoint::new(
        GET,
        "sandboxWebhooksList",
        "/_sandbox/webhooks",
        "List the webhooks of both services with their secrets",
    );
}

/// A webhook of either service. The `Debug` output omits the secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SandboxWebhook")]
#[non_exhaustive]
pub struct Webhook {
    /// The ID, `whk_…`.
    pub id: String,
    /// `email` or `extraction`.
    #[schemars(extend("enum" = ["email", "extraction"]))]
    pub service: String,
    /// Where it delivers.
    pub url: String,
    /// The events that it subscribes to.
    pub events: Vec<String>,
    /// Whether it gets deliveries.
    pub active: bool,
    /// The signing secret.
    pub secret: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}
