//! What DNS answers right now, asked at a domain's own name servers, so that no
//! cache is in the way.

pub mod compare;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hickory_proto::op::{Edns, Message, Query, ResponseCode};
use hickory_proto::rr::{Name, RData, RecordType};
use hickory_resolver::TokioResolver;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

const ONE_TRY: Duration = Duration::from_secs(2);
/// A record may be an alias of an alias.
const ALIASES: usize = 4;
/// How many of a domain's name servers are asked until one answers.
const SERVERS: usize = 3;

/// Where to ask.
pub enum Dns {
    /// One server for everything: the sandbox's, or one that was named.
    At(SocketAddr),
    /// The domain's own name servers, found through the system's resolver.
    OwnServers(Box<TokioResolver>),
}

impl Dns {
    /// Asks the domain's own name servers.
    pub fn own_servers() -> Result<Self, String> {
        let mut builder = TokioResolver::builder_tokio()
            .map_err(|_| "the system's DNS settings cannot be read".to_owned())?;
        let options = builder.options_mut();
        options.timeout = ONE_TRY;
        options.attempts = 1;
        let resolver = builder.build().map_err(|error| error.to_string())?;
        Ok(Self::OwnServers(Box::new(resolver)))
    }

    /// The values at a name: texts with their strings joined, mail exchangers
    /// as `10 host`.
    pub async fn values(&self, name: &str, kind: &str) -> Result<Vec<String>, String> {
        let kind = match kind.to_ascii_uppercase().as_str() {
            "MX" => RecordType::MX,
            "TXT" => RecordType::TXT,
            "CNAME" => RecordType::CNAME,
            other => return Err(format!("records of type {other} are not looked up")),
        };
        let mut name = Name::from_utf8(name).map_err(|_| format!("`{name}` is no domain name"))?;
        name.set_fqdn(true);
        for _ in 0..=ALIASES {
            let answer = self.ask_for(&name, kind).await?;
            let alias = answer.answers.iter().find_map(|record| match &record.data {
                RData::CNAME(target) if record.name == name => Some(target.0.clone()),
                _ => None,
            });
            let values = answer.answers.iter().filter_map(|record| value(&record.data, kind));
            let values = values.collect::<Vec<_>>();
            match alias {
                Some(target) if values.is_empty() && kind != RecordType::CNAME => name = target,
                _ => return Ok(values),
            }
        }
        Err(format!("`{name}` is an alias of an alias without end"))
    }

    async fn ask_for(&self, name: &Name, kind: RecordType) -> Result<Message, String> {
        let servers = match self {
            Self::At(server) => vec![*server],
            Self::OwnServers(resolver) => name_servers(resolver, name).await?,
        };
        let mut problem = format!("no name server of {name} answers");
        for server in servers {
            match ask(server, name, kind).await {
                Ok(answer) => match answer.metadata.response_code {
                    ResponseCode::NoError | ResponseCode::NXDomain => return Ok(answer),
                    code => problem = format!("{server} answers {code}"),
                },
                Err(error) => problem = format!("{server}: {error}"),
            }
        }
        Err(problem)
    }
}

/// The name servers of the zone that a name is in: of the name itself, or of
/// the closest name above it that has some.
async fn name_servers(resolver: &TokioResolver, name: &Name) -> Result<Vec<SocketAddr>, String> {
    let mut zone = name.clone();
    while zone.num_labels() > 0 {
        if let Ok(found) = resolver.lookup(zone.clone(), RecordType::NS).await {
            let hosts = found.answers().iter().filter_map(|record| match &record.data {
                RData::NS(host) => Some(host.0.clone()),
                _ => None,
            });
            let mut servers = Vec::new();
            for host in hosts.take(SERVERS) {
                if let Ok(addresses) = resolver.lookup_ip(host).await {
                    servers.extend(addresses.iter().filter(IpAddr::is_ipv4).take(1));
                }
            }
            if !servers.is_empty() {
                return Ok(servers.into_iter().map(|ip| SocketAddr::new(ip, 53)).collect());
            }
        }
        zone = zone.base_name();
    }
    Err(format!("the name servers of {name} are not found"))
}

/// One question to one server: over UDP, and over TCP where the answer is too
/// long for it.
async fn ask(server: SocketAddr, name: &Name, kind: RecordType) -> std::io::Result<Message> {
    let mut question = Message::query();
    question.metadata.recursion_desired = true;
    question.add_query(Query::query(name.clone(), kind));
    let mut edns = Edns::new();
    edns.set_max_payload(1232);
    question.edns = Some(edns);
    let id = question.metadata.id;
    let bytes = question.to_vec().map_err(std::io::Error::other)?;
    let late = |_| std::io::Error::new(std::io::ErrorKind::TimedOut, "no answer in time");
    let answer = timeout(ONE_TRY, over_udp(server, &bytes, id)).await.map_err(late)??;
    if !answer.metadata.truncation {
        return Ok(answer);
    }
    timeout(ONE_TRY, over_tcp(server, &bytes)).await.map_err(late)?
}

async fn over_udp(server: SocketAddr, question: &[u8], id: u16) -> std::io::Result<Message> {
    let any: SocketAddr =
        if server.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0_u16; 8], 0).into() };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(server).await?;
    socket.send(question).await?;
    let mut buffer = vec![0; 4096];
    loop {
        let length = socket.recv(&mut buffer).await?;
        // What is not the answer to this question is somebody else's.
        if let Ok(answer) = Message::from_vec(&buffer[..length])
            && answer.metadata.id == id
        {
            return Ok(answer);
        }
    }
}

async fn over_tcp(server: SocketAddr, question: &[u8]) -> std::io::Result<Message> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(question.len()).map_err(std::io::Error::other)?;
    stream.write_all(&length.to_be_bytes()).await?;
    stream.write_all(question).await?;
    let mut answer = vec![0; usize::from(stream.read_u16().await?)];
    stream.read_exact(&mut answer).await?;
    Message::from_vec(&answer).map_err(std::io::Error::other)
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
