//! TLS settings: which library to use and which certificates to trust.

use crate::error::Error;

#[derive(Clone, Debug)]
pub(crate) struct TlsChoice {
    /// Certificate bundles in PEM.
    pub(super) bundles: Vec<Vec<u8>>,
    /// Whether to trust the platform's root certificates.
    pub(super) platform: bool,
    native: bool,
}

impl Default for TlsChoice {
    fn default() -> Self {
        Self { bundles: Vec::new(), platform: true, native: !cfg!(feature = "rustls") }
    }
}

impl TlsChoice {
    pub(crate) fn add_bundle(&mut self, pem: &[u8]) {
        self.bundles.push(pem.to_vec());
    }

    pub(crate) fn trust_platform(&mut self, trust: bool) {
        self.platform = trust;
    }

    #[cfg(feature = "native-tls")]
    pub(crate) fn prefer_native(&mut self, native: bool) {
        self.native = native || !cfg!(feature = "rustls");
    }

    pub(crate) fn apply(
        &self,
        builder: reqwest::ClientBuilder,
    ) -> Result<reqwest::ClientBuilder, Error> {
        if self.native { self.apply_native(builder) } else { self.apply_rustls(builder) }
    }

    #[cfg(feature = "rustls")]
    fn apply_rustls(
        &self,
        builder: reqwest::ClientBuilder,
    ) -> Result<reqwest::ClientBuilder, Error> {
        Ok(builder.tls_backend_preconfigured(ring::config(self)?))
    }

    #[cfg(not(feature = "rustls"))]
    fn apply_rustls(
        &self,
        builder: reqwest::ClientBuilder,
    ) -> Result<reqwest::ClientBuilder, Error> {
        self.apply_native(builder)
    }

    #[cfg(feature = "native-tls")]
    fn apply_native(
        &self,
        builder: reqwest::ClientBuilder,
    ) -> Result<reqwest::ClientBuilder, Error> {
        let mut extra = Vec::new();
        for bundle in &self.bundles {
            let certificates = reqwest::Certificate::from_pem_bundle(bundle).map_err(|error| {
                Error::config("the CA bundle contains an invalid certificate").with_source(error)
            })?;
            if certificates.is_empty() {
                return Err(Error::config("the CA bundle contains no certificates"));
            }
            extra.extend(certificates);
        }
        let builder = builder.tls_backend_native();
        Ok(if self.platform {
            builder.tls_certs_merge(extra)
        } else {
            builder.tls_certs_only(extra)
        })
    }

    #[cfg(not(feature = "native-tls"))]
    fn apply_native(
        &self,
        builder: reqwest::ClientBuilder,
    ) -> Result<reqwest::ClientBuilder, Error> {
        self.apply_rustls(builder)
    }
}

/// rustls on ring, for this client only: the program's default provider is not touched.
///
/// Loading the platform's certificates takes milliseconds, so it is delayed until the first
/// handshake. A client with an `http` base URL never loads them.
#[cfg(feature = "rustls")]
mod ring {
    use std::fmt;
    use std::sync::{Arc, OnceLock};

    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    use rustls::crypto::CryptoProvider;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

    use super::TlsChoice;
    use crate::error::Error;

    pub(super) fn config(choice: &TlsChoice) -> Result<ClientConfig, Error> {
        let mut extra = Vec::new();
        for bundle in &choice.bundles {
            let before = extra.len();
            for certificate in CertificateDer::pem_slice_iter(bundle) {
                extra.push(certificate.map_err(|error| {
                    Error::config("the CA bundle contains an invalid certificate")
                        .with_source(error)
                })?);
            }
            if extra.len() == before {
                return Err(Error::config("the CA bundle contains no certificates"));
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = LazyVerifier {
            provider: Arc::clone(&provider),
            extra,
            platform: choice.platform,
            inner: OnceLock::new(),
        };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::config("cannot set up TLS").with_source(error))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        Ok(config)
    }

    /// Creates the actual certificate verifier at the first handshake.
    struct LazyVerifier {
        provider: Arc<CryptoProvider>,
        extra: Vec<CertificateDer<'static>>,
        platform: bool,
        inner: OnceLock<Result<Arc<dyn ServerCertVerifier>, rustls::Error>>,
    }

    impl LazyVerifier {
        fn inner(&self) -> Result<&Arc<dyn ServerCertVerifier>, rustls::Error> {
            self.inner.get_or_init(|| self.make()).as_ref().map_err(Clone::clone)
        }

        fn make(&self) -> Result<Arc<dyn ServerCertVerifier>, rustls::Error> {
            let provider = Arc::clone(&self.provider);
            if self.platform {
                let verifier = rustls_platform_verifier::Verifier::new_with_extra_roots(
                    self.extra.iter().cloned(),
                    provider,
                )?;
                return Ok(Arc::new(verifier));
            }
            let mut roots = RootCertStore::empty();
            for certificate in &self.extra {
                roots.add(certificate.clone())?;
            }
            let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .map_err(|error| rustls::Error::General(error.to_string()))?;
            Ok(verifier)
        }
    }

    impl fmt::Debug for LazyVerifier {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("LazyVerifier").field("platform", &self.platform).finish_non_exhaustive()
        }
    }

    impl ServerCertVerifier for LazyVerifier {
        fn verify_server_cert(
            &self,
            end_entity: &CertificateDer<'_>,
            intermediates: &[CertificateDer<'_>],
            server_name: &ServerName<'_>,
            ocsp_response: &[u8],
            now: UnixTime,
        ) -> Result<ServerCertVerified, rustls::Error> {
            self.inner()?.verify_server_cert(
                end_entity,
                intermediates,
                server_name,
                ocsp_response,
                now,
            )
        }

        fn verify_tls12_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            self.inner()?.verify_tls12_signature(message, cert, dss)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            self.inner()?.verify_tls13_signature(message, cert, dss)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.provider.signature_verification_algorithms.supported_schemes()
        }
    }
}
