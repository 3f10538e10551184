//! TLS for outgoing connections, with ring and the platform's certificate store.

use std::io;
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;

/// Trusts the certificates of the platform, which it loads, or, for a client that connects without
/// TLS, none.
pub(super) fn config(trusts_platform: bool) -> io::Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    let builder = match trusts_platform {
        true => builder.with_platform_verifier().map_err(io::Error::other)?,
        false => builder.with_root_certificates(RootCertStore::empty()),
    };
    Ok(builder.with_no_client_auth())
}
