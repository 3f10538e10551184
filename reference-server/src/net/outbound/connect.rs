//! Connections to webhook targets: DNS lookup, target policy, TCP, TLS.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use std::{fmt, io};

use hickory_resolver::net::NetError;
use http::Uri;
use hyper_util::client::legacy::connect::{CaptureConnection, Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;
use tower_service::Service;

use super::AttemptError;
use super::target::{Policy, RefusedTarget};
use super::tcp::{Tcp, Traffic};
use crate::net::name_servers::NameServers;
use crate::net::{is_out_of_descriptors, tls};

#[derive(Clone)]
pub(super) struct Connector {
    policy: Policy,
    name_servers: Arc<NameServers>,
}

impl Connector {
    pub(super) fn new(policy: Policy, resolver: Option<SocketAddr>) -> Self {
        Self { policy, name_servers: Arc::new(NameServers::new(resolver)) }
    }

    async fn connect(self, uri: Uri) -> Result<Stream, ConnectError> {
        let host = uri.host().ok_or(ConnectError::Unresolved)?;
        let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
        let https = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if https { 443 } else { 80 });
        let tcp = self.open(&self.addresses(host, port).await?).await?;
        tcp.set_nodelay(true).map_err(ConnectError::Io)?;
        let tcp = Tcp::new(tcp);
        if !https {
            return Ok(Stream::Plain(tcp));
        }
        let stream = tls::connect(host, tcp).await.map_err(ConnectError::Tls)?;
        Ok(Stream::Tls(Box::new(stream)))
    }

    async fn addresses(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, ConnectError> {
        let found = match host.parse::<IpAddr>() {
            Ok(address) => vec![address],
            Err(_) => self.name_servers.addresses(host).await.map_err(|error| match error {
                NetError::Io(io) if is_out_of_descriptors(&io) => ConnectError::NoDescriptor,
                _ => self.unresolved(),
            })?,
        };
        Ok(found.into_iter().map(|address| SocketAddr::new(address, port)).collect())
    }

    /// On a public server, a name that only a private network has looks like one that does
    /// not exist.
    fn unresolved(&self) -> ConnectError {
        match self.policy {
            Policy::Public => ConnectError::Refused(RefusedTarget::NotPublic),
            Policy::Development | Policy::Trusted => ConnectError::Unresolved,
        }
    }

    /// Connects to the first address that is allowed and accepts the connection.
    async fn open(&self, addresses: &[SocketAddr]) -> Result<TcpStream, ConnectError> {
        let mut error = self.unresolved();
        for &address in addresses {
            if let Err(refused) = self.policy.check(address.ip()) {
                error = ConnectError::Refused(refused);
                continue;
            }
            // The last address may use all the remaining time of the attempt.
            let limit = if Some(&address) == addresses.last() {
                LAST_CONNECT_TIMEOUT
            } else {
                CONNECT_TIMEOUT
            };
            match timeout(limit, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(io)) => error = ConnectError::Io(io),
                Err(_) => error = ConnectError::Io(io::ErrorKind::TimedOut.into()),
            }
        }
        Err(error)
    }
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const LAST_CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

impl Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move { connector.connect(uri).await.map(TokioIo::new) })
    }
}

#[derive(Debug)]
pub(super) enum ConnectError {
    Refused(RefusedTarget),
    Unresolved,
    NoDescriptor,
    Io(io::Error),
    Tls(io::Error),
}

impl ConnectError {
    /// hyper owns the original error, so build a new one from its parts.
    pub(super) fn to_attempt_error(&self) -> AttemptError {
        match self {
            Self::Refused(refused) => AttemptError::Refused(*refused),
            Self::Unresolved => AttemptError::Unresolved,
            Self::NoDescriptor => AttemptError::NoDescriptor,
            Self::Io(error) | Self::Tls(error) if is_out_of_descriptors(error) => {
                AttemptError::NoDescriptor
            }
            Self::Io(error) => AttemptError::NoConnection(error.kind().into()),
            Self::Tls(error) => AttemptError::Tls(io::Error::other(error.to_string())),
        }
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_attempt_error().fmt(f)
    }
}

impl std::error::Error for ConnectError {}

/// What was sent over the connection of a request; `None` if there is no connection.
pub(super) fn traffic(connection: &CaptureConnection) -> Option<Arc<Traffic>> {
    let mut extras = http::Extensions::new();
    connection.connection_metadata().as_ref()?.get_extras(&mut extras);
    extras.remove()
}

/// A connection to an endpoint, over TLS or not.
pub(super) enum Stream {
    Plain(Tcp),
    Tls(Box<TlsStream<Tcp>>),
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        let tcp = match self {
            Self::Plain(tcp) => tcp,
            Self::Tls(stream) => stream.get_ref().0,
        };
        Connected::new().extra(tcp.traffic())
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }
}
