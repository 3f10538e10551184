//! The authoritative name server for the built-in zone, over UDP and TCP. It is our own, over
//! `hickory-proto`: records change with every request, and have no TTL.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::SOA;
use hickory_proto::rr::{DNSClass, RData, Record, RecordType};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::zone::{RESERVED, Zone, absolute};
use crate::net::accept;
use crate::runtime::stop::Stop;

/// Starts the name server on UDP and TCP. Port 0 selects a port that is free for both. Also returns
/// its tasks, which end when they are dropped.
pub(crate) async fn start(
    address: SocketAddr,
    zone: Arc<Zone>,
) -> io::Result<(SocketAddr, JoinSet<()>)> {
    let (udp, tcp) = bind(address).await?;
    let address = udp.local_addr()?;
    let mut tasks = JoinSet::new();
    tasks.spawn(serve_udp(udp, Arc::clone(&zone)));
    tasks.spawn(serve_tcp(tcp, zone));
    Ok((address, tasks))
}

async fn bind(address: SocketAddr) -> io::Result<(UdpSocket, TcpListener)> {
    let mut tries = 0;
    loop {
        let udp = UdpSocket::bind(address).await?;
        match TcpListener::bind(udp.local_addr()?).await {
            // A port that is free for UDP may be in use for TCP.
            Err(_) if address.port() == 0 && tries < 20 => tries += 1,
            tcp => return Ok((udp, tcp?)),
        }
    }
}

async fn serve_udp(socket: UdpSocket, zone: Arc<Zone>) {
    let mut buffer = vec![0; 4096];
    loop {
        // Errors concern single packets, such as a peer that is gone.
        let Ok((length, peer)) = socket.recv_from(&mut buffer).await else {
            continue;
        };
        let Some(response) = respond(&buffer[..length], &zone, true) else {
            continue;
        };
        let _ = socket.send_to(&response, peer).await;
    }
}

async fn serve_tcp(listener: TcpListener, zone: Arc<Zone>) {
    let connection = |stream, _| {
        let zone = Arc::clone(&zone);
        async move {
            let _ = serve_connection(stream, &zone).await;
        }
    };
    accept::serve(listener, MAX_CONNECTIONS, &Stop::default(), connection).await;
}

/// Answers the queries of one connection until the client disconnects or is idle.
async fn serve_connection(mut stream: TcpStream, zone: &Zone) -> io::Result<()> {
    loop {
        let exchange = async {
            let length = stream.read_u16().await?;
            let mut query = vec![0; length.into()];
            stream.read_exact(&mut query).await?;
            let response = respond(&query, zone, false).ok_or(io::ErrorKind::InvalidData)?;
            let length = u16::try_from(response.len()).map_err(io::Error::other)?;
            stream
                .write_all(&[&length.to_be_bytes()[..], &response].concat())
                .await
        };
        timeout(IDLE_TIMEOUT, exchange).await??;
    }
}

const MAX_CONNECTIONS: usize = 64;
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a UDP response that is not fragmented (DNS flag day 2020).
const MAX_UDP_RESPONSE: u16 = 1232;

/// Returns the response to a packet, or `None` if it is not a query.
fn respond(packet: &[u8], zone: &Zone, over_udp: bool) -> Option<Vec<u8>> {
    let Ok(query) = Message::from_vec(packet) else {
        return format_error(packet);
    };
    if query.metadata.message_type != MessageType::Query {
        return None;
    }

    let mut response = Message::response(query.metadata.id, query.metadata.op_code);
    response.metadata.recursion_desired = query.metadata.recursion_desired;
    response.add_queries(query.queries.iter().cloned());
    let version = query.edns.as_ref().map(Edns::version);
    if let Some(version) = version {
        let mut edns = Edns::new();
        edns.set_max_payload(MAX_UDP_RESPONSE);
        if version > 0 {
            edns.set_rcode_high(ResponseCode::BADVERS.high());
        }
        response.set_edns(edns);
    }

    response.metadata.response_code = match &query.queries[..] {
        // RFC 6891, section 6.1.3.
        _ if version.is_some_and(|version| version > 0) => ResponseCode::BADVERS,
        _ if query.metadata.op_code != OpCode::Query => ResponseCode::NotImp,
        [question] => resolve(question, zone, &mut response),
        _ => ResponseCode::FormErr,
    };
    let encoded = response.to_vec().ok()?;
    if over_udp && encoded.len() > query.max_payload().min(MAX_UDP_RESPONSE).into() {
        return response.truncate().to_vec().ok();
    }

    Some(encoded)
}

/// The response to a packet that has the header of a query, and cannot be read (RFC 1035, section
/// 4.1.1).
fn format_error(packet: &[u8]) -> Option<Vec<u8>> {
    const HEADER_LENGTH: usize = 12;

    let header = packet.get(..HEADER_LENGTH)?;
    let is_response = header[2] & 0x80 != 0;
    if is_response {
        return None;
    }

    let mut response = vec![0; HEADER_LENGTH];
    response[..2].copy_from_slice(&header[..2]);
    // QR, and the operation and RD of the query.
    response[2] = 0x80 | (header[2] & 0x79);
    response[3] = ResponseCode::FormErr.low();
    Some(response)
}

fn resolve(question: &Query, zone: &Zone, response: &mut Message) -> ResponseCode {
    let name = question.name();
    let text = name.to_ascii().to_ascii_lowercase();
    let text = text.strip_suffix('.').unwrap_or(&text);
    let top = text.rsplit('.').next().unwrap_or_default();
    let in_class = matches!(question.query_class(), DNSClass::IN | DNSClass::ANY);
    let Some(apex) = RESERVED
        .iter()
        .find(|reserved| **reserved == top && in_class)
    else {
        return ResponseCode::Refused;
    };

    let wanted = question.query_type();
    response.metadata.authoritative = true;
    let found = zone.lookup(text);
    let is_wanted = |kind| wanted == kind || wanted == RecordType::ANY;
    if text == *apex && is_wanted(RecordType::SOA) {
        response.add_answer(soa(apex));
    }
    for data in found.iter().flatten() {
        if is_wanted(data.record_type()) {
            // Repeat the name as queried: some clients compare its case.
            response.add_answer(Record::from_rdata(name.clone(), 0, data.clone()));
        }
    }

    if response.answers.is_empty() {
        response.add_authority(soa(apex));
    }
    if found.is_some() {
        ResponseCode::NoError
    } else {
        ResponseCode::NXDomain
    }
}

/// A negative TTL of zero: the record may be published at any moment.
fn soa(apex: &str) -> Record {
    let contact = absolute("hostmaster.localhost").unwrap_or_default();
    let server = absolute("ns.localhost").unwrap_or_default();
    let soa = SOA::new(server, contact, 1, 3600, 600, 86400, 0);
    Record::from_rdata(absolute(apex).unwrap_or_default(), 0, RData::SOA(soa))
}

#[cfg(test)]
mod tests {
    use hickory_proto::rr::Name;

    use super::super::testing;
    use super::*;
    use crate::model::dns::RecordKind;

    fn zone() -> Arc<Zone> {
        let long = "k".repeat(400);
        let big = "x".repeat(200);
        let big: Vec<_> = (0..10).map(|n| format!("{n}{big}")).collect();
        let mut records = vec![
            (RecordKind::Spf, "a.test", "v=spf1 -all"),
            (RecordKind::Mx, "a.test", "inbound.sandbox.localhost"),
            (RecordKind::Dkim, "s1._domainkey.a.test", &long),
        ];
        records.extend(
            big.iter()
                .map(|text| (RecordKind::Spf, "big.test", text.as_str())),
        );
        testing::zone(&records)
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

    fn ask(message: &Message, over_udp: bool) -> Message {
        let packet = message.to_vec().expect("encodes");
        let response = respond(&packet, &zone(), over_udp).expect("a response");
        Message::from_vec(&response).expect("decodes")
    }

    fn lookup(name: &str, kind: RecordType) -> (ResponseCode, Vec<String>, usize) {
        let response = ask(&query(name, kind, true), true);
        assert_eq!(response.metadata.id, 7);
        assert!(response.metadata.authoritative && !response.metadata.recursion_available);
        let texts = response
            .answers
            .iter()
            .map(|r| format!("{} {} {}", r.name, r.ttl, r.data));
        (
            response.metadata.response_code,
            texts.collect(),
            response.authorities.len(),
        )
    }

    #[test]
    fn records_repeat_the_queried_name_and_have_no_ttl() {
        let (code, records, soa) = lookup("A.TesT.", RecordType::MX);
        assert_eq!((code, soa), (ResponseCode::NoError, 0));
        assert_eq!(records, ["A.TesT. 0 10 inbound.sandbox.localhost."]);
        let (_, records, _) = lookup("a.test.", RecordType::ANY);
        assert_eq!(records.len(), 2);
        let (_, records, _) = lookup("x.localhost.", RecordType::A);
        assert_eq!(records, ["x.localhost. 0 127.0.0.1"]);
    }

    #[test]
    fn negative_responses_contain_the_soa() {
        assert_eq!(
            lookup("nobody.test.", RecordType::TXT),
            (ResponseCode::NXDomain, vec![], 1)
        );
        assert_eq!(
            lookup("a.test.", RecordType::A),
            (ResponseCode::NoError, vec![], 1)
        );
        assert_eq!(
            lookup("_domainkey.a.test.", RecordType::TXT),
            (ResponseCode::NoError, vec![], 1)
        );
        let (code, records, _) = lookup("test.", RecordType::SOA);
        assert_eq!(code, ResponseCode::NoError);
        assert_eq!(
            records,
            ["test. 0 ns.localhost. hostmaster.localhost. 1 3600 600 86400 0"]
        );
    }

    #[test]
    fn refuses_other_zones_and_unsupported_queries() {
        let response = ask(&query("example.com.", RecordType::A, false), true);
        assert_eq!(response.metadata.response_code, ResponseCode::Refused);
        assert!(!response.metadata.authoritative && response.edns.is_none());

        let mut update = query("a.test.", RecordType::A, false);
        update.metadata.op_code = OpCode::Notify;
        let response = ask(&update, true);
        assert_eq!(response.metadata.response_code, ResponseCode::NotImp);

        let packet = query("a.test.", RecordType::A, false)
            .to_vec()
            .expect("encodes");
        for nonsense in [&b""[..], b"\0\x01\x80", b"\0\x01\x80\0\0\0\0\0\0\0\0\0\0\0"] {
            assert_eq!(respond(nonsense, &zone(), true), None);
        }

        let cut = respond(&packet[..14], &zone(), true).expect("a response");
        let cut = Message::from_vec(&cut).expect("decodes");
        assert_eq!(
            (cut.metadata.id, cut.metadata.response_code),
            (7, ResponseCode::FormErr)
        );

        let mut newer = query("a.test.", RecordType::A, true);
        newer.edns.as_mut().expect("EDNS").set_version(1);
        // It has the same code as another error.
        let code = u16::from(ask(&newer, true).metadata.response_code);
        assert_eq!(code, u16::from(ResponseCode::BADVERS));
    }

    #[test]
    fn long_texts_are_split_into_strings() {
        let response = ask(&query("s1._domainkey.a.test.", RecordType::TXT, true), true);
        let RData::TXT(text) = &response.answers[0].data else {
            panic!("not a TXT record")
        };
        let lengths: Vec<_> = text.txt_data.iter().map(|s| s.len()).collect();
        assert_eq!(lengths, [255, 145]);
    }

    #[test]
    fn large_responses_are_truncated_over_udp_and_complete_over_tcp() {
        for (edns, size) in [(false, 512), (true, 1232)] {
            let question = query("big.test.", RecordType::TXT, edns);
            let udp = respond(&question.to_vec().expect("encodes"), &zone(), true);
            let udp = udp.expect("a response");
            assert!(udp.len() <= size);
            let udp = Message::from_vec(&udp).expect("decodes");
            assert!(udp.metadata.truncation && udp.answers.is_empty() && udp.queries.len() == 1);
            let tcp = ask(&question, false);
            assert!(!tcp.metadata.truncation);
            assert_eq!(tcp.answers.len(), 10);
        }
    }

    #[tokio::test]
    async fn serves_udp_and_tcp_on_the_same_port() {
        let started = start("127.0.0.1:0".parse().expect("an address"), zone());
        let (address, _) = started.await.expect("started");
        let question = query("a.test.", RecordType::MX, true)
            .to_vec()
            .expect("encodes");

        // The server was dropped, so its port is closed.
        assert!(TcpStream::connect(address).await.is_err());

        let (again, _tasks) = start(address, zone()).await.expect("started again");
        assert_eq!(again, address);
        let udp = UdpSocket::bind("127.0.0.1:0").await.expect("bound");
        udp.send_to(&question, address).await.expect("sent");
        let mut buffer = [0; 2048];
        let length = udp.recv(&mut buffer).await.expect("received");
        let over_udp = buffer[..length].to_vec();
        let mut tcp = TcpStream::connect(address).await.expect("connected");
        for _ in 0..2 {
            let framed = [&(question.len() as u16).to_be_bytes()[..], &question].concat();
            tcp.write_all(&framed).await.expect("written");
            let mut response = vec![0; tcp.read_u16().await.expect("a length").into()];
            tcp.read_exact(&mut response).await.expect("a response");
            assert_eq!(response, over_udp);
        }
    }
}
