//! TLS settings: which library to use and which certificates to trust.

use crate::error::Error;

#[derive(Clone, Debug)]
pub(super) struct TlsChoice {
    /// Certificate bundles in PEM.
    pub(super) bundles: Vec<Vec<u8>>,
    /// Whether to trust the platform's root certificates.
    pub(super) platform: bool,
    pub(super) native: bool,
}

impl Default for TlsChoice {
    fn default() -> Self {
        Self {
            bundles: Vec::new(),
            platform: true,
            native: !cfg!(feature = "rustls"),
        }
    }
}

impl TlsChoice {
    /// `is_used` tells whether a handshake is to be expected. Loading the platform's certificates
    /// takes milliseconds.
    pub(super) fn apply(
        &self,
        builder: reqwest::ClientBuilder,
        is_used: bool,
    ) -> Result<reqwest::ClientBuilder, Error> {
        #[cfg(feature = "rustls")]
        if !self.native {
            return Ok(builder.tls_backend_preconfigured(self.rustls(is_used)?));
        }
        #[cfg(feature = "native-tls")]
        {
            let _ = is_used;
            let extra = self.certificates(reqwest::Certificate::from_pem_bundle)?;
            let builder = builder.tls_backend_native();
            Ok(match self.platform {
                true => builder.tls_certs_merge(extra),
                false => builder.tls_certs_only(extra),
            })
        }
        #[cfg(not(feature = "native-tls"))]
        Ok(builder)
    }

    /// rustls on ring, for this client only: the program's default provider is not touched.
    #[cfg(feature = "rustls")]
    fn rustls(&self, is_used: bool) -> Result<rustls::ClientConfig, Error> {
        use std::sync::Arc;

        use rustls::pki_types::CertificateDer;
        use rustls::pki_types::pem::PemObject as _;

        let failed = |error: rustls::Error| Error::config("cannot set up TLS").with_source(error);
        let extra = self.certificates(|bundle| {
            CertificateDer::pem_slice_iter(bundle).collect::<Result<Vec<_>, _>>()
        })?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(failed)?;
        let config = if self.platform && is_used {
            let verifier =
                rustls_platform_verifier::Verifier::new_with_extra_roots(extra, provider);
            let verifier = Arc::new(verifier.map_err(failed)?);
            config
                .dangerous()
                .with_custom_certificate_verifier(verifier)
        } else {
            let mut roots = rustls::RootCertStore::empty();
            extra
                .into_iter()
                .try_for_each(|each| roots.add(each))
                .map_err(failed)?;
            config.with_root_certificates(roots)
        };
        Ok(config.with_no_client_auth())
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
