//! TLS certificate of the SMTP listener. Without one it offers no TLS: many clients start TLS
//! whenever it is offered, and then refuse a self-signed certificate.

use std::io;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::tls::{NO_PROVIDER, provider};

/// A certificate chain with its private key.
#[derive(Clone)]
pub(crate) struct Certificate(Arc<ServerConfig>);

/// The certificate or its private key is not usable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidCertificate {
    /// The first argument contains no certificate in PEM form.
    #[error("no certificate in PEM form")]
    NoCertificate,
    /// The second argument contains no private key in PEM form.
    #[error("no private key in PEM form")]
    NoKey,
    /// The key type is not supported, or the key does not belong to the certificate.
    #[error("the private key does not fit the certificate, or is not supported")]
    Unusable(#[source] rustls::Error),
    /// The crate has neither its feature `rustls` nor `rustls-ring`, and the process has installed no
    /// crypto provider.
    #[error("{NO_PROVIDER}")]
    NoProvider,
}

impl Certificate {
    /// Parses a chain and a key in PEM form. The server's certificate comes first in
    /// the chain.
    pub(crate) fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, InvalidCertificate> {
        let chain = CertificateDer::pem_slice_iter(chain).collect::<Result<Vec<_>, _>>();
        let chain = chain.ok().filter(|chain| !chain.is_empty());
        let chain = chain.ok_or(InvalidCertificate::NoCertificate)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| InvalidCertificate::NoKey)?;
        let provider = provider().ok_or(InvalidCertificate::NoProvider)?;
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|config| config.with_no_client_auth().with_single_cert(chain, key));
        Ok(Self(Arc::new(
            config.map_err(InvalidCertificate::Unusable)?,
        )))
    }

    /// Performs the TLS handshake on an open connection.
    pub(crate) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
    ) -> io::Result<TlsStream<S>> {
        TlsAcceptor::from(Arc::clone(&self.0)).accept(stream).await
    }
}

#[cfg(test)]
mod tests {
    use rcgen::generate_simple_self_signed;

    use super::*;

    #[test]
    fn rejects_invalid_certificates_and_keys() {
        let generated = generate_simple_self_signed(["localhost".to_owned()]).expect("generated");
        let chain = generated.cert.pem();
        let key = generated.signing_key.serialize_pem();
        let refused = |chain: &str, key: &str| {
            let error = Certificate::from_pem(chain.as_bytes(), key.as_bytes());
            error.err().expect("refused").to_string()
        };

        assert!(Certificate::from_pem(chain.as_bytes(), key.as_bytes()).is_ok());
        assert_eq!(refused("", &key), "no certificate in PEM form");
        assert_eq!(refused(&key, &key), "no certificate in PEM form");
        assert_eq!(refused(&chain, &chain), "no private key in PEM form");
        let other = generate_simple_self_signed(["localhost".to_owned()]).expect("generated");
        assert_eq!(
            refused(&chain, &other.signing_key.serialize_pem()),
            "the private key does not fit the certificate, or is not supported"
        );
    }
}
