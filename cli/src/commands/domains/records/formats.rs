//! DNS records as other tools read them.

use std::fmt::Write as _;

use svc_sdk::email::DnsRecord;

/// The longest string inside a TXT record (RFC 1035).
const LONGEST: usize = 255;

/// Lines of a zone file.
pub(super) fn bind(records: &[DnsRecord]) -> String {
    let mut text = String::new();
    for (name, kind, value) in records.iter().filter_map(parts) {
        let data = match kind {
            "TXT" => strings(value).map(|part| quoted(&part)).collect::<Vec<_>>().join(" "),
            _ => format!("{value}."),
        };
        let priority = priority(records, name, kind).map(|p| format!("{p} ")).unwrap_or_default();
        writeln!(text, "{name}. 3600 IN {kind} {priority}{data}")
            .expect("a string takes everything");
    }
    text
}

/// Resources of Terraform's AWS provider, the most common one.
pub(super) fn terraform(records: &[DnsRecord]) -> String {
    let mut text = String::from("variable \"zone_id\" {\n  type = string\n}\n");
    for (index, record) in records.iter().enumerate() {
        let Some((name, kind, value)) = parts(record) else { continue };
        let data = match kind {
            // The provider puts quotes around the whole: the joints are ours.
            "TXT" => strings(value).collect::<Vec<_>>().join("\\\"\\\""),
            _ => value.to_owned(),
        };
        let priority = record.priority.map(|p| format!("{p} ")).unwrap_or_default();
        let label = record.kind.clone().unwrap_or_else(|| format!("record_{index}"));
        let label = label.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        writeln!(
            text,
            "\nresource \"aws_route53_record\" \"{label}\" {{\n  zone_id = var.zone_id\n  \
             name    = \"{name}\"\n  type    = \"{kind}\"\n  ttl     = 3600\n  \
             records = [\"{priority}{data}\"]\n}}"
        )
        .expect("a string takes everything");
    }
    text
}

fn parts(record: &DnsRecord) -> Option<(&str, &str, &str)> {
    Some((
        record.name.as_deref()?.trim_end_matches('.'),
        record.record_type.as_deref()?,
        record.value.as_deref()?.trim_end_matches('.'),
    ))
}

fn priority(records: &[DnsRecord], name: &str, kind: &str) -> Option<u64> {
    if kind != "MX" {
        return None;
    }
    records
        .iter()
        .find(|record| parts(record).is_some_and(|(n, k, _)| n == name && k == kind))
        .and_then(|record| record.priority)
}

fn strings(value: &str) -> impl Iterator<Item = String> + '_ {
    let characters = value.chars().collect::<Vec<_>>();
    let parts =
        characters.chunks(LONGEST).map(|part| part.iter().collect()).collect::<Vec<String>>();
    parts.into_iter()
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
