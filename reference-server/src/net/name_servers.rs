//! The name servers on the network, and the hosts file.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig, ResolverOpts};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use tokio::net::lookup_host;

use super::target::is_local;

pub(crate) struct NameServers {
    /// Asked instead of those of the system.
    server: Option<SocketAddr>,
    /// The client, and when it read the system's configuration.
    kept: Mutex<Option<(Instant, TokioResolver)>>,
}

impl NameServers {
    pub(crate) fn new(server: Option<SocketAddr>) -> Self {
        Self { server, kept: Mutex::new(None) }
    }

    /// A client without a cache. It reads the system's configuration again once that is old: a
    /// laptop may have joined another network.
    pub(crate) fn resolver(&self) -> Result<TokioResolver, NetError> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((read_at, resolver)) = &*kept
            && read_at.elapsed() < MAX_AGE
        {
            return Ok(resolver.clone());
        }
        let resolver = resolver(self.server)?;
        *kept = Some((Instant::now(), resolver.clone()));
        Ok(resolver)
    }

    /// The addresses of a host: as other programs of this machine find them, or from the hosts file
    /// and the given server.
    pub(crate) async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, NetError> {
        if is_local(host) {
            return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
        }
        match self.server {
            None => Ok(lookup_host((host, 0)).await?.map(|address| address.ip()).collect()),
            Some(_) => Ok(self.resolver()?.lookup_ip(host).await?.iter().collect()),
        }
    }
}

fn resolver(server: Option<SocketAddr>) -> Result<TokioResolver, NetError> {
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
    let options: &mut ResolverOpts = builder.options_mut();
    options.cache_size = 0;
    options.timeout = ATTEMPT_TIMEOUT;
    options.attempts = 1;
    // Over TCP; more are refused, and then the slow names of one organization would be in
    // the way of others.
    options.max_active_requests = 1024;
    builder.build()
}

const MAX_AGE: Duration = Duration::from_secs(10);
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(2);
