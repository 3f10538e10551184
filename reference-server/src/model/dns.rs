//! The DNS records that a sending domain must publish, and the result of looking one up (`Check`).
//! `records` makes the four of a domain: MX, SPF, DKIM and DMARC. They point to `INBOUND_HOST` and
//! `SPF_HOST`, which the built-in zone answers for. `RecordKind::ALL` has the documented order.
//! `mail/dns/check.rs` looks them up; `domains/domain_api.rs` stores the result.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The host that receives mail for every domain. Names under `.localhost` resolve to
/// this machine, so the MX record points to the SMTP listener.
pub(crate) const INBOUND_HOST: &str = "inbound.sandbox.localhost";

/// Host whose SPF policy lists the sending addresses.
pub(crate) const SPF_HOST: &str = "spf.inbound.sandbox.localhost";

/// The records that a domain has to publish
/// (`docs/undocumented/services.md#dns-records`), in the documented order: MX,
/// SPF, DKIM, DMARC.
///
/// `public_key` is the value of `SigningKey::record`.
pub(crate) fn records(domain: &str, selector: &str, public_key: &str) -> [Record; 4] {
    let spf = format!("v=spf1 include:{SPF_HOST} ~all");
    let dkim = format!("{selector}._domainkey.{domain}");
    let dmarc = "v=DMARC1; p=none".to_owned();
    [
        Record::new(
            RecordKind::Mx,
            domain.to_owned(),
            INBOUND_HOST.to_owned(),
            Some(10),
        ),
        Record::new(RecordKind::Spf, domain.to_owned(), spf, None),
        Record::new(RecordKind::Dkim, dkim, public_key.to_owned(), None),
        Record::new(RecordKind::Dmarc, format!("_dmarc.{domain}"), dmarc, None),
    ]
}

/// One DNS record that a domain has to publish.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DnsRecord")]
#[non_exhaustive]
pub struct Record {
    /// The purpose of the record.
    pub kind: RecordKind,
    /// The type in the DNS.
    pub r#type: RecordType,
    /// The name that it belongs to.
    pub name: String,
    /// The content of the record.
    pub value: String,
    /// Only for an MX record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u16>,
}

impl Record {
    pub(crate) fn new(
        kind: RecordKind,
        name: String,
        value: String,
        priority: Option<u16>,
    ) -> Self {
        let r#type = if kind == RecordKind::Mx {
            RecordType::Mx
        } else {
            RecordType::Txt
        };
        Self {
            kind,
            r#type,
            name,
            value,
            priority,
        }
    }
}

/// The result of looking up a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DnsCheck")]
pub(crate) struct Check {
    pub(crate) kind: RecordKind,
    pub(crate) name: String,
    pub(crate) expected: String,
    pub(crate) found: Vec<String>,
    #[serde(rename = "verified")]
    pub(crate) passed: bool,
    /// Why the check failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
}

/// The purpose of a DNS record.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "DnsRecordKind")]
#[non_exhaustive]
pub enum RecordKind {
    /// Where mail for the domain goes.
    Mx,
    /// Which hosts may send mail of the domain.
    Spf,
    /// The public key of the signatures.
    Dkim,
    /// The policy for mail that fails the checks.
    Dmarc,
}

impl RecordKind {
    pub(crate) const ALL: [Self; 4] = [Self::Mx, Self::Spf, Self::Dkim, Self::Dmarc];

    /// `mx`, `spf`, `dkim` or `dmarc`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mx => "mx",
            Self::Spf => "spf",
            Self::Dkim => "dkim",
            Self::Dmarc => "dmarc",
        }
    }
}

names!(RecordKind);

/// The type of a DNS record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[schemars(rename = "DnsRecordType")]
#[non_exhaustive]
pub enum RecordType {
    /// A mail exchanger.
    Mx,
    /// Text.
    Txt,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_serialize_as_documented() {
        let records = records("sandbox.test", "s1", "v=DKIM1; k=rsa; p=AAAA");
        assert_eq!(
            serde_json::to_string_pretty(&records).expect("JSON"),
            r#"[
  {
    "kind": "mx",
    "type": "MX",
    "name": "sandbox.test",
    "value": "inbound.sandbox.localhost",
    "priority": 10
  },
  {
    "kind": "spf",
    "type": "TXT",
    "name": "sandbox.test",
    "value": "v=spf1 include:spf.inbound.sandbox.localhost ~all"
  },
  {
    "kind": "dkim",
    "type": "TXT",
    "name": "s1._domainkey.sandbox.test",
    "value": "v=DKIM1; k=rsa; p=AAAA"
  },
  {
    "kind": "dmarc",
    "type": "TXT",
    "name": "_dmarc.sandbox.test",
    "value": "v=DMARC1; p=none"
  }
]"#
        );
        let text = serde_json::to_string(&records).expect("JSON");
        assert_eq!(
            serde_json::from_str::<[Record; 4]>(&text).expect("records"),
            records
        );
        assert_eq!("dkim".parse(), Ok(RecordKind::Dkim));
        assert!("DKIM".parse::<RecordKind>().is_err());
    }
}
