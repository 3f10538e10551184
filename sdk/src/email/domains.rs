//! Sending domains, their DNS records and their verification.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::decode::{self, Extra, resource};
use crate::engine::{Call, Deleted, Payload, Shared, Wait, payload, request_type};
use crate::list::List;
use crate::operation::Operation;

/// A sending domain, with the results of its DNS checks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Domain {
    /// The domain's id; empty if the response has none, as after a verification.
    #[serde(
        deserialize_with = "decode::id",
        skip_serializing_if = "String::is_empty"
    )]
    pub id: String,
    /// The domain name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether all four checks passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<bool>,
    /// The MX check's result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mx_verified: Option<bool>,
    /// The SPF check's result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spf_verified: Option<bool>,
    /// The DKIM check's result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dkim_verified: Option<bool>,
    /// The DMARC check's result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dmarc_verified: Option<bool>,
    /// The other fields of the response.
    #[serde(flatten)]
    pub extra: Extra,
}

resource!(Domain, "a domain");

impl Domain {
    /// True if the domain is verified: according to `verified`, or if that is missing, if
    /// all four checks passed.
    pub fn is_verified(&self) -> bool {
        self.verified.unwrap_or(self.flags() == [Some(true); 4])
    }

    fn flags(&self) -> [Option<bool>; 4] {
        [
            self.mx_verified,
            self.spf_verified,
            self.dkim_verified,
            self.dmarc_verified,
        ]
    }

    /// The DNS records to publish, if the response contains them: an array of objects, or an
    /// object with one field per kind.
    pub fn dns_records(&self) -> Vec<DnsRecord> {
        const NAMES: [&str; 4] = ["records", "dnsRecords", "dns_records", "dns"];
        let records = |value: &Value| match value {
            Value::Array(items) => Some(
                items
                    .iter()
                    .filter_map(|item| DnsRecord::read(None, item))
                    .collect(),
            ),
            Value::Object(kinds) => Some(
                kinds
                    .iter()
                    .filter_map(|(kind, item)| DnsRecord::read(Some(kind), item))
                    .collect(),
            ),
            _ => None,
        };
        NAMES
            .iter()
            .find_map(|name| records(self.extra.get(*name)?))
            .unwrap_or_default()
    }
}

/// A DNS record to publish. Its
/// [shape](https://github.com/svc-tools/svc/blob/main/docs/undocumented/services.md#dns-records)
/// is not documented.
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
}

impl DnsRecord {
    fn read(kind: Option<&String>, item: &Value) -> Option<Self> {
        let fields: &Map<String, Value> = item.as_object()?;
        let text = |names: &[&str]| {
            names
                .iter()
                .find_map(|name| fields.get(*name)?.as_str())
                .map(str::to_owned)
        };
        Some(Self {
            kind: text(&["kind", "purpose", "record"]).or_else(|| kind.cloned()),
            record_type: text(&["type", "recordType", "record_type"]),
            name: text(&["name", "host", "hostname"]),
            value: text(&["value", "content", "data", "target"]),
            priority: fields.get("priority").and_then(Value::as_u64),
        })
    }
}

/// The parameters of a new domain. Its name alone converts into it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NewDomain {
    /// The name.
    pub name: String,
    /// Additional fields; sent as given.
    #[serde(flatten)]
    pub extra: Extra,
}

request_type!(NewDomain);

impl NewDomain {
    /// Creates the parameters for a domain with this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            extra: Extra::default(),
        }
    }
}

impl From<&str> for NewDomain {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl From<String> for NewDomain {
    fn from(name: String) -> Self {
        Self::new(name)
    }
}

impl From<&String> for NewDomain {
    fn from(name: &String) -> Self {
        Self::new(name)
    }
}

/// The operations on domains. All of them require the scope `domains:manage`.
#[derive(Clone, Debug)]
pub struct Domains {
    pub(crate) shared: Arc<Shared>,
}

impl Domains {
    /// Adds a domain with this name. The response contains the DNS records to publish,
    /// see [`Domain::dns_records`].
    pub fn create(&self, domain: impl Into<NewDomain>) -> Call<Domain> {
        let payload = payload(domain.into());
        Call::new(&self.shared, Operation::DomainsCreate, &[], payload)
    }

    /// Lists all domains.
    pub fn list(&self) -> Call<List<Domain>> {
        Call::new(
            &self.shared,
            Operation::DomainsList,
            &[],
            Ok(Payload::Empty),
        )
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
    pub fn verify(&self, id: impl AsRef<str>) -> Call<Domain> {
        Call::new(
            &self.shared,
            Operation::DomainsVerify,
            &[id.as_ref()],
            Ok(Payload::Empty),
        )
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
    pub fn wait_until_verified(&self, id: impl AsRef<str>) -> Wait<Domain> {
        let (domains, id) = (self.clone(), id.as_ref().to_owned());
        let is_same = |a: &Domain, b: &Domain| (a.verified, a.flags()) == (b.verified, b.flags());
        let poll = move || domains.verify(&id);
        Wait::new(Operation::DomainsVerify, poll, Domain::is_verified, is_same)
            .poll_interval(Duration::from_secs(2), Duration::from_secs(30))
    }

    /// Permanently deletes a domain and all mailboxes under it.
    pub fn delete(&self, id: impl AsRef<str>) -> Call<Deleted> {
        Call::new(
            &self.shared,
            Operation::DomainsDelete,
            &[id.as_ref()],
            Ok(Payload::Empty),
        )
    }
}
