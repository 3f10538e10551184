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
