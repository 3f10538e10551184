//! Sending domains: `Domain` with the results of its four DNS checks, the `DnsRecord`s to publish,
//! `NewDomain`, and the operations, `Domains`. The shape of checks and records is not documented,
//! so `prepare` and `Domain::dns_records` look in all usual places. A check that is not found stays
//! `None`, and a number is never read as the result of one. `wait_until_verified` goes on in
//! `engine/wait.rs`.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::client::collection;
use crate::decode::{self, Extra, resource, take_name, take_pinned};
use crate::dialect::{Dialect, Point};
use crate::engine::{Call, Wait, named_request, payload};
use crate::fields::{Fields, find, flag as fields_flag, plain, whole_number};
use crate::operation::Operation;
use crate::words::WORDS;

resource! {
    /// A sending domain, with the results of its DNS checks.
    #[derive(Debug)]
    Domain, "a domain", "domain", prepare;

    /// The domain name.
    name: Option<String>;

    /// Whether all four checks passed.
    verified: Option<bool> = "decode::flag";

    /// The MX check's result.
    mx_verified: Option<bool> = "decode::flag";

    /// The SPF check's result.
    spf_verified: Option<bool> = "decode::flag";

    /// The DKIM check's result.
    dkim_verified: Option<bool> = "decode::flag";

    /// The DMARC check's result.
    dmarc_verified: Option<bool> = "decode::flag";
}

/// Finds the flags, wherever they are: in an object of their own, by kind.
fn prepare(fields: &mut Fields, dialect: &Dialect) {
    const KINDS: [&str; 4] = ["mx", "spf", "dkim", "dmarc"];

    take_pinned(fields, dialect, Point::DomainRecords, "records");
    take_name(fields, "name", &["domainname", "domain"]);
    let holders: Vec<Fields> = fields
        .values()
        .filter_map(Value::as_object)
        .cloned()
        .collect();
    for flag in KINDS.map(|kind| format!("{kind}_verified")) {
        let kind = flag.trim_end_matches("_verified");
        let plain_flag = plain(&flag);
        let names = [plain_flag.as_str(), kind];
        let found = holders
            .iter()
            .find_map(|holder| verdict(find(holder, &names)?.1));
        let found = found.or_else(|| verdict(find(fields, &[kind])?.1));
        if !fields.contains_key(&flag)
            && let Some(found) = found
        {
            fields.insert(flag, found.into());
        }
    }

    if !fields.contains_key("verified") {
        let inside = |holder: &Fields| verdict(find(holder, &["verified", "isverified"])?.1);
        let word = || {
            let (_, status) = find(fields, &["status", "state", "verificationstatus"])?;
            let is_verified = status.as_str().map(plain).as_deref() == Some("verified");
            is_verified.then_some(true)
        };
        if let Some(found) = holders.iter().find_map(inside).or_else(word) {
            fields.insert("verified".to_owned(), found.into());
        }
    }
}

/// The result of a check: a flag, a word, or an object with one of them.
fn verdict(value: &Value) -> Option<bool> {
    if let Value::Object(check) = value {
        return verdict(find(check, &WORDS.checks)?.1);
    }
    match value.as_str().map(plain).as_deref() {
        Some(word) if WORDS.passed.contains(&word) => Some(true),
        Some(word) if WORDS.not_passed.contains(&word) => Some(false),
        // A number is no verdict.
        _ => fields_flag(value).filter(|_| !value.is_number()),
    }
}

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

    /// The DNS records to publish, if the response contains them: an array of objects, or one
    /// object for each kind.
    pub fn dns_records(&self) -> Vec<DnsRecord> {
        let is_named = |name: &str| {
            let name = plain(name);
            let ends = ["records", "recordset", "recordsets", "dns", "dnsentries"];
            ends.iter().any(|end| name.ends_with(end))
        };

        let mut found = Vec::new();
        for (name, value) in self.extra.iter() {
            if is_named(name) && !value.is_string() {
                found.extend(records(None, value));
            }
        }

        if !found.is_empty() {
            return found;
        }

        // By kind beside the domain, or in a field with any name.
        let others = self.extra.values().map(|value| match value {
            Value::Array(_) => records(None, value),
            Value::Object(inner) => by_kind_or_inside(inner),
            _ => Vec::new(),
        });
        let beside = std::iter::once_with(|| by_kind(&self.extra));
        first_found(beside.chain(others))
    }
}

fn first_found(mut found: impl Iterator<Item = Vec<DnsRecord>>) -> Vec<DnsRecord> {
    found
        .find(|records| !records.is_empty())
        .unwrap_or_default()
}

/// The records of fields that are named by their kind.
fn by_kind(fields: &Fields) -> Vec<DnsRecord> {
    const KINDS: [&str; 7] = ["mx", "spf", "dkim", "dmarc", "txt", "cname", "returnpath"];
    KINDS
        .iter()
        .filter_map(|kind| find(fields, &[kind, &format!("{kind}record")]))
        .flat_map(|(name, value)| records(Some(name), value))
        .collect()
}

fn by_kind_or_inside(fields: &Fields) -> Vec<DnsRecord> {
    let arrays = fields.values().filter(|value| value.is_array());
    let inside = arrays.map(|value| records(None, value));
    first_found(std::iter::once(by_kind(fields)).chain(inside))
}

/// The records of a value: a list, one record, or an object with one field for each kind.
fn records(kind: Option<&String>, value: &Value) -> Vec<DnsRecord> {
    match value {
        Value::Array(items) => items.iter().flat_map(|item| records(kind, item)).collect(),
        Value::Object(fields) => match DnsRecord::read(kind, fields) {
            Some(record) => vec![record],
            None => fields
                .iter()
                .flat_map(|(name, inner)| records(kind.or(Some(name)), inner))
                .collect(),
        },
        _ => Vec::new(),
    }
}

/// A DNS record to publish. Its
/// [shape](https://github.com/svc-tools/svc/blob/main/docs/undocumented/services.md#dns-records)
/// is not documented.
#[derive(Clone, Debug, Default, PartialEq)]
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
    /// `None` if the object has no value of a record.
    fn read(kind: Option<&String>, fields: &Fields) -> Option<Self> {
        let text = |names: &[&str]| Some(find(fields, names)?.1.as_str()?.to_owned());
        let value = text(&WORDS.record_values)?;
        let kind = text(&WORDS.record_kinds).or_else(|| kind.cloned());
        let record_type = text(&WORDS.record_types).or_else(|| type_of(kind.as_deref(), &value));
        Some(Self {
            kind,
            record_type,
            name: text(&WORDS.record_names),
            value: Some(value),
            priority: find(fields, &["priority", "preference", "prio"])
                .and_then(|(_, value)| whole_number(value)),
        })
    }
}

/// The type of a record that says only what it is for. A DKIM key may also be published by a CNAME.
fn type_of(kind: Option<&str>, value: &str) -> Option<String> {
    let is_text = value.starts_with("v=") || value.starts_with("k=") || value.starts_with("p=");
    let record_type = match kind.map(plain)?.trim_end_matches("record") {
        "mx" => "MX",
        "spf" | "dmarc" | "txt" => "TXT",
        "dkim" if is_text => "TXT",
        "cname" => "CNAME",
        _ => return None,
    };
    Some(record_type.to_owned())
}

named_request! {
    /// The parameters of a new domain.
    NewDomain
}

collection! {
    /// The operations on domains. All of them require the scope `domains:manage`.
    Domains of Domain;
    /// Lists the domains.
    list DomainsList;
    /// Permanently deletes a domain and all mailboxes under it.
    delete DomainsDelete;
}

impl Domains {
    /// Adds a domain with this name. The response contains the DNS records to publish,
    /// see [`Domain::dns_records`].
    pub fn create(&self, domain: impl Into<NewDomain>) -> Call<Domain> {
        let payload = payload(domain.into());
        Call::new(&self.shared, Operation::DomainsCreate, &[], payload)
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
        Call::without_body(&self.shared, Operation::DomainsVerify, &[id.as_ref()])
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
        let domains = self.clone();
        let id = id.as_ref().to_owned();
        let is_same = |a: &Domain, b: &Domain| (a.verified, a.flags()) == (b.verified, b.flags());
        let poll = move || domains.verify(&id);
        Wait::new(Operation::DomainsVerify, poll, Domain::is_verified, is_same)
            .poll_interval(Duration::from_secs(2), Duration::from_secs(30))
    }
}
