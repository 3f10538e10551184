//! The DNS records that a sending domain must publish.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The host that receives mail for every domain. Names under `.localhost` resolve to
/// this machine, so the MX record points to the SMTP listener.
pub(crate) const INBOUND_HOST: &str = "inbound.sandbox.localhost";

/// The records that a domain has to publish
/// (`docs/undocumented/email-service.md#dns-records`), in the documented order: MX,
/// SPF, DKIM, DMARC.
///
/// `public_key` is the value of `SigningKey::record`.
pub(crate) fn records(
    domain: &str,
    selector: &str,
    public_key: &str,
    inbound_host: &str,
) -> [Record; 4] {
    let txt = |kind, name, value| Record { kind, name, value, priority: None };
    [
        Record {
            kind: RecordKind::Mx,
            name: domain.to_owned(),
            value: inbound_host.to_owned(),
            priority: Some(10),
        },
        txt(
            RecordKind::Spf,
            domain.to_owned(),
            format!("v=spf1 include:{} ~all", spf_host(inbound_host)),
        ),
        txt(RecordKind::Dkim, format!("{selector}._domainkey.{domain}"), public_key.to_owned()),
        txt(RecordKind::Dmarc, format!("_dmarc.{domain}"), "v=DMARC1; p=none".to_owned()),
    ]
}

/// Host whose SPF policy lists the sending addresses.
pub(crate) fn spf_host(inbound_host: &str) -> String {
    format!("spf.{inbound_host}")
}

/// One DNS record that a domain has to publish.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DnsRecord")]
#[non_exhaustive]
pub struct Record {
    /// Its purpose.
    #[serde(flatten, serialize_with = "kind_and_type", deserialize_with = "kind")]
    #[schemars(with = "KindAndType")]
    pub kind: RecordKind,
    /// The name that it belongs to.
    pub name: String,
    /// Its content.
    pub value: String,
    /// Only for an MX record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u16>,
}

/// The purpose of a DNS record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RecordKind {
    /// Where mail for the domain goes.
    Mx,
    /// Which hosts may send mail of the domain.
    Spf,
    /// The public key of the signatures.
    Dkim,
    /// What to do with mail that fails the checks.
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

    const fn record_type(self) -> &'static str {
        match self {
            Self::Mx => "MX",
            Self::Spf | Self::Dkim | Self::Dmarc => "TXT",
        }
    }
}

impl fmt::Display for RecordKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for RecordKind {
    type Err = UnknownRecordKind;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or(UnknownRecordKind)
    }
}

impl Serialize for RecordKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl JsonSchema for RecordKind {
    fn schema_name() -> Cow<'static, str> {
        "DnsRecordKind".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "enum": Self::ALL.map(Self::as_str)})
    }
}

/// The text is not a record kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be one of mx, spf, dkim, dmarc")]
pub struct UnknownRecordKind;

/// Schema of what `kind_and_type` serializes.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "written field by field")]
struct KindAndType {
    kind: RecordKind,
    r#type: RecordType,
}

#[derive(JsonSchema)]
#[schemars(rename = "DnsRecordType", rename_all = "UPPERCASE")]
#[expect(dead_code, reason = "written as text")]
enum RecordType {
    Mx,
    Txt,
}

fn kind_and_type<S: Serializer>(kind: &RecordKind, serializer: S) -> Result<S::Ok, S::Error> {
    use serde::ser::SerializeMap as _;

    let mut map = serializer.serialize_map(Some(2))?;
    map.serialize_entry("kind", kind.as_str())?;
    map.serialize_entry("type", kind.record_type())?;
    map.end()
}

fn kind<'de, D: Deserializer<'de>>(deserializer: D) -> Result<RecordKind, D::Error> {
    #[derive(Deserialize)]
    struct Kind {
        kind: String,
    }

    let Kind { kind } = Kind::deserialize(deserializer)?;
    kind.parse().map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_serialize_as_documented() {
        let records = records("sandbox.test", "s1", "v=DKIM1; k=rsa; p=AAAA", INBOUND_HOST);
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
        assert_eq!(serde_json::from_str::<[Record; 4]>(&text).expect("records"), records);
        assert_eq!("dkim".parse(), Ok(RecordKind::Dkim));
        assert_eq!("DKIM".parse::<RecordKind>(), Err(UnknownRecordKind));
    }
}
