//! DNS lookups at a domain's authoritative name servers, which bypass every cache.

pub mod compare;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hickory_proto::op::{Edns, Message, Query, ResponseCode};
use hickory_proto::rr::{Name, RData, RecordType};
use hickory_resolver::TokioResolver;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

/// Time limit of one query to one server.
const QUERY_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of CNAME records to follow.
const MAX_ALIASES: usize = 4;
/// Maximum number of a domain's name servers to try.
const MAX_SERVERS: usize = 3;

/// The public DNS. The system's resolver finds the name servers of a domain; queries then go to
/// those servers directly.
pub struct PublicDns {
    resolver: Box<TokioResolver>,
    /// The port of name servers.
    port: u16,
}

/// Which servers to query.
pub enum Dns {
    /// This server, for every name.
    At(SocketAddr),
    /// The sandbox's server for reserved names, and the public DNS for all others. `None` if
    /// the system's DNS settings are not readable.
    Sandbox(SocketAddr, Option<PublicDns>),
    /// The authoritative name servers of the domain.
    Authoritative(PublicDns),
}

impl Dns {
    /// Queries the domain's authoritative name servers.
    pub fn authoritative() -> Result<Self, String> {
        system_resolver().map(Self::Authoritative)
    }

    /// Queries the sandbox's DNS server for the names that the sandbox serves.
    pub fn sandbox(server: SocketAddr) -> Self {
        Self::Sandbox(server, system_resolver().ok())
    }

    /// Looks up the values of a record: for TXT the strings joined, for MX `10 host`.
    pub async fn values(&self, name: &str, kind: &str) -> Result<Vec<String>, String> {
        let kind = match kind.to_ascii_uppercase().as_str() {
            "MX" => RecordType::MX,
            "TXT" => RecordType::TXT,
            "CNAME" => RecordType::CNAME,
            other => return Err(format!("svc cannot look up records of type {other}")),
        };
        let mut name =
            Name::from_utf8(name).map_err(|_| format!("`{name}` is not a domain name"))?;
        name.set_fqdn(true);
        for _ in 0..=MAX_ALIASES {
            let response = self.query(&name, kind).await?;
            let alias = response.answers.iter().find_map(|record| match &record.data {
                RData::CNAME(target) if record.name == name => Some(target.0.clone()),
                _ => None,
            });
            let values = response.answers.iter().filter_map(|record| value(&record.data, kind));
            let values = values.collect::<Vec<_>>();
            match alias {
                Some(target) if values.is_empty() && kind != RecordType::CNAME => name = target,
                _ => return Ok(values),
            }
        }
        Err(format!("`{name}` has too many aliases in a row (CNAME)"))
    }

    async fn query(&self, name: &Name, kind: RecordType) -> Result<Message, String> {
        let (servers, must_be_authoritative) = match self {
            Self::At(server) => (vec![*server], false),
            Self::Sandbox(server, _) if is_reserved(&name.to_ascii()) => (vec![*server], false),
            Self::Authoritative(public) | Self::Sandbox(_, Some(public)) => {
                (public.name_servers(name).await?, true)
            }
            Self::Sandbox(_, None) => return Err(NO_SETTINGS.to_owned()),
        };
        let mut problem = format!("no name server of {name} responded");
        for server in servers {
            match ask(server, name, kind).await {
                Ok(response) => match refusal(&response, must_be_authoritative) {
                    None => return Ok(response),
                    Some(why) => problem = format!("{server} {why}"),
                },
                Err(error) => problem = format!("{server}: {error}"),
            }
        }
        Err(problem)
    }
}

const NO_SETTINGS: &str = "cannot read the system's DNS settings";

/// The port of name servers.
const PORT: u16 = 53;

fn system_resolver() -> Result<PublicDns, String> {
    let mut builder = TokioResolver::builder_tokio().map_err(|_| NO_SETTINGS.to_owned())?;
    let options = builder.options_mut();
    options.timeout = QUERY_TIMEOUT;
    options.attempts = 1;
    let resolver = builder.build().map_err(|error| error.to_string())?;
    Ok(PublicDns { resolver: Box::new(resolver), port: PORT })
}

/// Whether a name is in a reserved top-level domain (RFC 2606), which the sandbox's DNS server
/// serves.
pub fn is_reserved(name: &str) -> bool {
    let last = name.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    ["test", "example", "invalid", "localhost"].iter().any(|own| own.eq_ignore_ascii_case(last))
}

/// Whether two names of domains are the same: DNS ignores case, and a dot at the end.
pub fn is_same_domain(one: &str, other: &str) -> bool {
    let without_dot = |name: &str| name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    without_dot(one) == without_dot(other)
}

/// Why a response does not tell whether the record exists. An empty referral to other servers,
/// for example, does not mean that the record is missing.
fn refusal(response: &Message, must_be_authoritative: bool) -> Option<String> {
    match response.metadata.response_code {
        ResponseCode::NoError | ResponseCode::NXDomain => {
            let conclusive = response.metadata.authoritative || !response.answers.is_empty();
            (must_be_authoritative && !conclusive)
                .then(|| "is not authoritative for the name".to_owned())
        }
        code => Some(format!("responded with {code}")),
    }
}

impl PublicDns {
    /// The name servers of the zone that contains a name: those of the name itself, or of its
    /// closest parent that has any.
    async fn name_servers(&self, name: &Name) -> Result<Vec<SocketAddr>, String> {
        let mut zone = name.clone();
        // Stop at top-level domains: their servers are not the domain's own.
        while zone.num_labels() > 1 {
            let found = match self.resolver.lookup(zone.clone(), RecordType::NS).await {
                Ok(found) => found,
                Err(error) if error.is_no_records_found() => {
                    zone = zone.base_name();
                    continue;
                }
                // A temporary failure. The parent's servers would give a wrong result.
                Err(error) => {
                    return Err(format!("cannot find the name servers of {zone}: {error}"));
                }
            };
            let hosts = found.answers().iter().filter_map(|record| match &record.data {
                RData::NS(host) => Some(host.0.clone()),
                _ => None,
            });
            let mut servers = Vec::new();
            for host in hosts.take(MAX_SERVERS) {
                if let Ok(addresses) = self.resolver.lookup_ip(host).await {
                    let first = addresses.iter().find(IpAddr::is_ipv4);
                    servers.extend(first.or_else(|| addresses.iter().next()));
                }
            }
            if !servers.is_empty() {
                return Ok(servers.into_iter().map(|ip| SocketAddr::new(ip, self.port)).collect());
            }
            zone = zone.base_name();
        }
        Err(format!("cannot find the name servers of {name}"))
    }
}

/// Sends one query to one server: over UDP, and again over TCP if the response is truncated.
async fn ask(server: SocketAddr, name: &Name, kind: RecordType) -> std::io::Result<Message> {
    let mut query = Message::query();
    query.metadata.recursion_desired = true;
    query.add_query(Query::query(name.clone(), kind));
    let mut edns = Edns::new();
    edns.set_max_payload(1232);
    query.edns = Some(edns);
    let id = query.metadata.id;
    let bytes = query.to_vec().map_err(std::io::Error::other)?;
    let late = |_| std::io::Error::new(std::io::ErrorKind::TimedOut, "no response in time");
    let response = timeout(QUERY_TIMEOUT, over_udp(server, &bytes, id)).await.map_err(late)??;
    if !response.metadata.truncation {
        return Ok(response);
    }
    timeout(QUERY_TIMEOUT, over_tcp(server, &bytes)).await.map_err(late)?
}

async fn over_udp(server: SocketAddr, query: &[u8], id: u16) -> std::io::Result<Message> {
    let any: SocketAddr =
        if server.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0_u16; 8], 0).into() };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(server).await?;
    socket.send(query).await?;
    let mut buffer = vec![0; 4096];
    loop {
        let length = socket.recv(&mut buffer).await?;
        // Ignore packets that do not respond to this query.
        if let Ok(response) = Message::from_vec(&buffer[..length])
            && response.metadata.id == id
        {
            return Ok(response);
        }
    }
}

async fn over_tcp(server: SocketAddr, query: &[u8]) -> std::io::Result<Message> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(query.len()).map_err(std::io::Error::other)?;
    stream.write_all(&length.to_be_bytes()).await?;
    stream.write_all(query).await?;
    let mut response = vec![0; usize::from(stream.read_u16().await?)];
    stream.read_exact(&mut response).await?;
    Message::from_vec(&response).map_err(std::io::Error::other)
}

fn value(data: &RData, kind: RecordType) -> Option<String> {
    match (data, kind) {
        (RData::TXT(text), RecordType::TXT) => {
            let joined: Vec<u8> = text.txt_data.concat();
            Some(String::from_utf8_lossy(&joined).into_owned())
        }
        (RData::MX(mx), RecordType::MX) => {
            let host = mx.exchange.to_ascii();
            Some(format!("{} {}", mx.preference, host.trim_end_matches('.')))
        }
        (RData::CNAME(target), RecordType::CNAME) => {
            Some(target.0.to_ascii().trim_end_matches('.').to_owned())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
