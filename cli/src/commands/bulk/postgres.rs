//! Connections to the PostgreSQL server of a ledger, with the TLS of the program.

use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::ConfigVerifierExt as _;
use svc_bulk::deadpool_postgres::tokio_postgres::Config;
use svc_bulk::deadpool_postgres::{Manager, Pool};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::context::Context;
use crate::failure::Failure;

/// Connections of one process: more senders than these wait for each other.
const CONNECTIONS: usize = 8;

/// The connections to the server at this URL, none of which is open yet.
pub fn pool(context: &Context, url: &str) -> Result<Pool, Failure> {
    // The error of the parser may quote a password.
    let mut config = url.parse::<Config>().map_err(|_| {
        Failure::usage("--ledger: not the URL of a PostgreSQL database")
            .hint("such as postgres://USER:PASSWORD@HOST/DATABASE?sslmode=require")
    })?;
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(Duration::from_secs(10));
    }
    config.keepalives_idle(Duration::from_secs(15));
    let manager = Manager::new(config, MakeRustlsConnect::new(tls(context)?));
    Pool::builder(manager)
        .max_size(CONNECTIONS)
        .build()
        .map_err(|error| Failure::other(error.to_string()))
}

fn tls(context: &Context) -> Result<ClientConfig, Failure> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let failed = |error: &dyn std::fmt::Display| Failure::other(format!("TLS: {error}"));
    let Some(pem) = context.clients.ca_bundle()? else {
        return ClientConfig::with_platform_verifier().map_err(|error| failed(&error));
    };

    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| failed(&error))?;
        roots.add(certificate).map_err(|error| failed(&error))?;
    }

    Ok(ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth())
}
