//! Jobs that the server cannot do.

use std::path::Path;
use std::time::Duration;

use crate::harness::{Sandbox, private_dir};
use crate::receiver::{Receiver, within};

/// A server that hands mail to a relay that cannot be reached.
async fn start(directory: &Path) -> Sandbox {
    let any_port = "127.0.0.1:0".parse().expect("an address");
    Sandbox::with(|builder| {
        let builder = builder.data_dir(directory).smtp(any_port);
        builder
            .relay("smtp://127.0.0.1:1")
            .expect("a relay")
            .relay_to("*")
            .expect("valid")
    })
    .await
}

async fn subscribe(sandbox: &Sandbox, receiver: &Receiver, events: &str) {
    let body = format!(r#"{{"url":"{}","events":[{events}]}}"#, receiver.url());
    assert_eq!(
        sandbox.call("POST /api/v1/webhooks", &body).await.status,
        201
    );
}

/// Sends an email with these further fields.
async fn send(sandbox: &Sandbox, to: &str, fields: &str) -> String {
    let body =
        format!(r#"{{"from":"a@sandbox.test","to":"{to}","subject":"s","text":"x"{fields}}}"#);
    let sent = sandbox.call("POST /api/v1/emails", &body).await;
    assert_eq!(sent.status, 202, "{sent:?}");
    within("the deliveries", sandbox.settle()).await;
    sent.id()
}

async fn assert_set_aside(sandbox: &Sandbox, count: usize) {
    let health = sandbox.control("GET /_sandbox/health", "").await;
    assert!(
        health.body.contains(&format!(r#""set_aside":{count}}}"#)),
        "{health:?}"
    );
}

/// A row that cannot be read stands for every defect of the server.
#[tokio::test]
async fn jobs_that_the_server_cannot_do() {
    let directory = private_dir();
    let path = directory.path().join("data");
    let sandbox = start(&path).await;
    let receiver = Receiver::start(&[]).await;
    subscribe(&sandbox, &receiver, r#""email.received","email.bounced""#).await;
    sandbox.freeze().await;
    let later = r#","scheduledAt":"2099-01-01T00:00:00Z""#;
    // Those with even numbers cannot be read.
    let mut ids = Vec::new();
    for _ in 0..2 {
        ids.push(send(&sandbox, "bounced@x.test", later).await);
    }

    for _ in 0..4 {
        ids.push(send(&sandbox, "c@x.test", "").await);
    }

    sandbox.server.stop().await;
    let database = rusqlite::Connection::open(path.join("svc.db")).expect("opened");
    let mut sql = format!(
        "DELETE FROM job WHERE subject IN ('{}', '{}');",
        ids[2], ids[3]
    );
    for (number, id) in ids.iter().enumerate() {
        if number % 2 == 0 {
            sql.push_str(&format!("UPDATE email SET data = 'x' WHERE id = '{id}';"));
        }
    }

    for id in &ids[2..4] {
        sql.push_str(&format!(
            "INSERT INTO message (id, organization, recipient, email, created_at, data)
                 VALUES ('msg_{id}', 1, 'a@sandbox.test', '{id}', 1, '{{}}');
             INSERT INTO job (queue, subject, position, organization, due_at, attempt)
                 VALUES ('received', 'msg_{id}', -1, 1, 0, 0);"
        ));
    }

    database.execute_batch(&sql).expect("changed");
    drop(database);

    let sandbox = start(&path).await;
    within("the jobs", sandbox.settle()).await;
    let received = receiver.received();
    assert_eq!(received.len(), 1, "{received:?}");
    assert_eq!(received[0].header("mail-event"), "email.received");
    assert_set_aside(&sandbox, 1).await;

    within("the advance", sandbox.advance("700000h")).await;
    // The relay is given up after some hours.
    let [_, relayed, scheduled] = &receiver.received()[..] else {
        panic!("{:?}", receiver.received())
    };
    assert!(relayed.body.contains(&ids[5]), "{relayed:?}");
    assert!(scheduled.body.contains(&ids[1]), "{scheduled:?}");
    assert_set_aside(&sandbox, 3).await;
}

#[tokio::test]
async fn a_delivery_that_cannot_be_read() {
    let directory = private_dir();
    let path = directory.path().join("data");
    let sandbox = start(&path).await;
    let receiver = Receiver::start(&[500]).await;
    subscribe(&sandbox, &receiver, r#""email.bounced""#).await;
    sandbox.freeze().await;
    // Its second attempt is due later.
    send(&sandbox, "bounced@x.test", "").await;
    sandbox.server.stop().await;
    let database = rusqlite::Connection::open(path.join("svc.db")).expect("opened");
    let sql = "UPDATE delivery SET data = 'x', event = CAST(x'ff' AS TEXT)";
    assert_eq!(database.execute(sql, []), Ok(1));

    drop(database);

    let sandbox = start(&path).await;
    let client = sandbox.server.client().expect("a client");
    client
        .notifications(None, Duration::ZERO)
        .await
        .expect("watched");
    within("the advance", sandbox.advance("1h")).await;
    assert_set_aside(&sandbox, 1).await;

    let id = send(&sandbox, "bounced@x.test", "").await;
    let received = receiver.received();
    assert_eq!(received.len(), 2, "{received:?}");
    assert!(received[1].body.contains(&id), "{received:?}");
}
