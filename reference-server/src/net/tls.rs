//! TLS for outgoing connections, with ring and the platform's certificate store. Set up
//! once, when the first connection needs it.

use std::io;
use std::sync::{Arc, OnceLock};

use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};
use rustls_platform_verifier::BuilderVerifierExt;

/// Trusts the certificates of the platform, which are loaded once.
pub(crate) fn config() -> io::Result<ClientConfig> {
    static CONFIG: OnceLock<ClientConfig> = OnceLock::new();
    if let Some(config) = CONFIG.get() {
        return Ok(config.clone());
    }
    let config = builder()?.with_platform_verifier().map_err(io::Error::other)?;
    Ok(CONFIG.get_or_init(|| config.with_no_client_auth()).clone())
}

/// Trusts no certificate: for a client that connects without TLS.
pub(crate) fn without_certificates() -> io::Result<ClientConfig> {
    Ok(builder()?.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

fn builder() -> io::Result<ConfigBuilder<ClientConfig, WantsVerifier>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)
}
