//! Writes DNS records for other tools: a zone file (`bind`) and Terraform (`terraform`). Names and
//! values come from a service, so they are escaped for the format, and can end neither a line nor a
//! string. Records without a type, name or value are left out. `domains/records.rs` chooses the
//! format.

use std::fmt::Write as _;

use svc_sdk::email::DnsRecord;

/// Maximum length of one string in a TXT record (RFC 1035).
const MAX_STRING: usize = 255;

/// Zone file lines, as BIND reads them.
pub(super) fn bind(records: &[DnsRecord]) -> String {
    let mut text = String::new();
    for record in records {
        let Some((name, kind, value)) = parts(record) else {
            continue;
        };
        let data = match kind {
            "TXT" => strings(value)
                .map(|part| quoted(&part))
                .collect::<Vec<_>>()
                .join(" "),
            _ => format!("{}.", zone_name(value)),
        };
        let name = zone_name(name);
        let kind = zone_name(kind);
        let priority = priority(record);
        writeln!(text, "{name}. 3600 IN {kind} {priority}{data}")
            .expect("writing to a string cannot fail");
    }
    text
}

/// `aws_route53_record` resources of Terraform's AWS provider. Route 53 has one record set for
/// each name and type, so records that share both are one resource.
pub(super) fn terraform(records: &[DnsRecord]) -> String {
    let mut sets: Vec<(&str, &str, String, Vec<String>)> = Vec::new();
    for record in records {
        let Some((name, kind, value)) = parts(record) else {
            continue;
        };
        let data = match kind {
            // The provider quotes the whole value: only the inner quotes are added here.
            "TXT" => strings(value)
                .map(|part| hcl(&part))
                .collect::<Vec<_>>()
                .join("\\\"\\\""),
            _ => hcl(value),
        };
        let data = format!("\"{}{data}\"", priority(record));
        match sets.iter_mut().find(|(n, k, ..)| (*n, *k) == (name, kind)) {
            Some((.., values)) => values.push(data),
            None => {
                let label = record.kind.as_deref().unwrap_or("record");
                let label = label.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
                sets.push((name, kind, label, vec![data]));
            }
        }
    }

    let mut text = String::from("variable \"zone_id\" {\n  type = string\n}\n");
    for (index, (name, kind, label, values)) in sets.iter().enumerate() {
        let is_repeated = sets
            .iter()
            .filter(|(_, _, other, _)| other == label)
            .count()
            > 1;
        let label = if is_repeated {
            format!("{label}_{index}")
        } else {
            label.clone()
        };
        let name = hcl(name);
        let kind = hcl(kind);
        let values = values.join(", ");
        writeln!(
            text,
            "\nresource \"aws_route53_record\" \"{label}\" {{\n  zone_id = var.zone_id\n  \
             name    = \"{name}\"\n  type    = \"{kind}\"\n  ttl     = 3600\n  \
             records = [{values}]\n}}"
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
        if kind == "TXT" {
            value
        } else {
            value.trim_end_matches('.')
        },
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

/// The priority of the record with a space, empty without one.
fn priority(record: &DnsRecord) -> String {
    record
        .priority
        .map(|priority| format!("{priority} "))
        .unwrap_or_default()
}

fn strings(value: &str) -> impl Iterator<Item = String> + '_ {
    let characters = value.chars().collect::<Vec<_>>();
    let parts = characters
        .chunks(MAX_STRING)
        .map(|part| part.iter().collect())
        .collect::<Vec<String>>();
    parts.into_iter()
}

/// A quoted string of a zone file.
fn quoted(text: &str) -> String {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
    format!("\"{}\"", escaped(text, is_plain))
}

/// A name of a zone file, or another word outside of quotes.
fn zone_name(text: &str) -> String {
    escaped(text, |byte| {
        byte.is_ascii_alphanumeric() || b"-_.*".contains(&byte)
    })
}

/// Escapes the bytes that are not plain as `\DDD` (RFC 1035 §5.1).
fn escaped(text: &str, is_plain: impl Fn(u8) -> bool) -> String {
    let mut safe = String::new();
    for byte in text.bytes() {
        match byte {
            _ if is_plain(byte) => safe.push(char::from(byte)),
            b'"' | b'\\' => safe.extend(['\\', char::from(byte)]),
            _ => write!(safe, "\\{byte:03}").expect("writing to a string cannot fail"),
        }
    }
    safe
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
        let records = serde_json::from_value::<Domain>(domain)
            .expect("a domain")
            .dns_records();
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
        assert!(
            terraform.contains(r#"records = ["10 in.test"]"#),
            "{terraform}"
        );
    }

    #[test]
    fn no_value_adds_a_line_or_a_directive_to_a_zone_file() {
        let domain = json!({"id": "dom_1", "records": [
            {"type": "TXT", "name": "a.test\n$INCLUDE /etc/passwd", "value": "x\n\"; evil"},
            {"type": "MX 1 evil.test.\n@ IN A", "name": "a.test (", "value": "in test;"},
        ]});
        let records = serde_json::from_value::<Domain>(domain)
            .expect("a domain")
            .dns_records();
        assert_eq!(
            bind(&records),
            "a.test\\010\\036INCLUDE\\032\\047etc\\047passwd. 3600 IN TXT \"x\\010\\\"; evil\"\n\
             a.test\\032\\040. 3600 IN MX\\0321\\032evil.test.\\010\\064\\032IN\\032A in\\032test\\059.\n"
        );
    }

    #[test]
    fn records_of_one_name_and_type_keep_their_priorities() {
        let mx = |value: &str, priority: u64| json!({"kind": "mx", "type": "MX", "name": "a.test", "value": value, "priority": priority});
        let other = json!({"kind": "mx", "type": "MX", "name": "b.a.test", "value": "in1.test", "priority": 5});
        let domain =
            json!({"id": "dom_1", "records": [mx("in1.test", 10), mx("in2.test", 20), other]});
        let records = serde_json::from_value::<Domain>(domain)
            .expect("a domain")
            .dns_records();
        assert_eq!(
            bind(&records),
            "a.test. 3600 IN MX 10 in1.test.\na.test. 3600 IN MX 20 in2.test.\n\
             b.a.test. 3600 IN MX 5 in1.test.\n"
        );
        let terraform = terraform(&records);
        assert!(
            terraform.contains(r#"records = ["10 in1.test", "20 in2.test"]"#),
            "{terraform}"
        );
        for label in ["mx_0", "mx_1"] {
            let line = format!("resource \"aws_route53_record\" \"{label}\" {{");
            assert_eq!(terraform.matches(&line).count(), 1, "{terraform}");
        }
    }
}
