//! Background jobs that end the process, or that the server cannot do.

use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::mail::{session, talk};
use crate::harness::{Sandbox, private_dir};
use crate::receiver::{Receiver, within};

/// A server that hands mail to a relay that cannot be reached.
async fn start(directory: &Path) -> Sandbox {
    let any_port = "127.0.0.1:0".parse().expect("an address");
    Sandbox::with(|builder| {
        let builder = builder.data_dir(directory).smtp(any_port);
        builder.relay("smtp://127.0.0.1:1").expect("a relay")
    })
    .await
}

async fn subscribe(sandbox: &Sandbox, receiver: &Receiver, events: &str) {
    let body = format!(r#"{{"url":"{}","events":[{events}]}}"#, receiver.url());
    assert_eq!(sandbox.call("POST /api/v1/webhooks", &body).await.status, 201);
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

async fn email(sandbox: &Sandbox, id: &str) -> String {
    sandbox.call(&format!("GET /api/v1/emails/{id}"), "").await.body
}

async fn assert_set_aside(sandbox: &Sandbox, count: usize) {
    let health = sandbox.control("GET /_sandbox/health", "").await;
    assert!(health.body.contains(&format!(r#""set_aside":{count}}}"#)), "{health:?}");
}

#[tokio::test]
async fn jobs_that_ended_three_servers() {
    let directory = private_dir();
    let path = directory.path().join("data");
    let sandbox = start(&path).await;
    let receiver = Receiver::start(&[500]).await;
    subscribe(&sandbox, &receiver, r#""email.bounced","email.received","email.clicked""#).await;
    let now = sandbox.freeze().await;
    let later = r#","scheduledAt":"2099-01-01T00:00:00Z""#;
    let scheduled =
        [send(&sandbox, "a@x.test", later).await, send(&sandbox, "b@x.test", later).await];
    let relayed = send(&sandbox, "c@x.test", "").await;
    send(&sandbox, "bounced@x.test", "").await;
    let delivery = sandbox.control("GET /_sandbox/deliveries", "").await.id();
    assert_eq!(receiver.received().len(), 1);
    sandbox.server.stop().await;
    let jobs = path.join("jobs");
    assert_eq!(std::fs::read(&jobs).expect("a file"), b"", "a stop leaves no job in progress");

    let database = || rusqlite::Connection::open(path.join("svc.db")).expect("opened");
    let read = |sql: &str, id: &str| -> String {
        database().query_row(sql, [id], |row| row.get(0)).expect("a row")
    };
    let due = read("SELECT at || ':1:0:' || email FROM due WHERE email = ?1", &scheduled[0]);
    let poison = "Subject: poison\r\n\r\nx\r\n";
    let digest = hex::encode(Sha256::digest(poison));
    // As a server leaves the file that ends while it does these jobs. The second one is wrong.
    let lines = format!(
        "due {due}\nwhat is this\nrelay {relayed}\ndelivery {delivery}\nlocal msg_1\nevent 1:1\nincoming {digest}\n"
    );
    for round in 1..=3 {
        if round == 3 {
            let jobs = format!(
                "INSERT INTO message VALUES (1, 'msg_1', 'a@sandbox.test', '{relayed}', NULL, 1, NULL);
                 INSERT INTO local_delivery VALUES ('msg_1', 1, 0);
                 INSERT INTO pending_event VALUES (1, '1', 'email.clicked', 0, NULL, x'7b7d', '', 'z', NULL);"
            );
            database().execute_batch(&jobs).expect("inserted");
        }
        std::fs::write(&jobs, &lines).expect("written");
        let sandbox = start(&path).await;
        within("the jobs", sandbox.settle()).await;
        assert_set_aside(&sandbox, if round == 3 { 6 } else { 0 }).await;
        sandbox.server.stop().await;
    }

    // They are done no more, and others are.
    let sandbox = start(&path).await;
    assert_eq!(sandbox.freeze().await, now);
    within("the advance", sandbox.advance("30s")).await;
    assert!(email(&sandbox, &scheduled[0]).await.contains(r#""status":"failed""#));
    assert!(email(&sandbox, &scheduled[1]).await.contains(r#""status":"queued""#));
    let bounced = email(&sandbox, &relayed).await;
    assert!(bounced.contains("cannot be sent by this server; see its log"), "{bounced}");
    let all = sandbox.control(&format!("GET /_sandbox/deliveries/{delivery}"), "").await;
    assert!(all.body.contains(r#""state":"failed","attemptCount":1,"#), "{all:?}");
    let address = sandbox.server.addresses().smtp.expect("a listener");
    let replies = talk(address, session(poison.trim_end()).as_bytes()).await;
    assert!(replies.contains("554 5.6.0 this server cannot process the message"), "{replies}");
    let replies = talk(address, session("Subject: other\r\n\r\nx").as_bytes()).await;
    assert!(replies.contains("250 2.0.0 queued"), "{replies}");
    within("the deliveries", sandbox.settle()).await;
    let received: Vec<_> =
        receiver.received().iter().map(|one| one.header("mail-event").to_owned()).collect();
    assert_eq!(received, ["email.bounced", "email.bounced", "email.received"]);
    // A message over SMTP belongs to no organization.
    for (reset, left) in [(r#"{"organization":"Sandbox"}"#, 1), ("", 0)] {
        assert_eq!(sandbox.control("POST /_sandbox/reset", reset).await.status, 204);
        assert_set_aside(&sandbox, left).await;
    }
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
    let mut sql = format!("DELETE FROM relay WHERE email IN ('{}', '{}');", ids[2], ids[3]);
    for (number, id) in ids.iter().enumerate() {
        if number % 2 == 0 {
            sql.push_str(&format!("UPDATE email SET meta = 'x' WHERE id = '{id}';"));
        }
    }
    for id in &ids[2..4] {
        sql.push_str(&format!(
            "INSERT INTO message VALUES (1, 'msg_{id}', 'a@sandbox.test', '{id}', NULL, 1, NULL);
             INSERT INTO local_delivery VALUES ('msg_{id}', 1, 0);"
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
