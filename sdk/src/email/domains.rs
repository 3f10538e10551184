//! Sending domains (`docs/email-service/domains.md`).

use std::fmt;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::check_extra;
use crate::Extra;

use crate::client::{Call, Deleted, Payload, Resource, Shared, Wait};
use crate::decode::record;
use crate::request::request_type;

use crate::{Error, List, Operation};

record! {
    /// A sending domain.
    pub struct Domain {
        /// The domain's id; empty if the response has none.
        pub id: String = "id";
        /// The domain name.
        pub name: Option<String> = "name";
        /// The MX check's result.
        pub mx_verified: Option<bool> = "mx_verified";
        /// The SPF check's result.
        pub spf_verified: Option<bool> = "spf_verified";
        /// The DKIM check's result.
        pub dkim_verified: Option<bool> = "dkim_verified";
        /// The DMARC check's result.
        pub dmarc_verified: Option<bool> = "dmarc_verified";
        /// Whether all four checks passed.
        pub verified: Option<bool> = "verified";
    }
}

impl Resource for Domain {
    const NOUN: &'static str = "a domain";

    fn is_identified(&self) -> bool {
        !self.id.is_empty()
    }
}

impl Domain {
    /// The DNS records to publish, if the response contains them.
    pub fn dns_records(&self) -> Vec<DnsRecord> {
        dns_records(&self.extra)
    }
}

record! {
    /// The result of a domain verification.
    pub struct Verification {
        /// Whether all four checks passed.
        pub verified: Option<bool> = "verified";
        /// The MX check's result.
        pub mx_verified: Option<bool> = "mx_verified";
        /// The SPF check's result.
        pub spf_verified: Option<bool> = "spf_verified";
        /// The DKIM check's result.
        pub dkim_verified: Option<bool> = "dkim_verified";
        /// The DMARC check's result.
        pub dmarc_verified: Option<bool> = "dmarc_verified";
    }
}

impl Resource for Verification {
    const NOUN: &'static str = "the result of a verification";

    fn is_identified(&self) -> bool {
        *self != Self { extra: self.extra.clone(), ..Self::default() }
    }
}

impl Verification {
    /// True if the domain is verified: according to `verified`, or if that is missing, if
    /// all four checks passed.
    pub fn is_verified(&self) -> bool {
        let flags = [self.mx_verified, self.spf_verified, self.dkim_verified, self.dmarc_verified];
        self.verified.unwrap_or_else(|| flags.iter().all(|flag| *flag == Some(true)))
    }
}

/// A DNS record to publish (`docs/undocumented/email-service.md#dns-records`).
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct DnsRecord {
    /// The purpose, such as `mx`, `spf`, `dkim` or `dmarc`.
    pub kind: Option<String>,
    /// The record type, such as `MX` or `TXT`.
    pub record_type: Option<String>,
    /// The DNS name to publish the record under.
    pub name: Option<String>,
    /// The record's value.
    pub value: Option<String>,
    /// The priority of an MX record.
    pub priority: Option<u64>,
    /// All fields of the record, unmodified.
    pub raw: Map<String, Value>,
}

impl DnsRecord {
    fn read(kind: Option<&str>, raw: &Map<String, Value>) -> Self {
        let text = |names: &[&str]| {
            names.iter().find_map(|name| raw.get(*name)?.as_str()).map(str::to_owned)
        };
        Self {
            kind: text(&["kind", "purpose", "record"]).or_else(|| kind.map(str::to_owned)),
            record_type: text(&["type", "recordType", "record_type"]),
            name: text(&["name", "host", "hostname"]),
            value: text(&["value", "content", "data", "target"]),
            priority: raw.get("priority").and_then(Value::as_u64),
            raw: raw.clone(),
        }
    }
}

/// Records are an array of objects, or an object with one field per kind.
fn dns_records(extra: &Extra) -> Vec<DnsRecord> {
    const NAMES: [&str; 4] = ["records", "dnsRecords", "dns_records", "dns"];
    for value in NAMES.iter().filter_map(|name| extra.get(name)) {
        match value {
            Value::Array(items) => {
                return items
                    .iter()
                    .filter_map(Value::as_object)
                    .map(|raw| DnsRecord::read(None, raw))
                    .collect();
            }
            Value::Object(kinds) => {
                return kinds
                    .iter()
                    .filter_map(|(kind, value)| Some((kind, value.as_object()?)))
                    .map(|(kind, raw)| DnsRecord::read(Some(kind), raw))
                    .collect();
            }
            _ => {}
        }
    }
    Vec::new()
}

/// The parameters of a new domain. A string converts into one with that name.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NewDomain {
    /// The domain name.
    pub name: String,
    /// Additional fields without a setter of their own; sent as given.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

request_type!(NewDomain);

impl NewDomain {
    /// Creates the parameters for a domain with this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), extra: Map::new() }
    }
}

/// Shows the name only: other fields may hold private data.
impl fmt::Debug for NewDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewDomain").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<T: Into<String>> From<T> for NewDomain {
    fn from(name: T) -> Self {
        Self::new(name)
    }
}

/// The operations on domains. All of them require the scope `domains:manage`.
#[derive(Clone, Debug)]
pub struct Domains {
    pub(crate) shared: std::sync::Arc<Shared>,
}

impl Domains {
    /// Adds a domain. `domain` can be a name. The response contains the DNS records to publish, see
    /// [`Domain::dns_records`].
    pub fn create(&self, domain: impl Into<NewDomain>) -> Call<Domain> {
        let domain = domain.into();
        let payload = || -> Result<Payload, Error> {
            check_extra(&domain.extra, &[("name", true)])?;
            Payload::json(&domain)
        };
        Call::new(&self.shared, Operation::DomainsCreate, &[], payload())
    }

    /// Lists all domains.
    pub fn list(&self) -> Call<List<Domain>> {
        Call::new(&self.shared, Operation::DomainsList, &[], Ok(Payload::Empty))
    }

    /// Makes the service check the domain's DNS records now. Returns the result of each
    /// check.
    ///
    /// ```no_run
    /// # async fn f(client: svc_sdk::EmailClient) -> Result<(), svc_sdk::Error> {
    /// let result = client.domains().verify("dom_1").await?;
    /// println!("verified: {}", result.is_verified());
    /// # Ok(())
    /// # }
    /// ```
    pub fn verify(&self, id: impl AsRef<str>) -> Call<Verification> {
        Call::new(&self.shared, Operation::DomainsVerify, &[id.as_ref()], Ok(Payload::Empty))
    }

    /// Repeats [`verify`](Self::verify) until the domain is verified. DNS changes can take
    /// minutes to hours to become visible.
    ///
    /// ```no_run
    /// # async fn f(client: svc_sdk::EmailClient) -> Result<(), svc_sdk::Error> {
    /// use std::time::Duration;
    ///
    /// let domain = client.domains().create("shop.example").await?;
    /// for record in domain.dns_records() {
    ///     println!("{:?} {:?} {:?}", record.record_type, record.name, record.value);
    /// }
    /// let hour = Duration::from_secs(3_600);
    /// client.domains().wait_until_verified(&domain.id).timeout(hour).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait_until_verified(&self, id: impl AsRef<str>) -> Wait<Verification> {
        let (domains, id) = (self.clone(), id.as_ref().to_owned());
        let is_same = |a: &Verification, b: &Verification| {
            (a.verified, a.mx_verified, a.spf_verified, a.dkim_verified, a.dmarc_verified)
                == (b.verified, b.mx_verified, b.spf_verified, b.dkim_verified, b.dmarc_verified)
        };
        Wait::new(
            Operation::DomainsVerify,
            move || domains.verify(&id),
            Verification::is_verified,
            is_same,
        )
        .poll_interval(Duration::from_secs(2), Duration::from_secs(30))
    }

    /// Permanently deletes a domain and all mailboxes under it.
    pub fn delete(&self, id: impl AsRef<str>) -> Call<Deleted> {
        Call::new(&self.shared, Operation::DomainsDelete, &[id.as_ref()], Ok(Payload::Empty))
    }
}
