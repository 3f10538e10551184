//! What the SMTP listener encrypts with: a certificate that it was given, or
//! one that it makes when the first client asks for TLS, signed by itself.

use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};

use rcgen::generate_simple_self_signed;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::dns::INBOUND_HOST;

/// A certificate with its chain, and the key to it.
#[derive(Clone)]
pub(crate) struct Certificate(Arc<ServerConfig>);

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Certificate")
    }
}

/// A certificate or a key that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidCertificate {
    /// The first text has no certificate in PEM form.
    #[error("no certificate in PEM form")]
    NoCertificate,
    /// The second text has no private key in PEM form.
    #[error("no private key in PEM form")]
    NoKey,
    /// They are of a kind that is not supported, or do not belong together.
    #[error("the certificate and its key cannot be used together")]
    Unusable(#[source] rustls::Error),
}

impl Certificate {
    /// Reads both in PEM form; the server's own certificate stands first.
    pub(crate) fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, InvalidCertificate> {
        let chain = CertificateDer::pem_slice_iter(chain).collect::<Result<Vec<_>, _>>();
        let chain = chain.ok().filter(|chain| !chain.is_empty());
        let chain = chain.ok_or(InvalidCertificate::NoCertificate)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| InvalidCertificate::NoKey)?;
        Self::new(chain, key).map_err(InvalidCertificate::Unusable)
    }

    fn self_signed() -> io::Result<Self> {
        let names = [INBOUND_HOST, "localhost", "127.0.0.1", "::1"].map(str::to_owned);
        let made = generate_simple_self_signed(names).map_err(io::Error::other)?;
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        Self::new(vec![made.cert.into()], key.into()).map_err(io::Error::other)
    }

    fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, rustls::Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        Ok(Self(Arc::new(config)))
    }
}

/// Encrypts connections with the certificate that there is.
#[derive(Debug, Default)]
pub(super) struct Tls(OnceLock<Certificate>);

impl Tls {
    pub(super) fn with(given: Option<Certificate>) -> Self {
        Self(given.map_or_else(OnceLock::new, OnceLock::from))
    }

    /// Does the handshake on an open connection.
    pub(super) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let certificate = match self.0.get() {
            Some(certificate) => certificate.clone(),
            None => {
                let made = Certificate::self_signed()?;
                self.0.get_or_init(|| made).clone()
            }
        };
        TlsAcceptor::from(certificate.0).accept(stream).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_certificate_is_refused() {
        let made = generate_simple_self_signed(["localhost".to_owned()]).expect("made");
        let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let refused = |chain: &str, key: &str| {
            let error = Certificate::from_pem(chain.as_bytes(), key.as_bytes());
            error.expect_err("refused").to_string()
        };
        assert!(Certificate::from_pem(chain.as_bytes(), key.as_bytes()).is_ok());
        assert_eq!(refused("", &key), "no certificate in PEM form");
        assert_eq!(refused(&key, &key), "no certificate in PEM form");
        assert_eq!(refused(&chain, &chain), "no private key in PEM form");
        let other = generate_simple_self_signed(["localhost".to_owned()]).expect("made");
        assert_eq!(
            refused(&chain, &other.signing_key.serialize_pem()),
            "the certificate and its key cannot be used together"
        );
    }
}
