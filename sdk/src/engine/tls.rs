//! TLS settings: which library to use and which certificates to trust.

use crate::error::Error;

#[derive(Clone, Debug)]
pub(super) struct TlsChoice {
    /// Certificate bundles in PEM.
    pub(super) bundles: Vec<Vec<u8>>,
    /// Whether to trust the platform's root certificates.
    pub(super) platform: bool,
    #[cfg(feature = "native-tls")]
    pub(super) native: bool,
}

impl Default for TlsChoice {
    fn default() -> Self {
        Self {
            bundles: Vec::new(),
            platform: true,
            #[cfg(feature = "native-tls")]
            native: !HAS_RUSTLS,
        }
    }
}

#[cfg(feature = "native-tls")]
pub(super) const HAS_RUSTLS: bool = cfg!(any(feature = "rustls", feature = "rustls-ring"));

impl TlsChoice {
    /// `is_used` tells whether a handshake is to be expected. Loading the platform's certificates
    /// takes milliseconds.
    pub(super) fn apply(
        &self,
        builder: reqwest::ClientBuilder,
        is_used: bool,
    ) -> Result<reqwest::ClientBuilder, Error> {
        #[cfg(feature = "native-tls")]
        if self.native {
            return self.certificates_of_reqwest(builder.tls_backend_native(), is_used);
        }

        // Whoever asks for ring gets it, whatever other crates in the program ask for.
        #[cfg(feature = "rustls-ring")]
        return Ok(builder.tls_backend_preconfigured(self.rustls_on_ring(is_used)?));

        #[cfg(all(feature = "rustls", not(feature = "rustls-ring")))]
        return self.certificates_of_reqwest(builder.tls_backend_rustls(), is_used);

        #[cfg(not(any(feature = "rustls", feature = "rustls-ring")))]
        self.certificates_of_reqwest(builder, is_used)
    }

    /// Sets the certificates with reqwest's own options.
    #[cfg(any(feature = "native-tls", not(feature = "rustls-ring")))]
    fn certificates_of_reqwest(
        &self,
        builder: reqwest::ClientBuilder,
        is_used: bool,
    ) -> Result<reqwest::ClientBuilder, Error> {
        let extra = self.certificates(reqwest::Certificate::from_pem_bundle)?;
        if self.platform && is_used {
            return Ok(builder.tls_certs_merge(extra));
        }
        Ok(builder.tls_certs_only(extra))
    }

    /// rustls on ring, for this client only: the program's default provider is not touched.
    #[cfg(feature = "rustls-ring")]
    fn rustls_on_ring(&self, is_used: bool) -> Result<rustls::ClientConfig, Error> {
        use std::sync::Arc;

        use rustls::pki_types::CertificateDer;
        use rustls::pki_types::pem::PemObject as _;
        use rustls_platform_verifier::Verifier;

        let failed = |error: rustls::Error| Error::config("cannot set up TLS").with_source(error);
        let extra = self.certificates(|bundle| {
            CertificateDer::pem_slice_iter(bundle).collect::<Result<Vec<_>, _>>()
        })?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(failed)?;

        if self.platform && is_used {
            let verifier = Verifier::new_with_extra_roots(extra, provider).map_err(failed)?;
            let config = config
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(verifier));
            return Ok(config.with_no_client_auth());
        }

        let mut roots = rustls::RootCertStore::empty();
        for certificate in extra {
            roots.add(certificate).map_err(failed)?;
        }

        Ok(config.with_root_certificates(roots).with_no_client_auth())
    }

    /// The certificates of all bundles.
    fn certificates<C, E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        &self,
        read: impl Fn(&[u8]) -> Result<Vec<C>, E>,
    ) -> Result<Vec<C>, Error> {
        let mut all = Vec::new();
        for bundle in &self.bundles {
            let certificates = read(bundle).map_err(|error| {
                Error::config("the CA bundle contains an invalid certificate").with_source(error)
            })?;
            if certificates.is_empty() {
                return Err(Error::config("the CA bundle contains no certificates"));
            }
            all.extend(certificates);
        }
        Ok(all)
    }
}
