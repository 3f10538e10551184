//! Deletions of a great amount of data: all that belongs to what was deleted is gone.

use std::path::Path;

use rusqlite::Connection;
use svc_reference_server::Server;

use crate::harness::{Sandbox, private_dir};
use crate::receiver::within;

const ROWS: usize = 20_000;

async fn start(directory: &Path) -> Sandbox {
    Sandbox::of(
        Server::builder()
            .data_dir(directory)
            .start()
            .await
            .expect("started"),
    )
}

pub(super) fn open(directory: &Path) -> Connection {
    let database = Connection::open(directory.join("svc.db")).expect("opened");
    database
        .busy_timeout(std::time::Duration::from_secs(60))
        .expect("a timeout");
    database
}

fn count(database: &Connection, rows: &str) -> i64 {
    let sql = format!("SELECT COUNT(*) FROM {rows}");
    database
        .query_row(&sql, [], |row| row.get(0))
        .expect("a count")
}

/// Inserts `ROWS` rows, for which `n` counts from 0.
fn insert(database: &Connection, table: &str, values: &str) {
    insert_some(database, table, values, ROWS);
}

fn insert_some(database: &Connection, table: &str, values: &str, rows: usize) {
    let sql = format!(
        "WITH RECURSIVE numbers(n) AS
             (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < {rows})
         INSERT INTO {table} SELECT {values} FROM numbers"
    );
    assert_eq!(database.execute(&sql, []).expect(table), rows);
}

const MESSAGE: &str = r#"{"id":"msg_%05d","direction":"incoming","emailId":null,"from":"b@x.test","recipient":"a@sandbox.test","subject":"s","preview":"","attachments":0,"createdAt":"2026-01-01T00:00:00Z"}"#;

pub(super) fn insert_messages(database: &Connection, rows: usize) {
    database
        .execute("INSERT INTO body (digest, bytes) VALUES (x'01', x'02')", [])
        .expect("a body");
    insert_some(
        database,
        "message",
        &format!(
            "printf('msg_%05d', n), 1, 'a@sandbox.test', NULL, (SELECT id FROM domain), 1,
             printf('{MESSAGE}', n), NULL, NULL, (SELECT MAX(id) FROM body)"
        ),
        rows,
    );
}

#[tokio::test]
async fn an_audience_a_domain_and_a_webhook_with_much_data() {
    let directory = private_dir();
    let sandbox = start(directory.path()).await;
    sandbox.freeze().await;
    let audience = sandbox
        .call("POST /api/v1/audiences", r#"{"name":"a"}"#)
        .await
        .id();
    let body = r#"{"url":"http://127.0.0.1:1/","events":["email.delivered"]}"#;
    let webhook = sandbox.call("POST /api/v1/webhooks", body).await.id();
    let domain = sandbox.call("GET /api/v1/domains", "").await.id();
    let database = open(directory.path());
    insert(
        &database,
        "contact",
        &format!("printf('con_%05d', n), 1, '{audience}', n || '@x.test', '{{}}'"),
    );
    insert(
        &database,
        "delivery",
        &format!(
            "printf('%05d', n), 1, '{webhook}', 'email.delivered', NULL, 'pending', 0, 1, 1, '{{}}',
             x'', NULL, x''"
        ),
    );
    let job = format!("'{webhook}', printf('%05d', n), -1, 1, NULL, 9000000000000, 0, NULL");
    insert(&database, "job", &job);
    insert_messages(&database, ROWS);
    let found = sandbox
        .control("GET /_sandbox/messages?from=B@x.test&limit=1", "")
        .await;
    assert_eq!(found.id(), format!("msg_{:05}", ROWS - 1));

    let none = r#"{"data":[],"next":null}"#;
    let search = "GET /_sandbox/messages?from=nobody@x.test";
    assert_eq!(sandbox.control(search, "").await.body, none);

    for (path, status) in [
        (format!("/api/v1/audiences/{audience}"), 204),
        (format!("/api/v1/domains/{domain}"), 200),
        (format!("/api/v1/webhooks/{webhook}"), 204),
    ] {
        let delete = format!("DELETE {path}");
        assert_eq!(
            within(&path, sandbox.call(&delete, "")).await.status,
            status
        );
    }

    let last = format!("PATCH /api/v1/contacts/con_{:05}", ROWS - 1);
    assert_eq!(sandbox.call(&last, r#"{"name":"x"}"#).await.status, 404);
    assert_eq!(
        sandbox.control("GET /_sandbox/messages", "").await.body,
        none
    );

    for rows in ["contact", "message", "body", "job"] {
        assert_eq!(count(&database, rows), 0, "{rows}");
    }

    assert_eq!(
        count(&database, "delivery WHERE state = 'dropped'"),
        ROWS as i64
    );
}

#[tokio::test]
async fn a_reset_of_much_data() {
    for whole_server in [false, true] {
        let directory = private_dir();
        let sandbox = start(directory.path()).await;
        sandbox.freeze().await;
        let (other, _) = sandbox.organization().await;
        let create = "POST /api/v1/audiences";
        let kept = sandbox
            .with_key(&other, create, r#"{"name":"kept"}"#)
            .await
            .id();
        let database = open(directory.path());
        insert(
            &database,
            "email",
            "printf('eml_%05d', n), 1, 'queued', 1, '{}'",
        );
        insert(
            &database,
            "email_content",
            "printf('eml_%05d', n), '{}', '[]', 'html', NULL",
        );
        let job = "'mail', printf('eml_%05d', n), -1, 1, NULL, 9000000000000, 0, NULL";
        insert(&database, "job", job);
        insert_messages(&database, ROWS);

        let body = if whole_server {
            ""
        } else {
            r#"{"organization":"Sandbox"}"#
        };
        let reset = within("the reset", sandbox.control("POST /_sandbox/reset", body)).await;
        assert_eq!(reset.status, 204);
        for rows in ["email", "email_content", "message", "body", "job"] {
            assert_eq!(count(&database, rows), 0, "{rows}");
        }
        let get = format!("GET /api/v1/audiences/{kept}");
        let expected = if whole_server { 401 } else { 200 };
        assert_eq!(sandbox.with_key(&other, &get, "").await.status, expected);
        let email = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"new"}"#;
        let new = sandbox.call("POST /api/v1/emails", email).await.id();
        sandbox.settle().await;
        let found = sandbox.call(&format!("GET /api/v1/emails/{new}"), "").await;
        assert_eq!(found.between(r#""status":""#), "delivered");
        let clock = sandbox.control("GET /_sandbox/clock", "").await;
        assert!(clock.body.contains(r#""next_due":null"#), "{clock:?}");
    }
}
