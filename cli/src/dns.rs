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

/// The world's DNS: name servers are found through the system's resolver, and
/// then asked themselves.
pub struct Outside {
    resolver: Box<TokioResolver>,
    /// Where name servers answer.
    port: u16,
}

/// Where to ask.
pub enum Dns {
    /// One server that was named, for everything.
    At(SocketAddr),
    /// The sandbox's server for the names that are its own, and as outside the
    /// sandbox for all others.
    Sandbox(SocketAddr, Option<Outside>),
    /// The domain's own name servers.
    OwnServers(Outside),
}

impl Dns {
    /// Asks the domain's own name servers.
    pub fn own_servers() -> Result<Self, String> {
        system_resolver().map(Self::OwnServers)
    }

    /// Asks as the sandbox at this DNS server does.
    pub fn sandbox(server: SocketAddr) -> Self {
        Self::Sandbox(server, system_resolver().ok())
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
        let (servers, own) = match self {
            Self::At(server) => (vec![*server], false),
            Self::Sandbox(server, _) if is_reserved(&name.to_ascii()) => (vec![*server], false),
            Self::OwnServers(outside) | Self::Sandbox(_, Some(outside)) => {
                (outside.name_servers(name).await?, true)
            }
            Self::Sandbox(_, None) => return Err(NO_SETTINGS.to_owned()),
        };
        let mut problem = format!("no name server of {name} answers");
        for server in servers {
            match ask(server, name, kind).await {
                Ok(answer) => match refusal(&answer, own) {
                    None => return Ok(answer),
                    Some(why) => problem = format!("{server} {why}"),
                },
                Err(error) => problem = format!("{server}: {error}"),
            }
        }
        Err(problem)
    }
}

const NO_SETTINGS: &str = "the system's DNS settings cannot be read";

/// The port of name servers.
const PORT: u16 = 53;

fn system_resolver() -> Result<Outside, String> {
    let mut builder = TokioResolver::builder_tokio().map_err(|_| NO_SETTINGS.to_owned())?;
    let options = builder.options_mut();
    options.timeout = ONE_TRY;
    options.attempts = 1;
    let resolver = builder.build().map_err(|error| error.to_string())?;
    Ok(Outside { resolver: Box::new(resolver), port: PORT })
}

/// Whether a name is one of those that nobody owns, which the sandbox answers
/// for (RFC 2606).
pub fn is_reserved(name: &str) -> bool {
    let last = name.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    ["test", "example", "invalid", "localhost"].iter().any(|own| own.eq_ignore_ascii_case(last))
}

/// Why an answer says nothing about what there is. A name server that points
/// to others has not looked: its empty answer is not "there is nothing".
fn refusal(answer: &Message, own: bool) -> Option<String> {
    match answer.metadata.response_code {
        ResponseCode::NoError | ResponseCode::NXDomain => {
            let knows = answer.metadata.authoritative || !answer.answers.is_empty();
            (own && !knows).then(|| "is not responsible for the name".to_owned())
        }
        code => Some(format!("answers {code}")),
    }
}

impl Outside {
    /// The name servers of the zone that a name is in: of the name itself, or of
    /// the closest name above it that has some.
    async fn name_servers(&self, name: &Name) -> Result<Vec<SocketAddr>, String> {
        let mut zone = name.clone();
        // A top-level domain's servers are nobody's own.
        while zone.num_labels() > 1 {
            let found = match self.resolver.lookup(zone.clone(), RecordType::NS).await {
                Ok(found) => found,
                Err(error) if error.is_no_records_found() => {
                    zone = zone.base_name();
                    continue;
                }
                // Above a zone that only cannot be found right now, others answer.
                Err(error) => {
                    return Err(format!("the name servers of {zone} are not found: {error}"));
                }
            };
            let hosts = found.answers().iter().filter_map(|record| match &record.data {
                RData::NS(host) => Some(host.0.clone()),
                _ => None,
            });
            let mut servers = Vec::new();
            for host in hosts.take(SERVERS) {
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
        Err(format!("the name servers of {name} are not found"))
    }
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

#[cfg(test)]
mod peers;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_names_are_the_sandboxs_own() {
        for name in ["shop.test", "a.Example.", "x.invalid", "mail.localhost", "test"] {
            assert!(is_reserved(name), "{name}");
        }
        assert!(!is_reserved("example.com") && !is_reserved("mytest") && !is_reserved(""));
    }

    #[test]
    fn a_server_that_points_to_others_does_not_say_that_there_is_nothing() {
        let mut referral = Message::query();
        assert_eq!(refusal(&referral, true).as_deref(), Some("is not responsible for the name"));
        // A resolver that was named answers for others as it should.
        assert_eq!(refusal(&referral, false), None);
        referral.metadata.authoritative = true;
        assert_eq!(refusal(&referral, true), None);
        referral.metadata.response_code = ResponseCode::Refused;
        assert!(refusal(&referral, false).is_some_and(|why| why.contains("Refused")));
    }

    /// The domain's own server, behind a resolver that remembers something else.
    fn behind(resolver: SocketAddr, own: SocketAddr) -> Dns {
        use hickory_resolver::config::{
            ConnectionConfig, NameServerConfig, ResolverConfig, ResolverOpts,
        };
        let mut connection = ConnectionConfig::udp();
        connection.port = resolver.port();
        let server = NameServerConfig::new(resolver.ip(), true, vec![connection]);
        let config = ResolverConfig::from_name_servers(vec![server]);
        let mut builder = TokioResolver::builder_with_config(config, Default::default());
        let mut options = ResolverOpts::default();
        options.attempts = 1;
        *builder.options_mut() = options;
        let resolver = Box::new(builder.build().expect("a resolver"));
        Dns::OwnServers(Outside { resolver, port: own.port() })
    }

    #[cfg(feature = "sandbox")]
    #[tokio::test]
    async fn the_domains_own_servers_are_asked_and_no_memory_is_believed() {
        let server = svc_reference_server::Server::start().await.expect("it starts");
        let sandbox = svc_sdk::EmailClient::builder(server.base_url(), "mk_test_sandbox");
        let sandbox = sandbox.build().expect("a client");
        let domain = sandbox.domains().create("shop.test").await.expect("created");
        let publish = sandbox.raw("POST", "/_sandbox/dns/shop.test/publish");
        publish.json(&serde_json::json!({})).await.expect("published");
        // It delegates shop.test, and remembers an old SPF record.
        let resolver = peers::lying_resolver();
        let dns = behind(resolver.address, server.dns_addr());

        for record in domain.dns_records() {
            let (name, kind) = (record.name.expect("a name"), record.record_type.expect("a type"));
            let value = record.value.expect("a value");
            let found = dns.values(&name, &kind).await.expect("an answer");
            assert!(found.iter().any(|found| found.ends_with(&value)), "{name}: {found:?}");
        }
        assert_eq!(dns.values("nothing.shop.test", "TXT").await, Ok(Vec::new()));
        // What is asked of the resolver is who answers, and nothing else.
        let asked = resolver.asked();
        assert!(asked.contains(&RecordType::NS) && asked.contains(&RecordType::A), "{asked:?}");
        assert!(!asked.contains(&RecordType::TXT) && !asked.contains(&RecordType::MX), "{asked:?}");
    }

    #[tokio::test]
    async fn what_is_too_long_for_udp_is_asked_again_over_tcp() {
        let text = "v=DKIM1; p=".to_owned() + &"A".repeat(3000);
        let own = peers::long_winded(&text);
        let found = Dns::At(own).values("long.test", "TXT").await;
        assert_eq!(found, Ok(vec![text]));
    }

    #[tokio::test]
    async fn a_zone_without_name_servers_is_not_taken_for_an_empty_one() {
        let resolver = peers::lying_resolver();
        let nobody = peers::nobody();
        let dns = behind(resolver.address, nobody);
        let silent = dns.values("shop.test", "TXT").await.expect_err("nobody answers");
        assert!(silent.contains("127.0.0.1"), "{silent}");
        let unknown = dns.values("elsewhere.invalid", "TXT").await.expect_err("nobody is found");
        assert!(unknown.contains("name servers"), "{unknown}");
    }
}
