//! TLS: the crypto provider, and the configuration of outgoing connections.

#[cfg(any(feature = "rustls", feature = "rustls-ring"))]
use std::io;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
#[cfg(any(feature = "rustls", feature = "rustls-ring"))]
use rustls::{ClientConfig, RootCertStore};
#[cfg(any(feature = "rustls", feature = "rustls-ring"))]
use rustls_platform_verifier::BuilderVerifierExt as _;

/// The provider of this crate's feature, or else the one that the process has installed. None is ever
/// installed here: that is the choice of the program.
pub(crate) fn provider() -> Option<Arc<CryptoProvider>> {
    #[cfg(feature = "rustls-ring")]
    return Some(Arc::new(rustls::crypto::ring::default_provider()));
    #[cfg(all(feature = "rustls", not(feature = "rustls-ring")))]
    return Some(Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
    #[cfg(not(any(feature = "rustls", feature = "rustls-ring")))]
    CryptoProvider::get_default().cloned()
}

pub(crate) const NO_PROVIDER: &str =
    "no TLS: enable the feature `rustls` or `rustls-ring` of svc-reference-server";

/// Trusts the certificates of the platform, which it loads, or, for a client that connects without
/// TLS, none.
#[cfg(any(feature = "rustls", feature = "rustls-ring"))]
pub(super) fn config(trusts_platform: bool) -> io::Result<ClientConfig> {
    let provider = provider().ok_or_else(|| io::Error::other(NO_PROVIDER))?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    let builder = if trusts_platform {
        builder.with_platform_verifier().map_err(io::Error::other)?
    } else {
        builder.with_root_certificates(RootCertStore::empty())
    };
    Ok(builder.with_no_client_auth())
}
