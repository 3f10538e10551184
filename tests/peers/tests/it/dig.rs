//! The built-in name server, asked by `dig`.

use std::process::Stdio;

use tokio::process::Command;

use crate::sandbox::Sandbox;

/// Long enough that an answer with a DKIM key has no room in 512 bytes.
const DOMAIN: &str = "a-label-that-is-as-long-as-a-label-of-a-domain-name-may-well-be.\
                      another-label-of-much-the-same-length-and-as-little-sense-in-it.shop.test";

/// What `dig` prints when it asks this server.
async fn dig(sandbox: &Sandbox, args: &[&str]) -> String {
    let addr = sandbox.server.addresses().dns;
    let output = Command::new("dig")
        .args([format!("@{}", addr.ip()), "-p".to_owned(), addr.port().to_string()])
        .args(["+tries=1", "+time=20", "+nocookie"])
        .args(args)
        .stdin(Stdio::null())
        .output()
        .await
        .expect("dig, of the package bind9-dnsutils");
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

async fn published(sandbox: &Sandbox) -> Vec<(String, String, String)> {
    let body = format!(r#"{{"name":"{DOMAIN}"}}"#);
    let created = sandbox.call("POST /api/v1/domains", &body).await;
    sandbox.call(&format!("POST /_sandbox/dns/{DOMAIN}/publish"), "").await;
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

/// One line of `+short`: a text may be several strings.
fn joined(line: &str) -> String {
    let line = line.trim_end();
    if line.starts_with('"') { line.replace("\" \"", "").replace('"', "") } else { line.to_owned() }
}

#[tokio::test]
async fn every_record_is_found_over_both_transports() {
    let sandbox = Sandbox::start(|builder| builder).await;
    let records = published(&sandbox).await;
    assert_eq!(records.len(), 4);
    for (name, kind, value) in &records {
        for transport in ["+notcp", "+tcp"] {
            let answer = dig(&sandbox, &["+short", transport, name, kind]).await;
            assert_eq!(joined(&answer), *value, "{name} {kind} {transport}");
            // In any case.
            let loud = name.to_uppercase();
            let answer = dig(&sandbox, &["+short", transport, &loud, kind]).await;
            assert_eq!(joined(&answer), *value, "{loud} {kind} {transport}");
        }
    }
}

#[tokio::test]
async fn what_has_no_room_in_a_datagram_is_asked_for_over_tcp() {
    let sandbox = Sandbox::start(|builder| builder).await;
    let records = published(&sandbox).await;
    let key = records.iter().find(|(name, ..)| name.contains("._domainkey.")).expect("a key");
    let cut = dig(&sandbox, &["+noedns", "+notcp", "+ignore", &key.0, "TXT"]).await;
    let flags = cut.lines().find(|line| line.starts_with(";; flags:")).expect("flags");
    assert!(flags.contains(" tc") && flags.contains("ANSWER: 0"), "{cut}");
    let whole = dig(&sandbox, &["+noedns", "+short", &key.0, "TXT"]).await;
    let answer = whole.lines().find(|line| line.starts_with('"')).expect("an answer");
    assert_eq!(joined(answer), key.2, "{whole}");
}

#[tokio::test]
async fn what_is_not_there_and_what_is_not_ours_is_told_apart() {
    let sandbox = Sandbox::start(|builder| builder).await;
    published(&sandbox).await;
    for (name, kind, status, section) in [
        ("nobody.test", "TXT", "NXDOMAIN", "SOA"),
        (DOMAIN, "A", "NOERROR", "SOA"),
        ("example.com", "TXT", "REFUSED", ""),
    ] {
        let answer = dig(&sandbox, &[name, kind]).await;
        assert!(answer.contains(&format!("status: {status},")), "{answer}");
        assert!(answer.contains("ANSWER: 0,") && answer.contains(section), "{answer}");
    }
    sandbox.call(&format!("DELETE /_sandbox/dns/{DOMAIN}"), "").await;
    let gone = dig(&sandbox, &[DOMAIN, "MX"]).await;
    assert!(gone.contains("status: NXDOMAIN,"), "{gone}");
}
