//! The authoritative name server for the built-in zone, over UDP and TCP.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA, MX, NS, SOA, TXT};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::zone::{Data, RESERVED, Zone};

/// A running name server; it stops when it is dropped.
pub(crate) struct DnsServer {
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl DnsServer {
    /// Listens on UDP and TCP; with port 0 on one that is free for both.
    pub(crate) async fn start(address: SocketAddr, zone: Arc<Zone>) -> io::Result<Self> {
        let (udp, tcp) = bind(address).await?;
        let address = udp.local_addr()?;
        let mut tasks = JoinSet::new();
        tasks.spawn(serve_udp(udp, Arc::clone(&zone)));
        tasks.spawn(serve_tcp(tcp, zone));
        Ok(Self { address, _tasks: tasks })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn bind(address: SocketAddr) -> io::Result<(UdpSocket, TcpListener)> {
    let mut tries = if address.port() == 0 { 20 } else { 1 };
    loop {
        let udp = UdpSocket::bind(address).await?;
        // A port that is free for one protocol may be taken for the other.
        match TcpListener::bind(udp.local_addr()?).await {
            Ok(tcp) => return Ok((udp, tcp)),
            Err(error) => {
                tries -= 1;
                if tries == 0 {
                    return Err(error);
                }
            }
        }
    }
}

async fn serve_udp(socket: UdpSocket, zone: Arc<Zone>) {
    let mut buffer = vec![0; 4096];
    loop {
        // Errors are those of single packets, such as a peer that is gone.
        let Ok((length, peer)) = socket.recv_from(&mut buffer).await else { continue };
        let Some(answer) = answer(&buffer[..length], &zone, Transport::Udp) else { continue };
        let _ = socket.send_to(&answer, peer).await;
    }
}

async fn serve_tcp(listener: TcpListener, zone: Arc<Zone>) {
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut tasks = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of file descriptors, most likely.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        while tasks.try_join_next().is_some() {}
        // Over the limit the connection is dropped: the client asks again.
        if let Ok(permit) = Arc::clone(&connections).try_acquire_owned() {
            let zone = Arc::clone(&zone);
            tasks.spawn(async move {
                let _ = converse(stream, &zone).await;
                drop(permit);
            });
        }
    }
}

/// Answers one query after the other until the client goes or falls silent.
async fn converse(mut stream: TcpStream, zone: &Zone) -> io::Result<()> {
    loop {
        let exchange = async {
            let length = stream.read_u16().await?;
            let mut query = vec![0; length.into()];
            stream.read_exact(&mut query).await?;
            let Some(answer) = answer(&query, zone, Transport::Tcp) else { return Ok(false) };
            let length = u16::try_from(answer.len()).map_err(io::Error::other)?;
            stream.write_all(&[&length.to_be_bytes()[..], &answer].concat()).await?;
            Ok::<_, io::Error>(true)
        };
        match timeout(IDLE, exchange).await {
            Ok(Ok(true)) => {}
            _ => return Ok(()),
        }
    }
}

const MAX_CONNECTIONS: usize = 64;
const IDLE: Duration = Duration::from_secs(10);
/// What passes everywhere without being fragmented (DNS flag day 2020).
const MAX_UDP: u16 = 1232;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Transport {
    Udp,
    Tcp,
}

/// The answer to a packet; none where it is no query at all.
fn answer(packet: &[u8], zone: &Zone, transport: Transport) -> Option<Vec<u8>> {
    let Ok(query) = Message::from_vec(packet) else { return format_error(packet) };
    if query.metadata.message_type != MessageType::Query {
        return None;
    }
    let mut response = Message::response(query.metadata.id, query.metadata.op_code);
    response.metadata.recursion_desired = query.metadata.recursion_desired;
    response.add_queries(query.queries.iter().cloned());
    if let Some(edns) = &query.edns {
        let mut own = Edns::new();
        own.set_max_payload(MAX_UDP);
        own.set_dnssec_ok(edns.flags().dnssec_ok);
        response.set_edns(own);
    }
    response.metadata.response_code = match &query.queries[..] {
        _ if query.version() > 0 => ResponseCode::BADVERS,
        _ if query.metadata.op_code != OpCode::Query => ResponseCode::NotImp,
        [question] => resolve(question, zone, &mut response),
        _ => ResponseCode::FormErr,
    };
    if let (Some(edns), ResponseCode::BADVERS) =
        (&mut response.edns, response.metadata.response_code)
    {
        edns.set_rcode_high(ResponseCode::BADVERS.high());
    }

    let encoded = response.to_vec().ok()?;
    let limit = query.max_payload().min(MAX_UDP);
    if transport == Transport::Udp && encoded.len() > limit.into() {
        return response.truncate().to_vec().ok();
    }
    Some(encoded)
}

fn resolve(question: &Query, zone: &Zone, response: &mut Message) -> ResponseCode {
    let name = question.name();
    let text = name.to_ascii().to_ascii_lowercase();
    let text = text.strip_suffix('.').unwrap_or(&text);
    let top = text.rsplit('.').next().unwrap_or_default();
    let in_class = matches!(question.query_class(), DNSClass::IN | DNSClass::ANY);
    let Some(apex) = RESERVED.iter().find(|reserved| **reserved == top && in_class) else {
        return ResponseCode::Refused;
    };
    // A whole zone is not given away: it is no secret, but half an answer is none.
    let wanted = question.query_type();
    if matches!(wanted, RecordType::AXFR | RecordType::IXFR) {
        return ResponseCode::Refused;
    }
    response.metadata.authoritative = true;
    let at_apex = text == *apex;
    let found = zone.lookup(text);
    let is_wanted = |kind| wanted == kind || wanted == RecordType::ANY;
    if at_apex && is_wanted(RecordType::SOA) {
        response.add_answer(soa(apex));
    }
    if at_apex && is_wanted(RecordType::NS) {
        response.add_answer(Record::from_rdata(name.clone(), 0, RData::NS(NS(name_server()))));
    }
    for data in found.iter().flatten().filter_map(rdata) {
        if is_wanted(data.record_type()) {
            // The name as it was asked: some clients check its case.
            response.add_answer(Record::from_rdata(name.clone(), 0, data));
        }
    }
    if response.answers.is_empty() {
        response.add_authority(soa(apex));
    }
    if found.is_some() { ResponseCode::NoError } else { ResponseCode::NXDomain }
}

fn rdata(data: &Data) -> Option<RData> {
    Some(match data {
        Data::A(address) => RData::A(A(*address)),
        Data::Aaaa(address) => RData::AAAA(AAAA(*address)),
        Data::Mx { preference, exchange } => RData::MX(MX::new(*preference, absolute(exchange)?)),
        Data::Txt(text) => RData::TXT(TXT::from_bytes(text.as_bytes().chunks(255).collect())),
    })
}

/// Negative answers are not to be kept either: the record may be published in a moment.
fn soa(apex: &str) -> Record {
    let contact = absolute("hostmaster.localhost").unwrap_or_default();
    let soa = SOA::new(name_server(), contact, 1, 3600, 600, 86400, 0);
    Record::from_rdata(absolute(apex).unwrap_or_default(), 0, RData::SOA(soa))
}

fn name_server() -> Name {
    absolute("ns.localhost").unwrap_or_default()
}

fn absolute(name: &str) -> Option<Name> {
    let mut name = Name::from_ascii(name).ok()?;
    name.set_fqdn(true);
    Some(name)
}

/// A packet that cannot be read is answered as far as its id can be.
fn format_error(packet: &[u8]) -> Option<Vec<u8>> {
    let [a, b, flags, ..] = *packet else { return None };
    // The answer to an answer would begin a conversation without end.
    if packet.len() < 12 || flags & 0x80 != 0 {
        return None;
    }
    let id = u16::from_be_bytes([a, b]);
    Message::error_msg(id, OpCode::Query, ResponseCode::FormErr).to_vec().ok()
}

#[cfg(test)]
mod tests {
    use super::super::RecordKind;
    use super::*;

    fn zone() -> Arc<Zone> {
        let zone = Zone::new();
        zone.publish("d", RecordKind::Spf, "a.test", Data::Txt("v=spf1 -all".into()));
        let mx = |n, host: &str| Data::Mx { preference: n, exchange: host.into() };
        zone.publish("d", RecordKind::Mx, "a.test", mx(10, "inbound.sandbox.localhost"));
        zone.publish("d", RecordKind::Dkim, "s1._domainkey.a.test", Data::Txt("k".repeat(400)));
        for n in 0..10 {
            zone.publish(
                "d",
                RecordKind::Spf,
                "big.test",
                Data::Txt(format!("{n}{}", "x".repeat(200))),
            );
        }
        Arc::new(zone)
    }

    fn query(name: &str, kind: RecordType, edns: bool) -> Message {
        let mut message = Message::query();
        message.metadata.id = 7;
        message.add_query(Query::query(Name::from_ascii(name).expect("a name"), kind));
        if edns {
            message.set_edns(Edns::new());
        }
        message
    }

    fn ask(message: &Message, transport: Transport) -> Message {
        let packet = message.to_vec().expect("encodes");
        let answer = answer(&packet, &zone(), transport).expect("an answer");
        Message::from_vec(&answer).expect("decodes")
    }

    fn asked(name: &str, kind: RecordType) -> (ResponseCode, Vec<String>, usize) {
        let answer = ask(&query(name, kind, true), Transport::Udp);
        assert_eq!(answer.metadata.id, 7);
        assert!(answer.metadata.authoritative && !answer.metadata.recursion_available);
        let texts = answer.answers.iter().map(|r| format!("{} {} {}", r.name, r.ttl, r.data));
        (answer.metadata.response_code, texts.collect(), answer.authorities.len())
    }

    #[test]
    fn records_come_with_the_name_as_asked_and_no_time_to_live() {
        let (code, records, soa) = asked("A.TesT.", RecordType::MX);
        assert_eq!((code, soa), (ResponseCode::NoError, 0));
        assert_eq!(records, ["A.TesT. 0 10 inbound.sandbox.localhost."]);
        let (_, records, _) = asked("a.test.", RecordType::ANY);
        assert_eq!(records.len(), 2);
        let (_, records, _) = asked("x.localhost.", RecordType::A);
        assert_eq!(records, ["x.localhost. 0 127.0.0.1"]);
    }

    #[test]
    fn what_is_not_there_has_an_soa_beside_it() {
        assert_eq!(asked("nobody.test.", RecordType::TXT), (ResponseCode::NXDomain, vec![], 1));
        assert_eq!(asked("a.test.", RecordType::A), (ResponseCode::NoError, vec![], 1));
        assert_eq!(
            asked("_domainkey.a.test.", RecordType::TXT),
            (ResponseCode::NoError, vec![], 1)
        );
        let (code, records, _) = asked("test.", RecordType::SOA);
        assert_eq!(code, ResponseCode::NoError);
        assert_eq!(records, ["test. 0 ns.localhost. hostmaster.localhost. 1 3600 600 86400 0"]);
    }

    #[test]
    fn other_names_and_other_questions_are_refused() {
        let answer = ask(&query("example.com.", RecordType::A, false), Transport::Udp);
        assert_eq!(answer.metadata.response_code, ResponseCode::Refused);
        assert!(!answer.metadata.authoritative && answer.edns.is_none());

        let answer = ask(&query("test.", RecordType::AXFR, false), Transport::Tcp);
        assert_eq!(answer.metadata.response_code, ResponseCode::Refused);

        let mut update = query("a.test.", RecordType::A, false);
        update.metadata.op_code = OpCode::Notify;
        let answer = ask(&update, Transport::Udp);
        assert_eq!(answer.metadata.response_code, ResponseCode::NotImp);

        let mut future = query("a.test.", RecordType::A, true);
        future.edns.as_mut().expect("EDNS").set_version(1);
        let answer = ask(&future, Transport::Udp);
        assert_eq!(u16::from(answer.metadata.response_code), 16);

        let mut packet = query("a.test.", RecordType::A, false).to_vec().expect("encodes");
        packet.truncate(14);
        let answer = super::answer(&packet, &zone(), Transport::Udp).expect("an answer");
        let answer = Message::from_vec(&answer).expect("decodes");
        assert_eq!(answer.metadata.response_code, ResponseCode::FormErr);
        for nonsense in [&b""[..], b"\0\x01\x80", b"\0\x01\x80\0\0\0\0\0\0\0\0\0\0\0"] {
            assert_eq!(super::answer(nonsense, &zone(), Transport::Udp), None);
        }
    }

    #[test]
    fn long_texts_are_several_strings() {
        let answer = ask(&query("s1._domainkey.a.test.", RecordType::TXT, true), Transport::Udp);
        let RData::TXT(text) = &answer.answers[0].data else { panic!("no TXT") };
        let lengths: Vec<_> = text.txt_data.iter().map(|s| s.len()).collect();
        assert_eq!(lengths, [255, 145]);
    }

    #[test]
    fn what_is_too_long_for_udp_comes_over_tcp() {
        for (edns, size) in [(false, 512), (true, 1232)] {
            let question = query("big.test.", RecordType::TXT, edns);
            let udp = answer(&question.to_vec().expect("encodes"), &zone(), Transport::Udp);
            let udp = udp.expect("an answer");
            assert!(udp.len() <= size);
            let udp = Message::from_vec(&udp).expect("decodes");
            assert!(udp.metadata.truncation && udp.answers.is_empty() && udp.queries.len() == 1);
            let tcp = ask(&question, Transport::Tcp);
            assert!(!tcp.metadata.truncation);
            assert_eq!(tcp.answers.len(), 10);
        }
    }

    #[tokio::test]
    async fn both_transports_answer_on_the_same_port() {
        let server = DnsServer::start("127.0.0.1:0".parse().expect("an address"), zone());
        let address = server.await.expect("started").address();
        let question = query("a.test.", RecordType::MX, true).to_vec().expect("encodes");

        // The server is gone: its port answers no more.
        assert!(TcpStream::connect(address).await.is_err());

        let server = DnsServer::start(address, zone()).await.expect("started again");
        assert_eq!(server.address(), address);
        let udp = UdpSocket::bind("127.0.0.1:0").await.expect("bound");
        udp.send_to(&question, address).await.expect("sent");
        let mut buffer = [0; 2048];
        let length = udp.recv(&mut buffer).await.expect("received");
        let over_udp = buffer[..length].to_vec();
        let mut tcp = TcpStream::connect(address).await.expect("connected");
        for _ in 0..2 {
            let framed = [&(question.len() as u16).to_be_bytes()[..], &question].concat();
            tcp.write_all(&framed).await.expect("written");
            let mut answer = vec![0; tcp.read_u16().await.expect("a length").into()];
            tcp.read_exact(&mut answer).await.expect("an answer");
            assert_eq!(answer, over_udp);
        }
    }
}
