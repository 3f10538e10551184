//! DNS servers for tests.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::{Arc, Mutex};

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::rdata::{A, NS, TXT};
use hickory_proto::rr::{Name, RData, Record, RecordType};

/// A resolver that records the types of the queries it receives.
pub(super) struct Peer {
    pub(super) address: SocketAddr,
    queries: Arc<Mutex<Vec<RecordType>>>,
}

impl Peer {
    pub(super) fn queries(&self) -> Vec<RecordType> {
        self.queries.lock().expect("no panic").clone()
    }
}

/// A resolver that delegates `shop.test` to `ns.shop.test` on this machine, knows no other zone,
/// and returns an outdated record for every TXT query.
pub(super) fn stale_resolver() -> Peer {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = socket.local_addr().expect("an address");
    let queries = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&queries);
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let Ok(question) = Message::from_vec(&buffer[..length]) else { continue };
            let Some(query) = question.queries.first().cloned() else { continue };
            let (name, kind) = (query.name().clone(), query.query_type());
            log.lock().expect("no panic").push(kind);
            let mut response = Message::response(question.metadata.id, question.metadata.op_code);
            response.metadata.recursion_available = true;
            response.add_query(query);
            let zone = Name::from_ascii("shop.test.").expect("a name");
            let host = Name::from_ascii("ns.shop.test.").expect("a name");
            let data = match kind {
                RecordType::NS if name == zone => Some(RData::NS(NS(host))),
                RecordType::A if name == host => Some(RData::A(A(Ipv4Addr::LOCALHOST))),
                RecordType::TXT => Some(RData::TXT(TXT::new(vec!["v=spf1 old -all".to_owned()]))),
                _ => None,
            };
            match data {
                Some(data) => drop(response.add_answer(Record::from_rdata(name, 3600, data))),
                None if zone.zone_of(&name) => {}
                None => response.metadata.response_code = ResponseCode::NXDomain,
            }
            let _ = socket.send_to(&response.to_vec().expect("a message"), from);
        }
    });
    Peer { address, queries }
}

/// A server with one long TXT record: it returns a truncated response over UDP, and the whole
/// record over TCP.
pub(super) fn truncating_server(text: &str) -> SocketAddr {
    let (tcp, udp) = loop {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        // Both need the same port number, and the UDP port may be taken.
        if let Ok(udp) = UdpSocket::bind(tcp.local_addr().expect("an address")) {
            break (tcp, udp);
        }
    };
    let address = tcp.local_addr().expect("an address");
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok((length, from)) = udp.recv_from(&mut buffer) {
            let question = Message::from_vec(&buffer[..length]).expect("a question");
            let mut response = Message::response(question.metadata.id, question.metadata.op_code);
            response.metadata.truncation = true;
            let _ = udp.send_to(&response.to_vec().expect("a message"), from);
        }
    });
    let parts = text.as_bytes().chunks(255).map(|part| String::from_utf8_lossy(part).into_owned());
    let parts = parts.collect::<Vec<_>>();
    std::thread::spawn(move || {
        for mut stream in tcp.incoming().filter_map(Result::ok) {
            let mut length = [0; 2];
            stream.read_exact(&mut length).expect("a length");
            let mut question = vec![0; usize::from(u16::from_be_bytes(length))];
            stream.read_exact(&mut question).expect("a question");
            let question = Message::from_vec(&question).expect("a question");
            let mut response = Message::response(question.metadata.id, question.metadata.op_code);
            response.metadata.authoritative = true;
            let name = question.queries[0].name().clone();
            response.add_answer(Record::from_rdata(name, 0, RData::TXT(TXT::new(parts.clone()))));
            let bytes = response.to_vec().expect("a message");
            let length = u16::try_from(bytes.len()).expect("it fits").to_be_bytes();
            stream.write_all(&[&length[..], &bytes].concat()).expect("a write");
        }
    });
    address
}

/// An address without a server.
pub(super) fn unused_address() -> SocketAddr {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    socket.local_addr().expect("an address")
}
