//! Compares the DNS records that a domain needs with those that DNS returns.

use schemars::JsonSchema;
use serde::Serialize;
use svc_sdk::email::DnsRecord;

use super::Dns;

/// A record that a domain needs.
#[derive(Serialize, JsonSchema)]
pub struct Record<'a> {
    kind: Option<&'a str>,
    #[serde(rename = "type")]
    pub record_type: Option<&'a str>,
    pub name: Option<&'a str>,
    pub priority: Option<u64>,
    pub value: Option<&'a str>,
}

impl<'a> From<&'a DnsRecord> for Record<'a> {
    fn from(record: &'a DnsRecord) -> Self {
        Self {
            kind: record.kind.as_deref(),
            record_type: record.record_type.as_deref(),
            name: record.name.as_deref(),
            priority: record.priority,
            value: record.value.as_deref(),
        }
    }
}

/// A record and what DNS returns for it.
#[derive(Serialize, JsonSchema)]
pub struct Row<'a> {
    #[serde(flatten)]
    pub record: Record<'a>,
    #[serde(flatten)]
    pub result: Comparison,
}

/// The result of comparing one record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Comparison {
    #[serde(rename = "dns")]
    #[schemars(extend("enum" = ["matches", "differs", "missing", "unknown"]))]
    pub state: &'static str,
    /// The reason, unless the record matches.
    pub why: Option<String>,
    /// The values that DNS returned.
    pub found: Vec<String>,
}

/// Looks up every record and compares it.
pub async fn all<'a>(dns: &Dns, records: &'a [DnsRecord]) -> Vec<Row<'a>> {
    let rows = records
        .iter()
        .map(async |record| Row { record: record.into(), result: one(dns, record).await });
    // Concurrently, so that an unresponsive server costs one timeout, not one per record.
    futures_util::future::join_all(rows).await
}

async fn one(dns: &Dns, record: &DnsRecord) -> Comparison {
    let (Some(name), Some(kind), Some(value)) = (&record.name, &record.record_type, &record.value)
    else {
        let why = Some("the service does not return the record's type, name and value".to_owned());
        return Comparison { state: "unknown", why, found: Vec::new() };
    };
    match dns.values(name, kind).await {
        Ok(found) => compare(record.kind.as_deref(), kind, value, record.priority, found),
        Err(why) => Comparison { state: "unknown", why: Some(why), found: Vec::new() },
    }
}

/// Compares the required value of a record with the values found.
pub fn compare(
    purpose: Option<&str>,
    kind: &str,
    value: &str,
    priority: Option<u64>,
    found: Vec<String>,
) -> Comparison {
    let is_mx = kind.eq_ignore_ascii_case("MX");
    let purpose = purpose.map(str::to_ascii_lowercase);
    // A name can carry TXT records of other services; ignore those.
    let relevant = |text: &String| match purpose.as_deref() {
        Some("spf") => text.to_ascii_lowercase().starts_with("v=spf1"),
        Some("dmarc") => text.to_ascii_lowercase().starts_with("v=dmarc1"),
        _ => true,
    };
    let found = found.into_iter().filter(relevant).collect::<Vec<_>>();
    if found.is_empty() {
        let why = Some(format!("no {kind} record found"));
        return Comparison { state: "missing", why, found };
    }
    let problem = if is_mx {
        mx(value, priority, &found)
    } else {
        match purpose.as_deref() {
            Some("spf") => spf(value, &found),
            Some("dmarc") => dmarc(&found),
            Some("dkim") => dkim(value, &found),
            _ => text(value, &found),
        }
    };
    let state = if problem.is_none() { "matches" } else { "differs" };
    Comparison { state, why: problem, found }
}

fn mx(value: &str, priority: Option<u64>, found: &[String]) -> Option<String> {
    let host = value.rsplit(' ').next().unwrap_or(value).trim_end_matches('.');
    let there = found
        .iter()
        .any(|each| each.rsplit(' ').next().is_some_and(|other| other.eq_ignore_ascii_case(host)));
    let shown = priority.map_or_else(|| host.to_owned(), |priority| format!("{priority} {host}"));
    (!there).then(|| format!("mail goes to another host: add {shown}"))
}

fn spf(value: &str, found: &[String]) -> Option<String> {
    if found.len() > 1 {
        return Some(
            "found several SPF records, which receivers treat as an error: merge them".to_owned(),
        );
    }
    let there = found.first()?.to_ascii_lowercase();
    let there = there.split_whitespace().collect::<Vec<_>>();
    let wanted = value.to_ascii_lowercase();
    let missing = wanted
        .split_whitespace()
        .filter(|term| {
            !term.starts_with("v=") && !term.trim_start_matches(['+', '-', '~', '?']).eq("all")
        })
        .find(|term| !there.contains(term));
    missing.map(|term| format!("the SPF record does not contain {term}: add it before `all`"))
}

fn dmarc(found: &[String]) -> Option<String> {
    if found.len() > 1 {
        return Some("found several DMARC records: keep one".to_owned());
    }
    let policy = found.first()?.split(';').find_map(|tag| {
        let (name, value) = tag.split_once('=')?;
        name.trim().eq_ignore_ascii_case("p").then(|| value.trim().to_ascii_lowercase())
    });
    match policy.as_deref() {
        Some("none" | "quarantine" | "reject") => None,
        Some(other) => {
            Some(format!("`p={other}` is not a DMARC policy: use none, quarantine or reject"))
        }
        None => Some("the DMARC record has no policy: add p=none".to_owned()),
    }
}

fn dkim(value: &str, found: &[String]) -> Option<String> {
    let key = |text: &str| {
        text.split(';').find_map(|tag| {
            let (name, value) = tag.split_once('=')?;
            (name.trim() == "p").then(|| value.split_whitespace().collect::<String>())
        })
    };
    let wanted = key(value);
    if found.iter().any(|each| key(each) == wanted) {
        return None;
    }
    let cut = found.iter().filter_map(|each| key(each)).any(|other| {
        wanted.as_deref().is_some_and(|wanted| !other.is_empty() && wanted.starts_with(&other))
    });
    Some(if cut {
        "the key is truncated: split it into strings of at most 255 characters".to_owned()
    } else {
        "the record contains another key".to_owned()
    })
}

fn text(value: &str, found: &[String]) -> Option<String> {
    let same = found.iter().any(|each| each.trim().trim_matches('"') == value.trim());
    (!same).then(|| "the value differs".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(
        kind: &str,
        record: &str,
        value: &str,
        found: &[&str],
    ) -> (&'static str, Option<String>) {
        let found = found.iter().map(|text| (*text).to_owned()).collect();
        let result = compare(Some(kind), record, value, Some(10), found);
        (result.state, result.why)
    }

    #[test]
    fn unrelated_records_do_not_count() {
        assert_eq!(
            check("spf", "TXT", "v=spf1 include:a ~all", &["google-verification=1"]).0,
            "missing"
        );
        assert_eq!(check("mx", "MX", "in.example", &[]).0, "missing");
    }

    #[test]
    fn mail_exchangers_are_compared_by_host() {
        assert_eq!(
            check("mx", "MX", "In.Example.", &["5 other", "20 in.example"]),
            ("matches", None)
        );
        let (state, why) = check("mx", "MX", "in.example", &["5 other"]);
        assert_eq!(
            (state, why.as_deref()),
            ("differs", Some("mail goes to another host: add 10 in.example"))
        );
    }

    #[test]
    fn spf_must_contain_the_required_mechanisms() {
        let value = "v=spf1 include:spf.in.example ~all";
        let good = "v=spf1 include:other include:SPF.in.example -all";
        assert_eq!(check("spf", "TXT", value, &[good, "unrelated"]), ("matches", None));
        let (state, why) = check("spf", "TXT", value, &["v=spf1 include:other -all"]);
        assert_eq!(state, "differs");
        assert!(why.is_some_and(|why| why.contains("include:spf.in.example")));
        assert!(
            check("spf", "TXT", value, &[good, good]).1.is_some_and(|why| why.contains("merge"))
        );
    }

    #[test]
    fn dkim_compares_only_the_key_and_detects_truncation() {
        let value = "v=DKIM1; k=rsa; p=MIIBabc";
        assert_eq!(check("dkim", "TXT", value, &["k=rsa;p=MIIB abc"]), ("matches", None));
        assert!(check("dkim", "TXT", value, &["p=MIIB"]).1.is_some_and(|why| why.contains("255")));
        assert!(
            check("dkim", "TXT", value, &["p=other"])
                .1
                .is_some_and(|why| why.contains("another key"))
        );
    }

    #[test]
    fn dmarc_accepts_every_valid_policy() {
        let value = "v=DMARC1; p=none";
        assert_eq!(check("dmarc", "TXT", value, &["v=DMARC1; p=Reject; rua=x"]), ("matches", None));
        assert_eq!(check("dmarc", "TXT", value, &["v=DMARC1"]).0, "differs");
        assert_eq!(check("dmarc", "TXT", value, &["v=DMARC1; p=maybe"]).0, "differs");
    }
}
