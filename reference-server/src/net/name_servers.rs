//! The name servers on the network, and the hosts file. Queries are asynchronous: one that
//! is not answered takes no thread.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hickory_proto::op::Query;
use hickory_proto::rr::{Name, RecordType};
use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::{Hosts, TokioResolver};
use tokio::sync::Mutex;

use crate::net::is_out_of_descriptors;

pub(crate) struct NameServers {
    /// Asked instead of those of the system.
    server: Option<SocketAddr>,
    /// Created on first use, because reading the system's configuration takes time.
    system: Mutex<Option<(Instant, Arc<System>)>>,
}

/// What was configured when it was read.
struct System {
    resolver: Result<TokioResolver, NetError>,
    hosts: Hosts,
}

impl NameServers {
    pub(crate) fn new(server: Option<SocketAddr>) -> Self {
        Self { server, system: Mutex::new(None) }
    }

    /// A client without a cache, which does not read the hosts file.
    pub(crate) async fn resolver(&self) -> Result<TokioResolver, NetError> {
        self.system().await.resolver.clone()
    }

    /// The addresses of a host: from the hosts file, or else from the name servers.
    pub(crate) async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, NetError> {
        let system = self.system().await;
        let name = Name::from_ascii(host)?;
        let found: Vec<IpAddr> = [RecordType::A, RecordType::AAAA]
            .into_iter()
            .filter_map(|kind| system.hosts.lookup_static_host(&Query::query(name.clone(), kind)))
            .flat_map(|lookup| {
                lookup
                    .answers()
                    .iter()
                    .filter_map(|record| record.data.ip_addr())
                    .collect::<Vec<_>>()
            })
            .collect();
        if !found.is_empty() {
            return Ok(found);
        }
        if name.is_localhost() {
            return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
        }
        Ok(system.resolver.clone()?.lookup_ip(name).await?.iter().collect())
    }

    /// Reads the system's configuration again once it is old: a laptop may have joined
    /// another network.
    async fn system(&self) -> Arc<System> {
        let mut system = self.system.lock().await;
        if let Some((read_at, system)) = &*system
            && read_at.elapsed() < MAX_AGE
        {
            return Arc::clone(system);
        }
        let server = self.server;
        let read = move || match Hosts::from_system() {
            Err(error) if is_out_of_descriptors(&error) => {
                System { resolver: Err(error.into()), hosts: Hosts::default() }
            }
            hosts => System { resolver: resolver(server), hosts: hosts.unwrap_or_default() },
        };
        let new = match tokio::task::spawn_blocking(read).await {
            Ok(new) => new,
            Err(_) => System { resolver: Err(NetError::NoConnections), hosts: Hosts::default() },
        };
        let new = Arc::new(new);
        // What could not be read for want of a file descriptor is read again.
        *system = match &new.resolver {
            Err(NetError::Io(error)) if is_out_of_descriptors(error) => None,
            _ => Some((Instant::now(), Arc::clone(&new))),
        };
        new
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
    options.use_hosts_file = ResolveHosts::Never;
    options.timeout = ATTEMPT_TIMEOUT;
    options.attempts = 1;
    // Over TCP; more are refused, and then the slow names of one organization would be in
    // the way of others.
    options.max_active_requests = 1024;
    builder.build()
}

const MAX_AGE: Duration = Duration::from_secs(10);
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(2);
