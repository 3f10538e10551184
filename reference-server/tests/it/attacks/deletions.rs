//! Deletions of a great amount of data: it is gone at once, and no other request waits until all
//! rows are removed.

use std::path::Path;

use rusqlite::Connection;
use svc_reference_server::Server;

use crate::harness::{Sandbox, private_dir};
use crate::receiver::within;

/// More rows than a few transactions remove.
const ROWS: usize = 20_000;

async fn start(directory: &Path) -> Sandbox {
    Sandbox::of(Server::builder().data_dir(directory).start().await.expect("started"))
}

fn open(directory: &Path) -> Connection {
    let database = Connection::open(directory.join("svc.db")).expect("opened");
    database.busy_timeout(std::time::Duration::from_secs(60)).expect("a timeout");
    database
}

fn count(database: &Connection, rows: &str) -> i64 {
    let sql = format!("SELECT COUNT(*) FROM {rows}");
    database.query_row(&sql, [], |row| row.get(0)).expect("a count")
}

/// Inserts `ROWS` rows, for which `n` counts from 0.
fn insert(database: &Connection, table: &str, values: &str) {
    let sql = format!(
        "WITH RECURSIVE numbers(n) AS
             (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < {ROWS})
         INSERT INTO {table} SELECT {values} FROM numbers"
    );
    assert_eq!(database.execute(&sql, []).expect(table), ROWS);
}

fn insert_messages(database: &Connection, domain: &str) {
    let domain = format!("(SELECT id FROM domain WHERE name = '{domain}')");
    let organization = format!("(SELECT organization FROM domain WHERE id = {domain})");
    database.execute("INSERT INTO body (digest, bytes) VALUES (x'01', x'02')", []).expect("a body");
    insert(
        database,
        "message",
        &format!(
            "{organization}, printf('msg_%05d', n), 'a@sandbox.test', NULL, {domain}, 1, NULL"
        ),
    );
    let source = "printf('msg_%05d', n), 'b@x.test', 's', (SELECT MAX(id) FROM body)";
    insert(database, "message_source", source);
}

#[tokio::test]
async fn an_audience_a_domain_and_a_webhook_with_much_data() {
    let directory = private_dir();
    let sandbox = start(directory.path()).await;
    sandbox.freeze().await;
    let audience = sandbox.call("POST /api/v1/audiences", r#"{"name":"a"}"#).await.id();
    let body = r#"{"url":"http://127.0.0.1:1/","events":["email.delivered"]}"#;
    let webhook = sandbox.call("POST /api/v1/webhooks", body).await.id();
    let domain = sandbox.call("GET /api/v1/domains", "").await.id();
    let database = open(directory.path());
    insert(
        &database,
        "contact",
        &format!(
            "printf('con_%05d', n), 1, '{audience}', n || '@x.test', n || '@x.test', NULL, '{{}}',
             '[]', 1, 1, 1"
        ),
    );
    insert(
        &database,
        "delivery",
        &format!(
            "printf('%05d', n), 1, '{webhook}', 'email', 'email.delivered', 'pending', 0, 0,
             9000000000000, 1, 1, NULL"
        ),
    );
    insert_messages(&database, "sandbox.test");
    // A search that reads many messages has them added to the index.
    let search = "GET /_sandbox/messages?from=nobody@x.test";
    assert_eq!(sandbox.control(search, "").await.body, r#"{"data":[],"next":null}"#);
    let indexed = async {
        while count(&database, "message_indexed") < ROWS as i64 {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    within("the index", indexed).await;
    let found = sandbox.control("GET /_sandbox/messages?from=B@x.test&limit=1", "").await;
    assert_eq!(found.id(), format!("msg_{:05}", ROWS - 1));

    let contacts = format!("contact WHERE audience = '{audience}'");
    let pending = "delivery WHERE due_at IS NOT NULL";
    let delete = async |path: String, status: u16, rows: &str| {
        assert_eq!(sandbox.call(&format!("DELETE {path}"), "").await.status, status);
        let created = sandbox.call("POST /api/v1/audiences", r#"{"name":"b"}"#).await;
        assert_eq!(created.status, 201);
        // The other request did not wait for all rows.
        assert_ne!(count(&database, rows), 0, "{rows}");
    };
    delete(format!("/api/v1/audiences/{audience}"), 204, &contacts).await;
    let last = format!("PATCH /api/v1/contacts/con_{:05}", ROWS - 1);
    assert_eq!(sandbox.call(&last, r#"{"name":"x"}"#).await.status, 404);
    delete(format!("/api/v1/domains/{domain}"), 200, "message").await;
    let found = sandbox.control("GET /_sandbox/messages", "").await;
    assert_eq!(found.body, r#"{"data":[],"next":null}"#);
    let last = format!("GET /_sandbox/messages/msg_{:05}/raw", ROWS - 1);
    assert_eq!(sandbox.control(&last, "").await.status, 404);
    delete(format!("/api/v1/webhooks/{webhook}"), 204, pending).await;
    within("the server to stop", sandbox.server.stop()).await;
    assert_ne!(count(&database, "deleted"), 0);

    // The next server goes on.
    let sandbox = start(directory.path()).await;
    within("the end of the removal", sandbox.settle()).await;
    let index = ["message_indexed", "message_words_docsize"];
    let others = [contacts.as_str(), pending, "message", "message_source", "body", "deleted"];
    for rows in others.into_iter().chain(index) {
        assert_eq!(count(&database, rows), 0, "{rows}");
    }
    assert_eq!(count(&database, "delivery WHERE state = 'dropped'"), ROWS as i64);
}

#[tokio::test]
async fn a_reset_of_much_data() {
    for whole_server in [false, true] {
        let directory = private_dir();
        let sandbox = start(directory.path()).await;
        sandbox.freeze().await;
        let (other, _) = sandbox.organization().await;
        let create = "POST /api/v1/audiences";
        let kept = sandbox.with_key(&other, create, r#"{"name":"kept"}"#).await.id();
        let database = open(directory.path());
        let meta = r#"{"from":"a@sandbox.test","to":["b@x.test"],"cc":[],"bcc":[],"replyTo":[],"subject":"s","tags":{},"templateId":null,"domain":"sandbox.test"}"#;
        let recipients = r#"[{"address":"b@x.test","status":"queued","detail":null}]"#;
        insert(
            &database,
            "email",
            &format!(
                "printf('eml_%05d', n), 1, 'queued', NULL, 9000000000000, 9000000000000, 1, 1,
                 '{meta}', '{recipients}', NULL"
            ),
        );
        insert(&database, "email_content", "printf('eml_%05d', n), 'html', NULL, NULL, NULL");
        insert(&database, "due", "9000000000000, 1, printf('eml_%05d', n), 0");
        insert_messages(&database, "sandbox.test");

        let body = if whole_server { "" } else { r#"{"organization":"Sandbox"}"# };
        assert_eq!(sandbox.control("POST /_sandbox/reset", body).await.status, 204);
        let last = format!("GET /api/v1/emails/eml_{:05}", ROWS - 1);
        assert_eq!(sandbox.call(&last, "").await.status, 404);
        let found = sandbox.control("GET /_sandbox/messages", "").await;
        assert_eq!(found.body, r#"{"data":[],"next":null}"#);
        assert_ne!(count(&database, "email"), 0);
        let get = format!("GET /api/v1/audiences/{kept}");
        let expected = if whole_server { 401 } else { 200 };
        assert_eq!(sandbox.with_key(&other, &get, "").await.status, expected);
        let email = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"new"}"#;
        let new = sandbox.call("POST /api/v1/emails", email).await.id();
        within("the server to stop", sandbox.server.stop()).await;
        assert_ne!(count(&database, "deleted"), 0);

        // The next server goes on, and neither sends nor counts what was deleted.
        let sandbox = start(directory.path()).await;
        within("the end of the removal", sandbox.settle()).await;
        for rows in ["deleted", "due", "message_source", "body"] {
            assert_eq!(count(&database, rows), 0, "{rows}");
        }
        for rows in ["email", "email_content", "message"] {
            assert_eq!(count(&database, rows), 1, "{rows}");
        }
        let found = sandbox.call(&format!("GET /api/v1/emails/{new}"), "").await;
        assert_eq!(found.between(r#""status":""#), "delivered");
        let clock = sandbox.control("GET /_sandbox/clock", "").await;
        assert!(clock.body.contains(r#""next_due":null"#), "{clock:?}");
    }
}
