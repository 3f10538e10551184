//! Organizations that share a server: what the requests of one cost does not delay those of
//! another.

use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::join_all;
use rusqlite::Connection;
use svc_reference_server::Server;

use crate::harness::{Sandbox, private_dir};
use crate::receiver::within;

const CLIENTS: usize = 50;
/// Messages and deliveries of the first organization.
const ROWS: usize = 5_000;

/// A template that takes as many steps as one may.
const SLOW: &str =
    "{% for i in range(999) %}{% for j in range(999) %}{{ i }}{% endfor %}{% endfor %}";

#[tokio::test]
async fn fifty_clients_of_one_organization_with_its_most_expensive_requests() {
    let directory = private_dir();
    let server = Server::builder().data_dir(directory.path()).start().await.expect("started");
    let sandbox = Sandbox::of(server);
    let created = sandbox.control("POST /_sandbox/organizations", r#"{"name":"Other"}"#).await;
    let other = created.between(r#""email_key":""#);
    let body = r#"{"name":"other.test"}"#;
    let domain = sandbox.with_key(&other, "POST /api/v1/domains", body).await.id();
    sandbox.control("POST /_sandbox/dns/other.test/publish?organization=Other", "").await;
    let verify_other = format!("POST /api/v1/domains/{domain}/verify");
    assert_eq!(sandbox.with_key(&other, &verify_other, "").await.status, 200);
    for organization in ["Sandbox", "Other"] {
        let put = format!("PUT /_sandbox/templates/t?organization={organization}");
        let html = if organization == "Other" { "{{ big }}" } else { SLOW };
        assert_eq!(sandbox.control(&put, &format!(r#"{{"html":"{html}"}}"#)).await.status, 200);
    }
    let database = Connection::open(directory.path().join("svc.db")).expect("opened");
    for insert in [
        "message SELECT 1, printf('msg_%05d', n), 'a@sandbox.test', NULL, NULL, 1, NULL",
        "message_source SELECT printf('msg_%05d', n), 'b@x.test', 'subject', 1",
        "delivery SELECT printf('%05d', n), 1, 'whk', 'email', 'email.sent', 'delivered', 1, 1, NULL, 1, 1, NULL",
    ] {
        let (table, values) = insert.split_once(' ').expect("a table");
        let sql = format!(
            "WITH RECURSIVE numbers(n) AS
                 (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < {ROWS})
             INSERT INTO {table} {values} FROM numbers"
        );
        assert_eq!(database.execute(&sql, []).expect(table), ROWS);
    }
    let text = "x".repeat(300_000);
    let large =
        format!(r#"{{"from":"a@sandbox.test","to":"b@x.test","subject":"s","text":"{text}"}}"#);
    let stored = sandbox.call("POST /api/v1/emails", &large).await.id();
    let email = |from: &str, size: usize| {
        format!(
            r#"{{"from":"{from}","to":"b@x.test","subject":"s","templateId":"t","variables":{{"big":"{}"}}}}"#,
            "x".repeat(size)
        )
    };
    let templated = email("a@sandbox.test", 100);
    let inbound = large.replace("b@x.test", "b@sandbox.test");
    let batch = format!("[{}]", vec![large.replace(&text, "x"); 100].join(","));
    let verify = sandbox.call("GET /api/v1/domains", "").await.id();
    let requests: [(String, &str); 9] = [
        ("POST /api/v1/emails".to_owned(), &templated),
        ("POST /api/v1/emails".to_owned(), &large),
        ("POST /api/v1/emails/batch".to_owned(), &batch),
        (format!("GET /api/v1/emails/{stored}"), ""),
        (format!("POST /api/v1/domains/{verify}/verify"), ""),
        // Too short for the index, and a text that it is extended for.
        ("GET /_sandbox/messages?subject=no".to_owned(), ""),
        ("GET /_sandbox/messages/wait?from=none@x.test&timeout=1s".to_owned(), ""),
        ("GET /_sandbox/deliveries?webhook=whk&event=email.bounced".to_owned(), ""),
        ("POST /_sandbox/inbound".to_owned(), &inbound),
    ];

    let key = ("POST /api/v1/domains".to_owned(), r#"{"name":"key.test"}"#);

    let is_over = AtomicBool::new(false);
    // Each kind of request is made by five clients or more. Keys take long, so two are enough.
    let expensive = join_all((0..CLIENTS).map(async |client| {
        let mut next = client;
        loop {
            let (line, body) = match client {
                0 | 1 => &key,
                _ => &requests[next % requests.len()],
            };
            let response = if line.contains(" /api/") {
                sandbox.call(line, body).await
            } else {
                sandbox.control(line, body).await
            };
            assert_ne!(response.status, 500, "{line}: {response:?}");
            next += 1;
            if is_over.load(Ordering::Relaxed) {
                return;
            }
        }
    }));
    let neighbor = async {
        let small = email("a@other.test", 100);
        for _ in 0..3 {
            let sent = sandbox.with_key(&other, "POST /api/v1/emails", &small).await;
            assert_eq!(sent.status, 202, "{sent:?}");
            let found = sandbox.control("GET /_sandbox/messages?organization=Other&subject=s", "");
            assert_eq!(found.await.status, 200);
            let verified = sandbox.with_key(&other, &verify_other, "").await;
            assert_eq!(verified.status, 200, "{verified:?}");
        }
        let domain = sandbox.with_key(&other, "POST /api/v1/domains", key.1).await;
        assert_eq!(domain.status, 201, "{domain:?}");
        is_over.store(true, Ordering::Relaxed);
    };
    within("the neighbor, and the last expensive requests", async {
        tokio::join!(expensive, neighbor);
    })
    .await;
    // The first organization waited for itself, and the other one for nothing.
    let metrics = sandbox.control("GET /metrics", "").await.body;
    for slots in ["templates", "domain_keys", "searches", "verifications"] {
        let line = format!(r#"svc_slot_waits_total{{slots="{slots}"}} 0"#);
        assert!(metrics.lines().any(|known| known == line), "{line} in\n{metrics}");
    }
}
