//! DNS: the records that a sending domain must publish, the built-in zone that can hold
//! them, the name server for that zone, and the checks that look the records up.

mod check;
mod resolver;
mod server;
mod spf;
mod zone;

pub(crate) use check::{Check, check, tag};
pub(crate) use resolver::Resolver;
pub(crate) use server::DnsServer;
pub(crate) use spf::evaluate as evaluate_spf;
pub(crate) use zone::{Zone, is_reserved};

/// A name server for tests that answers with one TXT record for one name.
#[cfg(test)]
pub(crate) mod testing {
    use std::net::SocketAddr;
    use std::sync::Arc;

    use hickory_proto::op::Message;
    use hickory_proto::rr::RData;
    use hickory_proto::rr::rdata::TXT;
    use tokio::net::UdpSocket;

    use super::Zone;
    use crate::model::dns::{Record, RecordKind};

    /// A zone with these records, each with its name and its value.
    pub(crate) fn zone(records: &[(RecordKind, &str, &str)]) -> Arc<Zone> {
        let record = |(kind, name, value): &(RecordKind, &str, &str)| {
            Record::new(*kind, (*name).to_owned(), (*value).to_owned(), Some(10))
        };
        let zone = Zone::new();
        zone.set(&records.iter().map(record).collect::<Vec<_>>());
        Arc::new(zone)
    }

    /// Runs until the test's runtime ends.
    pub(crate) async fn serve(name: &'static str, text: &'static str) -> SocketAddr {
        let socket = UdpSocket::bind("127.0.0.1:0").await.expect("bound");
        let address = socket.local_addr().expect("an address");
        tokio::spawn(async move {
            let mut buffer = [0; 2048];
            while let Ok((length, peer)) = socket.recv_from(&mut buffer).await {
                let query = Message::from_vec(&buffer[..length]).expect("decodes");
                let mut response = Message::response(query.metadata.id, query.metadata.op_code);
                response.add_queries(query.queries.iter().cloned());
                let queried = query.queries[0].name().clone();
                if queried.to_ascii().trim_end_matches('.').eq_ignore_ascii_case(name) {
                    let text = RData::TXT(TXT::new(vec![text.to_owned()]));
                    response.add_answer(hickory_proto::rr::Record::from_rdata(queried, 0, text));
                }
                let bytes = response.to_vec().expect("encodes");
                socket.send_to(&bytes, peer).await.expect("sent");
            }
        });
        address
    }
}
