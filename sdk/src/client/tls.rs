//! TLS settings: which library to use and which certificates to trust.

use crate::Error;

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
        Self { bundles: Vec::new(), platform: true, native: !cfg!(feature = "_rustls") }
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
        self.native = native || !cfg!(feature = "_rustls");
    }

    pub(crate) fn apply(
        &self,
        builder: reqwest::ClientBuilder,
    ) -> Result<reqwest::ClientBuilder, Error> {
        if self.native { self.apply_native(builder) } else { self.apply_rustls(builder) }
    }

    #[cfg(feature = "_rustls")]
    fn apply_rustls(
        &self,
        builder: reqwest::ClientBuilder,
    ) -> Result<reqwest::ClientBuilder, Error> {
        Ok(builder.tls_backend_preconfigured(super::rustls::config(self)?))
    }

    #[cfg(not(feature = "_rustls"))]
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
