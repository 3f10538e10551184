//! Connections to the PostgreSQL server of a ledger, with the TLS of the program.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll};
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, ServerName};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::ConfigVerifierExt as _;
use svc_bulk::deadpool_postgres::tokio_postgres::Config;
use svc_bulk::deadpool_postgres::tokio_postgres::tls::{
    ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream,
};
use svc_bulk::deadpool_postgres::{Manager, Pool};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;
use tokio_rustls::client;

use crate::context::Context;
use crate::failure::Failure;

/// Connections of one process: more senders than these wait for each other.
const CONNECTIONS: usize = 8;

/// The connections to the server at this URL, none of which is open yet.
pub fn pool(context: &Context, url: &str) -> Result<Pool, Failure> {
    // The error of the parser may quote a password.
    let mut config = url.parse::<Config>().map_err(|_| {
        Failure::usage("--ledger: not the URL of a PostgreSQL database")
            .hint("such as postgres://USER:PASSWORD@HOST/DATABASE?sslmode=require")
    })?;
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(Duration::from_secs(10));
    }
    config.keepalives_idle(Duration::from_secs(15));
    let manager = Manager::new(config, Tls(Arc::new(tls(context)?)));
    Pool::builder(manager)
        .max_size(CONNECTIONS)
        .build()
        .map_err(|error| Failure::other(error.to_string()))
}

fn tls(context: &Context) -> Result<ClientConfig, Failure> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let failed = |error: &dyn std::fmt::Display| Failure::other(format!("TLS: {error}"));
    let Some(pem) = context.ca_bundle()? else {
        return ClientConfig::with_platform_verifier().map_err(|error| failed(&error));
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| failed(&error))?;
        roots.add(certificate).map_err(|error| failed(&error))?;
    }
    Ok(ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth())
}

#[derive(Clone)]
struct Tls(Arc<ClientConfig>);

struct Connect {
    connector: TlsConnector,
    name: ServerName<'static>,
}

/// A connection with TLS. Its type is another crate's, as is the trait.
struct Stream<S>(client::TlsStream<S>);

impl<S> MakeTlsConnect<S> for Tls
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Stream<S>;
    type TlsConnect = Connect;
    type Error = InvalidDnsNameError;

    fn make_tls_connect(&mut self, domain: &str) -> Result<Connect, InvalidDnsNameError> {
        Ok(Connect {
            connector: TlsConnector::from(Arc::clone(&self.0)),
            name: ServerName::try_from(domain)?.to_owned(),
        })
    }
}

impl<S> TlsConnect<S> for Connect
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Stream<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let connected = self.connector.connect(self.name, stream).await?;
            Ok(Stream(connected))
        })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Stream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Stream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Stream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
