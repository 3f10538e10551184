//! TLS for deliveries to https URLs.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio_rustls::TlsConnector;

use crate::failure::Failure;

/// Trusts the platform's root certificates and those of `--ca-bundle`.
pub(super) fn connector(ca_bundle: Option<&[u8]>) -> Result<TlsConnector, Failure> {
    let extra = match ca_bundle {
        Some(pem) => CertificateDer::pem_slice_iter(pem)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| Failure::input("--ca-bundle: the file contains an invalid certificate"))?,
        None => Vec::new(),
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let failed = |error: rustls::Error| Failure::other(format!("cannot set up TLS: {error}"));
    let verifier =
        rustls_platform_verifier::Verifier::new_with_extra_roots(extra, Arc::clone(&provider))
            .map_err(failed)?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(failed)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
