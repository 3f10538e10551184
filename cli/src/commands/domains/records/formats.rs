//! DNS records in the formats of other tools.

use std::fmt::Write as _;

use svc_sdk::email::DnsRecord;

/// Maximum length of one string in a TXT record (RFC 1035).
const MAX_STRING: usize = 255;

/// Zone file lines, as BIND reads them.
pub(super) fn bind(records: &[DnsRecord]) -> String {
    let mut text = String::new();
    for (name, kind, value) in records.iter().filter_map(parts) {
        let data = match kind {
            "TXT" => strings(value).map(|part| quoted(&part)).collect::<Vec<_>>().join(" "),
            _ => format!("{value}."),
        };
        let priority = priority(records, name, kind).map(|p| format!("{p} ")).unwrap_or_default();
        writeln!(text, "{name}. 3600 IN {kind} {priority}{data}")
            .expect("writing to a string cannot fail");
    }
    text
}

/// `aws_route53_record` resources of Terraform's AWS provider.
pub(super) fn terraform(records: &[DnsRecord]) -> String {
    let mut text = String::from("variable \"zone_id\" {\n  type = string\n}\n");
    for (index, record) in records.iter().enumerate() {
        let Some((name, kind, value)) = parts(record) else { continue };
        let data = match kind {
            // The provider quotes the whole value: only the inner quotes are added here.
            "TXT" => strings(value).map(|part| hcl(&part)).collect::<Vec<_>>().join("\\\"\\\""),
            _ => hcl(value),
        };
        let priority = record.priority.map(|p| format!("{p} ")).unwrap_or_default();
        let label = record.kind.clone().unwrap_or_else(|| format!("record_{index}"));
        let label = label.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        let (name, kind) = (hcl(name), hcl(kind));
        writeln!(
            text,
            "\nresource \"aws_route53_record\" \"{label}\" {{\n  zone_id = var.zone_id\n  \
             name    = \"{name}\"\n  type    = \"{kind}\"\n  ttl     = 3600\n  \
             records = [\"{priority}{data}\"]\n}}"
        )
        .expect("writing to a string cannot fail");
    }
    text
}

fn parts(record: &DnsRecord) -> Option<(&str, &str, &str)> {
    let kind = record.record_type.as_deref()?;
    let value = record.value.as_deref()?;
    Some((
        record.name.as_deref()?.trim_end_matches('.'),
        kind,
        // A trailing dot is part of a text, but not of a host name.
        if kind == "TXT" { value } else { value.trim_end_matches('.') },
    ))
}

/// Escapes text for a quoted string of Terraform, so that it is never read as a template.
fn hcl(text: &str) -> String {
    let mut safe = String::new();
    for character in text.chars() {
        match character {
            '\\' => safe.push_str("\\\\"),
            '"' => safe.push_str("\\\""),
            c if c.is_control() => {
                write!(safe, "\\u{:04x}", u32::from(c)).expect("writing to a string cannot fail");
            }
            c => safe.push(c),
        }
    }
    safe.replace("${", "$${").replace("%{", "%%{")
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
        characters.chunks(MAX_STRING).map(|part| part.iter().collect()).collect::<Vec<String>>();
    parts.into_iter()
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use svc_sdk::email::Domain;

    use super::*;

    #[test]
    fn record_values_are_escaped_in_every_format() {
        let domain = json!({"id": "dom_1", "records": [
            {"kind": "spf", "type": "TXT", "name": "a.test.", "value": "say \"${var.x}\" %{if} \\ ."},
            {"kind": "mx", "type": "MX", "name": "a.test", "value": "in.test.", "priority": 10},
        ]});
        let records = serde_json::from_value::<Domain>(domain).expect("a domain").dns_records();
        assert_eq!(
            bind(&records),
            "a.test. 3600 IN TXT \"say \\\"${var.x}\\\" %{if} \\\\ .\"\n\
             a.test. 3600 IN MX 10 in.test.\n"
        );
        let terraform = terraform(&records);
        assert!(
            terraform.contains(r#"records = ["say \"$${var.x}\" %%{if} \\ ."]"#),
            "{terraform}"
        );
        assert!(terraform.contains(r#"records = ["10 in.test"]"#), "{terraform}");
    }
}
