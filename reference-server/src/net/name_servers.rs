//! The name servers on the network, and the hosts file.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use tokio::net::lookup_host;

use super::target::is_local;

/// A client of this server, or without it of those of the system, whose configuration it has just
/// read: a laptop may have joined another network. It has no cache.
pub(crate) fn resolver(server: Option<SocketAddr>) -> Result<TokioResolver, NetError> {
    let mut builder = match server {
        Some(server) => {
            let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
            let connections = connections.into_iter().map(|mut connection| {
                connection.port = server.port();
                connection
            });
            let server = NameServerConfig::new(server.ip(), true, connections.collect());
            let config = ResolverConfig::from_name_servers(vec![server]);
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        }
        None => TokioResolver::builder_tokio()?,
    };
    let options = builder.options_mut();
    (options.cache_size, options.timeout, options.attempts) = (0, ATTEMPT_TIMEOUT, 1);
    builder.build()
}

/// The addresses of a host: as other programs of this machine find them, or from the hosts file
/// and the given server.
pub(super) async fn addresses(
    server: Option<SocketAddr>,
    host: &str,
) -> Result<Vec<IpAddr>, NetError> {
    if is_local(host) {
        return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
    }
    match server {
        None => Ok(lookup_host((host, 0))
            .await?
            .map(|address| address.ip())
            .collect()),
        Some(_) => Ok(resolver(server)?.lookup_ip(host).await?.iter().collect()),
    }
}

const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(2);
