//! A database of every earlier version, as SQL text in `migrations/`, is upgraded when it is opened.

use std::path::Path;

use rusqlite::Connection;
use svc_reference_server::Server;

use crate::harness::{Sandbox, private_dir};

const VERSION_9: &str = include_str!("migrations/9.sql");

fn write_database(path: &Path, sql: &str) {
    let database = Connection::open(path).expect("created");
    database.execute_batch(sql).expect("the dump");
}

fn version(path: &Path) -> u32 {
    let database = Connection::open(path).expect("opened");
    database
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .expect("a version")
}

#[tokio::test]
async fn a_database_of_version_9_is_upgraded_beside_a_copy_of_it() {
    let directory = private_dir();
    let path = directory.path().join("svc.db");
    write_database(&path, VERSION_9);

    let server = Server::builder().data_dir(directory.path()).start().await;
    let sandbox = Sandbox::of(server.expect("started"));

    let emails = sandbox.control("GET /_sandbox/emails", "").await;
    assert!(emails.body.contains("Kept over an upgrade"), "{emails:?}");

    let scheduled = "eml_01a220b4-ca89-7407-8377-7d3a84086b0a";
    let cancel = format!("PATCH /api/v1/emails/{scheduled}/cancel");
    assert_eq!(sandbox.call(&cancel, "").await.status, 200);

    let contact = r#"{"email":"ada@example.test"}"#;
    let audience = "aud_01a220b4-c9d8-7784-90ec-8e4374bb436a";
    let create = format!("POST /api/v1/audiences/{audience}/contacts");
    assert_eq!(sandbox.call(&create, contact).await.status, 409);

    // What is stored of each resource is read, whatever clients call it now.
    for path in [
        "keys",
        "audiences",
        &format!("audiences/{audience}/contacts"),
        "domains",
        &format!("emails/{scheduled}/story"),
        "messages",
        "webhooks",
    ] {
        let read = sandbox.control(&format!("GET /_sandbox/{path}"), "").await;
        assert_eq!(read.status, 200, "{path}: {read:?}");
    }

    sandbox.server.stop().await;

    assert!(version(&path) > 9);

    let copy = directory.path().join("svc.v9.db");
    assert_eq!(version(&copy), 9);

    // What was upgraded has the tables and indexes of a new database.
    let new = private_dir();
    let server = Server::builder().data_dir(new.path()).start().await;
    server.expect("started").stop().await;
    let schema = |path: &Path| {
        let database = Connection::open(path).expect("opened");
        let mut statement = database
            .prepare("SELECT type, name, tbl_name FROM sqlite_schema ORDER BY type, name")
            .expect("a statement");
        let read = |row: &rusqlite::Row<'_>| {
            Ok([row.get::<_, String>(0)?, row.get(1)?, row.get(2)?].join(" "))
        };
        let rows = statement.query_map([], read).expect("rows");
        rows.collect::<Result<Vec<_>, _>>().expect("text")
    };

    assert_eq!(schema(&path), schema(&new.path().join("svc.db")));
}

/// Version 9 stored the result of DKIM as a text.
#[tokio::test]
async fn the_result_of_dkim_of_a_message_of_version_9_is_kept() {
    let directory = private_dir();
    let path = directory.path().join("svc.db");
    let received = "UPDATE message SET email = NULL,
        authentication = '{\"spf\":\"pass\",\"dkim\":\"fail\"}';";
    write_database(&path, &format!("{VERSION_9}\n{received}"));

    let server = Server::builder().data_dir(directory.path()).start().await;
    let sandbox = Sandbox::of(server.expect("started"));

    let list = sandbox.control("GET /_sandbox/messages", "").await;
    let list = serde_json::from_str::<serde_json::Value>(&list.body).expect("JSON");
    let id = list["data"][0]["id"].as_str().expect("a message");
    let message = sandbox
        .control(&format!("GET /_sandbox/messages/{id}"), "")
        .await;
    let message = serde_json::from_str::<serde_json::Value>(&message.body).expect("JSON");
    assert_eq!(
        message["authentication"],
        serde_json::json!({
            "spf": "pass",
            "dkim": {"result": "fail", "domain": null, "aligned": false},
        }),
        "{message}"
    );
}

#[tokio::test]
async fn a_database_of_a_newer_version_is_refused_and_both_versions_are_named() {
    let directory = private_dir();
    let path = directory.path().join("svc.db");
    let newer = VERSION_9.replace("user_version = 9", "user_version = 4711");
    write_database(&path, &newer);

    let started = Server::builder().data_dir(directory.path()).start().await;

    let error = started.expect_err("refused").to_string();
    assert!(error.contains("schema version 4711"), "{error}");
    assert!(error.contains("reads up to 10"), "{error}");
    assert_eq!(version(&path), 4711);
}

/// The names of what is stored as JSON, by table and column. A database of this version has them: who calls
/// a field of a type differently gives its stored form the old name, or writes a migration.
const STORED: [(&str, &str, &str); 13] = [
    (
        "api_key",
        "data",
        "createdAt hint id key mode scope scopes service sha256",
    ),
    ("audience", "data", "createdAt id name updatedAt"),
    (
        "contact",
        "data",
        "audienceId createdAt email id metadata name subscribed topics updatedAt",
    ),
    (
        "domain",
        "data",
        "createdAt dkim_verified dmarc_verified id kind mx_verified name priority records \
         spf_verified type updatedAt value verified",
    ),
    ("dns_record", "data", "kind name priority type value"),
    (
        "template",
        "data",
        "createdAt html id subject text updatedAt",
    ),
    (
        "email",
        "data",
        "address attachments bcc cc createdAt detail domain e from history id lastEvent \
         organization preview r recipients replyTo request s scheduledAt sent_at shown status \
         subject t tag tags templateId to tracking updatedAt",
    ),
    (
        "message",
        "data",
        "attachments createdAt direction emailId from id preview recipient subject",
    ),
    (
        "webhook",
        "data",
        "active createdAt events id secret service updatedAt url",
    ),
    (
        "delivery",
        "data",
        "attemptCount attempts body createdAt emailId event id nextDueAt recipient service \
         state subject updatedAt webhook",
    ),
    (
        "attempt",
        "data",
        "content-type delivery durationMs error mail-attempt mail-delivery-id mail-event \
         mail-signature number requestHeaders responseBody startedAt status url user-agent",
    ),
    (
        "fault",
        "data",
        "at hits id operation remaining status times",
    ),
    (
        "message",
        "authentication",
        "aligned dkim domain result spf",
    ),
];

#[tokio::test]
async fn what_is_stored_has_the_names_that_databases_have() {
    let directory = private_dir();
    let server = Server::builder().data_dir(directory.path()).start().await;
    let sandbox = Sandbox::of(server.expect("started"));
    let webhook = r#"{"url":"http://127.0.0.1:9/","events":["email.delivered","email.received"]}"#;
    sandbox.call("POST /api/v1/webhooks", webhook).await;
    let audience = sandbox
        .call("POST /api/v1/audiences", r#"{"name":"All"}"#)
        .await;
    let contacts = format!("POST /api/v1/audiences/{}/contacts", audience.id());
    sandbox
        .call(&contacts, r#"{"email":"ada@example.test"}"#)
        .await;
    let template = r#"{"text":"Hi"}"#;
    sandbox
        .control("PUT /_sandbox/templates/hi", template)
        .await;
    let fault = r#"{"operation":"emails.get","status":503,"times":2}"#;
    sandbox.control("POST /_sandbox/faults", fault).await;
    sandbox.call("GET /api/v1/emails/any", "").await;
    let email = r#"{"from":"a@sandbox.test","to":"b@sandbox.test","subject":"Hi","text":"Hi",
                    "tags":{"tag":1}}"#;
    assert_eq!(sandbox.call("POST /api/v1/emails", email).await.status, 202);

    sandbox.settle().await;
    sandbox.server.stop().await;

    let database = Connection::open(directory.path().join("svc.db")).expect("opened");
    for (table, column, names) in STORED {
        let sql = format!(
            "SELECT coalesce(group_concat(key, ' '), '') FROM (
                 SELECT DISTINCT key FROM {table}, json_tree({table}.{column})
                 WHERE typeof(key) = 'text' ORDER BY key)"
        );
        let found: String = database
            .query_row(&sql, [], |row| row.get(0))
            .expect("names");
        assert_eq!(found, names, "{table}.{column}");
    }
}
