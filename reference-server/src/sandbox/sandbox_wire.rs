//! The server as a whole.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_sdk::Dialect;

use crate::control::{Client, Endpoint, GET, POST, Request, requests};
use crate::model::Timestamp;

requests! {
    /// The state of the server.
    HEALTH: fn health() -> Health = Endpoint::new(
        GET,
        "sandboxHealthGet",
        "/_sandbox/health",
        "Get the status, the time and the addresses of the server",
    )
    .of_server();

    /// The server's content as a seed file in TOML. It holds the secrets of webhooks, and the keys
    /// that the server was started with.
    SEED: fn seed_file() -> Bytes = Endpoint::content(
        "sandboxSeedGet",
        "/_sandbox/seed",
        "Get what the server has as a seed file, with its secrets",
        "application/toml",
    )
    .of_server();
}

pub(crate) const LEASE: Endpoint<(), Bytes> = Endpoint::content(
    "sandboxLeaseKeep",
    "/_sandbox/lease",
    "Keep an embedded server running while this response is open",
    "text/plain",
)
.of_server();
pub(crate) const READY: Endpoint<(), Ready> = Endpoint::new(
    GET,
    "sandboxReadyzCheck",
    "/readyz",
    "Check whether the server is ready",
)
.of_server();
pub(crate) const RESET: Endpoint<Reset, ()> = Endpoint::new(
    POST,
    "sandboxReset",
    "/_sandbox/reset",
    "Reset an organization, or the whole server if none is given: delete its data",
)
.of_organization_or_server()
.optional_body();

/// The state of a server.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Health {
    /// `ok`
    #[schemars(extend("const" = "ok"))]
    pub status: String,
    /// The version of the server.
    pub version: String,
    /// The time of the server's clock.
    pub now: Timestamp,
    /// The addresses that the server listens on.
    pub addresses: HealthAddresses,
    /// The dialect that the server speaks.
    #[schemars(with = "BTreeMap<String, String>")]
    pub dialect: Dialect,
    /// When a delivery that failed is attempted again, by service.
    pub retry_delays_ms: RetryDelays,
    /// The number of jobs that were set aside since the start, because the server failed while it
    /// processed them. The log names them.
    pub set_aside: u64,
}

/// The delays between the attempts of a delivery, in milliseconds.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct RetryDelays {
    /// Delays of the email service.
    pub email: Vec<i64>,
    /// Delays of the extraction service.
    pub extraction: Vec<i64>,
}

/// The addresses that a server listens on.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Addresses")]
#[non_exhaustive]
pub struct HealthAddresses {
    /// The base URL of both services.
    pub http: Option<String>,
    /// The SMTP listener, if there is one.
    #[schemars(with = "Option<String>")]
    pub smtp: Option<SocketAddr>,
    /// The DNS server.
    #[schemars(with = "Option<String>")]
    pub dns: Option<SocketAddr>,
}

#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reset {
    pub(crate) organization: Option<String>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Ready {
    #[schemars(extend("const" = "ready"))]
    pub(crate) status: String,
}

impl Client {
    /// Deletes the data of an organization, whose keys stay valid.
    pub fn reset_organization(&self, id_or_name: impl Into<String>) -> Request<()> {
        self.send(
            &RESET,
            &[],
            &Reset {
                organization: Some(id_or_name.into()),
            },
        )
    }

    /// Deletes all data of the server, and restores the seed data.
    pub fn reset(&self) -> Request<()> {
        self.call(&RESET, &[])
    }
}
