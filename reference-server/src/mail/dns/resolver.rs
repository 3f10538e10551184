//! Looks up TXT, MX and address records. Names under reserved domains, such as `.test`, are found
//! only in the built-in `Zone`, and are never asked for on the network; all others are asked for
//! there, each time anew. A name or record that does not exist is an empty list. A `LookupError`
//! means that it is not known whether it exists, so the checks that use it must not take it for a
//! missing record.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hickory_proto::rr::{Name, RData, RecordType};
use hickory_resolver::net::NetError;
use tokio::time::timeout;

use super::zone::{Zone, is_reserved};
use crate::net::name_servers;

/// Looks up names without a cache.
pub(crate) struct Resolver {
    zone: Arc<Zone>,
    server: Option<SocketAddr>,
}

impl Resolver {
    /// Creates a resolver that asks `server` for names that are not reserved; without
    /// it, the system's name servers.
    pub(crate) fn new(zone: Arc<Zone>, server: Option<SocketAddr>) -> Self {
        Self { zone, server }
    }

    /// Returns the TXT records of a name, the strings of each joined.
    pub(crate) async fn txt(&self, name: &str) -> Result<Vec<String>, LookupError> {
        let records = self.lookup(name, RecordType::TXT).await?;
        Ok(records
            .into_iter()
            .filter_map(|data| match data {
                RData::TXT(text) => {
                    Some(String::from_utf8_lossy(&text.txt_data.concat()).into_owned())
                }
                _ => None,
            })
            .collect())
    }

    /// Returns the mail exchangers of a name, each with its preference.
    pub(crate) async fn mx(&self, name: &str) -> Result<Vec<(u16, String)>, LookupError> {
        let records = self.lookup(name, RecordType::MX).await?;
        Ok(records
            .into_iter()
            .filter_map(|data| match data {
                RData::MX(mx) => Some((mx.preference, without_dot(&mx.exchange.to_ascii()))),
                _ => None,
            })
            .collect())
    }

    /// Returns the addresses of a name, of the same IP version as `like`.
    pub(crate) async fn addresses(
        &self,
        name: &str,
        like: IpAddr,
    ) -> Result<Vec<IpAddr>, LookupError> {
        let kind = if like.is_ipv4() {
            RecordType::A
        } else {
            RecordType::AAAA
        };
        let records = self.lookup(name, kind).await?;
        let found = records.iter().filter_map(RData::ip_addr);
        Ok(found
            .filter(|address| address.is_ipv4() == like.is_ipv4())
            .collect())
    }

    /// Returns the records of a name; none if the name or the record does not exist.
    async fn lookup(&self, name: &str, kind: RecordType) -> Result<Vec<RData>, LookupError> {
        if is_reserved(name) {
            return Ok(self.zone.lookup(name).unwrap_or_default());
        }

        let mut name = Name::from_ascii(name).map_err(|_| LookupError::Failed)?;
        name.set_fqdn(true);
        let upstream = name_servers::resolver(self.server).map_err(|_| LookupError::NoResolver)?;
        let response = timeout(LOOKUP_TIMEOUT, upstream.lookup(name, kind)).await;
        let response = match response.map_err(|_| LookupError::TimedOut)? {
            Ok(response) => response,
            Err(error) if error.is_no_records_found() => return Ok(Vec::new()),
            Err(NetError::Timeout) => return Err(LookupError::TimedOut),
            Err(_) => return Err(LookupError::Failed),
        };
        Ok(response
            .answers()
            .iter()
            .map(|record| record.data.clone())
            .collect())
    }
}

const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

fn without_dot(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_owned()
}

/// The lookup failed, so it is unknown whether the record exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LookupError {
    #[error("no DNS resolver is configured on this system")]
    NoResolver,
    #[error("the DNS lookup timed out")]
    TimedOut,
    #[error("the DNS lookup failed")]
    Failed,
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::net::UdpSocket;

    use super::super::start;
    use super::*;
    use crate::model::dns::{INBOUND_HOST, Record, RecordKind};

    #[tokio::test]
    async fn reserved_names_are_looked_up_in_the_zone() {
        let zone = Arc::new(Zone::new());
        // No server listens on this port. It must not be asked.
        let resolver = Resolver::new(Arc::clone(&zone), "127.0.0.1:1".parse().ok());
        for domain in ["a.test", "a.example", "a.invalid", "a.localhost"] {
            assert_eq!(resolver.txt(domain).await, Ok(vec![]));
            let spf = Record::new(RecordKind::Spf, domain.to_owned(), domain.to_owned(), None);
            zone.set_records(&[spf]);
            assert_eq!(resolver.txt(domain).await, Ok(vec![domain.into()]));
        }

        let like = Ipv4Addr::UNSPECIFIED.into();
        let local = resolver.addresses(INBOUND_HOST, like).await;
        assert_eq!(local, Ok(vec![Ipv4Addr::LOCALHOST.into()]));
    }

    #[tokio::test]
    async fn other_names_are_looked_up_on_the_given_server_every_time() {
        let server = UdpSocket::bind("127.0.0.1:0").await.expect("bound");
        let address = server.local_addr().expect("an address");
        // Answers each query with its number as TXT record.
        tokio::spawn(async move {
            let mut buffer = [0; 2048];
            for number in 1.. {
                let (length, peer) = server.recv_from(&mut buffer).await.expect("received");
                use hickory_proto::op::Message;
                use hickory_proto::rr::{Record, rdata::TXT};
                let query = Message::from_vec(&buffer[..length]).expect("decodes");
                let mut response = Message::response(query.metadata.id, query.metadata.op_code);
                response.add_queries(query.queries.iter().cloned());
                let name = query.queries[0].name().clone();
                let text = RData::TXT(TXT::new(vec!["number ".into(), format!("{number}")]));
                response.add_answer(Record::from_rdata(name, 3600, text));
                let bytes = response.to_vec().expect("encodes");
                server.send_to(&bytes, peer).await.expect("sent");
            }
        });
        let resolver = Resolver::new(Arc::new(Zone::new()), Some(address));
        assert_eq!(
            resolver.txt("Example.com").await,
            Ok(vec!["number 1".into()])
        );
        assert_eq!(
            resolver.txt("example.com").await,
            Ok(vec!["number 2".into()])
        );
    }

    #[tokio::test]
    async fn a_refusal_by_the_name_server_is_a_failed_lookup() {
        let started = start(
            "127.0.0.1:0".parse().expect("an address"),
            Arc::new(Zone::new()),
        );
        let (address, _tasks) = started.await.expect("started");
        let resolver = Resolver::new(Arc::new(Zone::new()), Some(address));
        assert_eq!(resolver.mx("example.com").await, Err(LookupError::Failed));
    }
}
