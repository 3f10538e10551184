//! The built-in DNS server, queried with `dig`.

use std::process::Stdio;

use tokio::process::Command;

use crate::sandbox::Sandbox;

/// Long enough that a response with a DKIM key exceeds 512 bytes.
const DOMAIN: &str = "a-label-that-is-as-long-as-a-label-of-a-domain-name-may-well-be.\
                      another-label-of-much-the-same-length-and-as-little-sense-in-it.shop.test";

/// Runs `dig` against this server and returns its output.
async fn dig(sandbox: &Sandbox, args: &[&str]) -> String {
    let addr = sandbox.server.addresses().dns;
    let output = Command::new("dig")
        .args([
            format!("@{}", addr.ip()),
            "-p".to_owned(),
            addr.port().to_string(),
        ])
        .args(["+tries=1", "+time=20", "+nocookie"])
        .args(args)
        .stdin(Stdio::null())
        .output()
        .await
        .expect("dig runs (Debian package bind9-dnsutils)");
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

async fn published(sandbox: &Sandbox) -> Vec<(String, String, String)> {
    let body = format!(r#"{{"name":"{DOMAIN}"}}"#);
    let created = sandbox.call("POST /api/v1/domains", &body).await;
    sandbox
        .call(&format!("POST /_sandbox/dns/{DOMAIN}/publish"), "")
        .await;
    let records = created["records"].as_array().expect("records");
    let text = |record: &serde_json::Value, field: &str| {
        record[field].as_str().expect("a text").to_owned()
    };
    let records = records.iter().map(|record| {
        let value = match record["priority"].as_u64() {
            Some(priority) => format!("{priority} {}.", text(record, "value")),
            None => text(record, "value"),
        };
        (text(record, "name"), text(record, "type"), value)
    });
    records.collect()
}

/// Joins the strings of a TXT record in a line of `+short` output.
fn joined(line: &str) -> String {
    let line = line.trim_end();
    if line.starts_with('"') {
        line.replace("\" \"", "").replace('"', "")
    } else {
        line.to_owned()
    }
}

#[tokio::test]
async fn records_are_found_over_udp_and_tcp() {
    let sandbox = Sandbox::start(|builder| builder).await;
    let records = published(&sandbox).await;
    assert_eq!(records.len(), 4);
    for (name, kind, value) in &records {
        for transport in ["+notcp", "+tcp"] {
            let response = dig(&sandbox, &["+short", transport, name, kind]).await;
            assert_eq!(joined(&response), *value, "{name} {kind} {transport}");
            // Names are case-insensitive.
            let uppercase = name.to_uppercase();
            let response = dig(&sandbox, &["+short", transport, &uppercase, kind]).await;
            assert_eq!(joined(&response), *value, "{uppercase} {kind} {transport}");
        }
    }
}

#[tokio::test]
async fn large_responses_are_truncated_and_retried_over_tcp() {
    let sandbox = Sandbox::start(|builder| builder).await;
    let records = published(&sandbox).await;
    let key = records
        .iter()
        .find(|(name, ..)| name.contains("._domainkey."))
        .expect("a key");
    let truncated = dig(&sandbox, &["+noedns", "+notcp", "+ignore", &key.0, "TXT"]).await;
    let flags = truncated
        .lines()
        .find(|line| line.starts_with(";; flags:"))
        .expect("flags");
    assert!(
        flags.contains(" tc") && flags.contains("ANSWER: 0"),
        "{truncated}"
    );

    let complete = dig(&sandbox, &["+noedns", "+short", &key.0, "TXT"]).await;
    let response = complete
        .lines()
        .find(|line| line.starts_with('"'))
        .expect("a response");
    assert_eq!(joined(response), key.2, "{complete}");
}

#[tokio::test]
async fn missing_names_and_other_zones_have_different_statuses() {
    let sandbox = Sandbox::start(|builder| builder).await;
    published(&sandbox).await;
    for (name, kind, status, section) in [
        ("nobody.test", "TXT", "NXDOMAIN", "SOA"),
        (DOMAIN, "A", "NOERROR", "SOA"),
        ("example.com", "TXT", "REFUSED", ""),
    ] {
        let response = dig(&sandbox, &[name, kind]).await;
        assert!(
            response.contains(&format!("status: {status},")),
            "{response}"
        );
        assert!(
            response.contains("ANSWER: 0,") && response.contains(section),
            "{response}"
        );
    }

    sandbox
        .call(&format!("DELETE /_sandbox/dns/{DOMAIN}"), "")
        .await;
    let withdrawn = dig(&sandbox, &[DOMAIN, "MX"]).await;
    assert!(withdrawn.contains("status: NXDOMAIN,"), "{withdrawn}");
}
