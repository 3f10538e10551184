//! Mail relayed to an SMTP server.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::harness::{Sandbox, private_dir};
use crate::receiver::{Receiver, within};

/// An SMTP server with configurable replies to `RCPT`, which records the accepted
/// messages.
#[derive(Clone, Default)]
struct MailServer {
    /// Replies to the next `RCPT` commands, by address; then 250.
    replies: Arc<Mutex<HashMap<String, Vec<&'static str>>>>,
    accepted: Arc<Mutex<Vec<Accepted>>>,
    /// The line that is not replied to, once, and how often it is before.
    hangs_at: Arc<Mutex<Option<(&'static str, usize)>>>,
    hangs: Arc<Notify>,
}

#[derive(Clone, Debug, Default)]
struct Accepted {
    connection: usize,
    from: String,
    to: Vec<String>,
    source: String,
}

impl MailServer {
    async fn start(&self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let server = self.clone();
        tokio::spawn(async move {
            for number in 1.. {
                let (stream, _) = listener.accept().await.expect("a connection");
                tokio::spawn(server.clone().serve(stream, number));
            }
        });
        address
    }

    async fn serve(self, stream: TcpStream, connection: usize) {
        let mut stream = BufReader::new(stream);
        let mut reply = "220 ready".to_owned();
        let mut message = Accepted {
            connection,
            ..Accepted::default()
        };
        let mut in_data = false;
        let mut line = String::new();
        loop {
            if !reply.is_empty() {
                let text = format!("{reply}\r\n");
                if stream.write_all(text.as_bytes()).await.is_err() {
                    return;
                }
            }
            line.clear();
            if !stream
                .read_line(&mut line)
                .await
                .is_ok_and(|count| count > 0)
            {
                return;
            }
            if self
                .hangs_at
                .lock()
                .expect("no panic")
                .take_if(|(at, before)| {
                    let is_it = *at == line.trim_end();
                    let is_last = is_it && *before == 0;
                    *before = before.saturating_sub(usize::from(is_it));
                    is_last
                })
                .is_some()
            {
                self.hangs.notify_one();
                return std::future::pending().await;
            }
            reply = match line.trim_end() {
                "." if in_data => {
                    in_data = false;
                    self.accepted
                        .lock()
                        .expect("no panic")
                        .push(std::mem::take(&mut message));
                    message.connection = connection;
                    "250 OK".to_owned()
                }
                _ if in_data => {
                    message.source.push_str(&line);
                    String::new()
                }
                "DATA" => {
                    in_data = true;
                    "354 send data".to_owned()
                }
                command => match command.split_once(":<") {
                    Some(("MAIL FROM", rest)) => {
                        message = Accepted {
                            connection,
                            ..Accepted::default()
                        };
                        message.from = rest.split('>').next().unwrap_or_default().to_owned();
                        "250 OK".to_owned()
                    }
                    Some(("RCPT TO", rest)) => {
                        let address = rest.trim_end_matches('>').to_owned();
                        let mut replies = self.replies.lock().expect("no panic");
                        let reply = match replies.get_mut(&address) {
                            Some(waiting) if !waiting.is_empty() => waiting.remove(0),
                            _ => "250 OK",
                        };
                        if reply.starts_with('2') {
                            message.to.push(address);
                        }
                        reply.to_owned()
                    }
                    _ => "250 OK".to_owned(),
                },
            };
        }
    }

    fn set_replies(&self, address: &str, replies: &[&'static str]) {
        self.replies
            .lock()
            .expect("no panic")
            .insert(address.to_owned(), replies.to_vec());
    }

    fn accepted(&self) -> Vec<Accepted> {
        self.accepted.lock().expect("no panic").clone()
    }
}

async fn sandbox(mail: &MailServer) -> Sandbox {
    let url = format!("smtp://{}", mail.start().await);
    let sandbox = Sandbox::with(|builder| {
        builder
            .relay(&url)
            .expect("a relay")
            .relay_to("*")
            .expect("valid")
    })
    .await;
    sandbox.freeze().await;
    sandbox
}

async fn send(sandbox: &Sandbox, to: &str) -> String {
    let body = format!(
        r#"{{"from":"Shop <hello@sandbox.test>","to":[{to}],"bcc":"hidden@out.example","subject":"Hi","text":"Hello\n.dot"}}"#
    );
    let sent = sandbox.call("POST /api/v1/emails", &body).await;
    assert_eq!(sent.status, 202, "{sent:?}");
    sandbox.settle().await;
    sent.id()
}

async fn status(sandbox: &Sandbox, id: &str) -> String {
    let found = sandbox.call(&format!("GET /api/v1/emails/{id}"), "").await;
    found.between(r#""status":""#)
}

#[tokio::test]
async fn messages_are_signed_and_share_a_connection() {
    let mail = MailServer::default();
    let sandbox = sandbox(&mail).await;
    let first = send(&sandbox, r#""Ada <ada@out.example>","bob@out.example""#).await;
    let second = send(&sandbox, r#""ada@out.example""#).await;
    assert_eq!(status(&sandbox, &first).await, "delivered");
    assert_eq!(status(&sandbox, &second).await, "delivered");

    let accepted = mail.accepted();
    assert_eq!(accepted.len(), 2);
    assert!(accepted.iter().all(|message| message.connection == 1));
    assert_eq!(accepted[0].from, "hello@sandbox.test");
    assert_eq!(
        accepted[0].to,
        ["ada@out.example", "bob@out.example", "hidden@out.example"]
    );
    assert!(
        accepted[0].source.starts_with("DKIM-Signature: v=1;"),
        "{}",
        accepted[0].source
    );
    assert!(
        accepted[0].source.contains("\r\n\r\nHello\r\n..dot"),
        "{}",
        accepted[0].source
    );
    assert!(
        !accepted[0].source.contains("hidden"),
        "{}",
        accepted[0].source
    );

    // Relayed messages are stored locally as well.
    let list = sandbox
        .control("GET /_sandbox/messages?to=ada@out.example", "")
        .await;
    assert_eq!(list.body.matches(r#""id":"#).count(), 2, "{list:?}");
}

/// The slow one waits for its reply until the end of the test.
#[tokio::test]
async fn a_message_that_the_relay_is_slow_with_delays_no_other() {
    let mail = MailServer::default();
    let sandbox = sandbox(&mail).await;
    let email = r#"{"from":"hello@sandbox.test","to":"ada@out.example","subject":"Hi","text":"x"}"#;
    let post = async || {
        let sent = sandbox.call("POST /api/v1/emails", email).await;
        assert_eq!(sent.status, 202, "{sent:?}");
        sent.id()
    };

    *mail.hangs_at.lock().expect("no panic") = Some((".", 0));
    let slow = post().await;
    within("the slow message", mail.hangs.notified()).await;
    for count in 1..=2 {
        let quick = post().await;
        let wait = async {
            while status(&sandbox, &quick).await != "delivered" {
                tokio::task::yield_now().await;
            }
        };
        within("another message", wait).await;
        assert_eq!(mail.accepted().len(), count);
    }

    assert_eq!(status(&sandbox, &slow).await, "sending");

    let connections = mail
        .accepted()
        .into_iter()
        .map(|message| message.connection);
    assert_eq!(connections.collect::<Vec<_>>(), [2, 2]);
}

#[tokio::test]
async fn deferred_recipients_are_retried_and_rejected_ones_bounce() {
    let mail = MailServer::default();
    mail.set_replies(
        "later@out.example",
        &["451 4.7.1 greylisted", "450 not yet"],
    );
    mail.set_replies("no@out.example", &["550 5.1.1 no such user"]);
    let sandbox = sandbox(&mail).await;
    let receiver = Receiver::start(&[]).await;
    let body = format!(
        r#"{{"url":"{}","events":["email.sent","email.delivered","email.bounced"]}}"#,
        receiver.url()
    );
    assert_eq!(
        sandbox.call("POST /api/v1/webhooks", &body).await.status,
        201
    );

    let id = send(
        &sandbox,
        r#""later@out.example","no@out.example","yes@out.example""#,
    )
    .await;

    let found = sandbox.call(&format!("GET /api/v1/emails/{id}"), "").await;
    for part in [
        r#"{"address":"later@out.example","status":"sending","detail":{"reason":"451 4.7.1 greylisted"}}"#,
        r#"{"address":"no@out.example","status":"bounced","detail":{"reason":"550 5.1.1 no such user","type":"hard"}}"#,
        r#"{"address":"yes@out.example","status":"delivered","detail":null}"#,
    ] {
        assert!(found.body.contains(part), "{part} in {}", found.body);
    }

    assert_eq!(
        mail.accepted()[0].to,
        ["yes@out.example", "hidden@out.example"]
    );

    sandbox.advance("29s").await;
    assert_eq!(mail.accepted().len(), 1);

    sandbox.advance("1s").await;
    assert_eq!(mail.accepted().len(), 1);

    sandbox.advance("2m").await;
    let accepted = mail.accepted();
    assert_eq!(accepted.len(), 2);
    assert_eq!(accepted[1].to, ["later@out.example"]);
    assert_eq!(accepted[0].source, accepted[1].source);

    let count_events = |event: &str, address: &str| {
        let address = format!(r#""recipient":"{address}""#);
        let event = format!(r#"{{"event":"{event}""#);
        let all = receiver.received();
        all.iter()
            .filter(|d| d.body.starts_with(&event) && d.body.contains(&address))
            .count()
    };

    for (event, address, count) in [
        ("email.delivered", "later@out.example", 1),
        ("email.sent", "later@out.example", 1),
        ("email.bounced", "no@out.example", 1),
        ("email.delivered", "no@out.example", 0),
        ("email.delivered", "yes@out.example", 1),
        ("email.delivered", "hidden@out.example", 1),
    ] {
        assert_eq!(count_events(event, address), count, "{event} {address}");
    }
}

#[tokio::test]
async fn a_recipient_deferred_too_often_bounces() {
    let mail = MailServer::default();
    mail.set_replies("full@out.example", &["452 4.2.2 mailbox full"; 20]);
    let sandbox = sandbox(&mail).await;
    let id = send(&sandbox, r#""full@out.example""#).await;
    assert_eq!(status(&sandbox, &id).await, "sending");

    sandbox.advance("1d").await;
    let found = sandbox.call(&format!("GET /api/v1/emails/{id}"), "").await;
    let soft = r#""status":"bounced","detail":{"reason":"452 4.2.2 mailbox full","type":"soft"}"#;
    assert!(found.body.contains(soft), "{found:?}");
    assert_eq!(
        mail.replies.lock().expect("no panic")["full@out.example"].len(),
        13
    );
}

/// Each recipient has its own tracking pixel and links.
#[tokio::test]
async fn a_tracked_email_is_one_message_per_recipient() {
    let mail = MailServer::default();
    let sandbox = sandbox(&mail).await;
    let hook = r#"{"url":"http://127.0.0.1:1/","events":["email.opened"]}"#;
    assert_eq!(
        sandbox.call("POST /api/v1/webhooks", hook).await.status,
        201
    );

    let body = r#"{"from":"a@sandbox.test","to":["b@out.example","c@out.example"],"subject":"s","html":"<p>x</p>"}"#;
    let id = sandbox.call("POST /api/v1/emails", body).await.id();
    sandbox.settle().await;
    assert_eq!(status(&sandbox, &id).await, "delivered");

    let accepted = mail.accepted();
    let to: Vec<_> = accepted.iter().map(|message| message.to.concat()).collect();
    assert_eq!(to, ["b@out.example", "c@out.example"]);
    assert_ne!(accepted[0].source, accepted[1].source);
}

/// With a relay, only the relay decides where mail is delivered.
#[tokio::test]
async fn relayed_mail_is_not_received_locally() {
    let mail = MailServer::default();
    let sandbox = sandbox(&mail).await;
    let hook = r#"{"url":"http://127.0.0.1:1/","events":["email.received"]}"#;
    assert_eq!(
        sandbox.call("POST /api/v1/webhooks", hook).await.status,
        201
    );

    let id = send(&sandbox, r#""ada@sandbox.test""#).await;
    assert_eq!(status(&sandbox, &id).await, "delivered");
    assert_eq!(
        mail.accepted()[0].to,
        ["ada@sandbox.test", "hidden@out.example"]
    );

    let deliveries = sandbox.control("GET /_sandbox/deliveries", "").await;
    assert_eq!(deliveries.body, r#"{"data":[],"next":null}"#);
}

#[tokio::test]
async fn magic_recipients_are_not_relayed() {
    let mail = MailServer::default();
    let sandbox = sandbox(&mail).await;
    let id = send(&sandbox, r#""bounced+1@out.test","out@out.test""#).await;
    assert_eq!(status(&sandbox, &id).await, "bounced");
    assert_eq!(
        mail.accepted()[0].to,
        ["out@out.test", "hidden@out.example"]
    );
}

#[tokio::test]
async fn nobody_gets_mail_until_he_is_named() {
    let mail = MailServer::default();
    let url = format!("smtp://{}", mail.start().await);
    let none = Sandbox::with(|builder| builder.relay(&url).expect("a relay")).await;
    let id = send(&none, r#""ada@out.example""#).await;
    assert_eq!(status(&none, &id).await, "delivered");
    assert_eq!(mail.accepted().len(), 0);

    let some = Sandbox::with(|builder| {
        let builder = builder.relay(&url).expect("a relay");
        let builder = builder.relay_to("ada@out.example").expect("valid");
        builder.relay_to("team.example").expect("valid")
    })
    .await;
    let id = send(
        &some,
        r#""ada@out.example","bo@out.example","cy@team.example""#,
    )
    .await;
    assert_eq!(status(&some, &id).await, "delivered");
    assert_eq!(
        mail.accepted()[0].to,
        ["ada@out.example", "cy@team.example"]
    );
}

#[tokio::test]
async fn a_message_is_released_to_a_named_address() {
    let mail = MailServer::default();
    let url = format!("smtp://{}", mail.start().await);
    let sandbox = Sandbox::with(|builder| builder.relay(&url).expect("a relay")).await;
    send(&sandbox, r#""ada@out.example""#).await;
    let id = sandbox
        .control("GET /_sandbox/messages/wait?to=ada@out.example", "")
        .await
        .id();
    let path = format!("POST /_sandbox/messages/{id}/release");
    let released = sandbox.control(&path, r#"{"to":"me@team.example"}"#).await;
    assert_eq!(
        released.body,
        format!(r#"{{"id":"{id}","to":"me@team.example"}}"#)
    );

    let [accepted] = &mail.accepted()[..] else {
        panic!("{:?}", mail.accepted().len())
    };
    assert_eq!(accepted.to, ["me@team.example"]);

    let source = sandbox
        .control(&format!("GET /_sandbox/messages/{id}/raw"), "")
        .await
        .body;
    let unstuffed = accepted.source.replace("\r\n..", "\r\n.");
    assert_eq!(unstuffed.trim_end(), source.trim_end());

    mail.set_replies("no@team.example", &["550 5.1.1 no such user"]);
    let refused = sandbox.control(&path, r#"{"to":"no@team.example"}"#).await;
    assert_eq!(refused.status, 409);
    assert!(
        refused.body.contains("550 5.1.1 no such user"),
        "{refused:?}"
    );

    let without = Sandbox::start().await;
    let sent = r#"{"from":"a@sandbox.test","to":"b@b.test","subject":"x","text":"x"}"#;
    without.call("POST /api/v1/emails", sent).await;
    let id = without
        .control("GET /_sandbox/messages/wait", "")
        .await
        .id();
    let path = format!("POST /_sandbox/messages/{id}/release");
    let refused = without.control(&path, r#"{"to":"b@b.test"}"#).await;
    assert_eq!(refused.status, 409, "{refused:?}");
    assert!(refused.body.contains("--relay"), "{refused:?}");
}

#[tokio::test]
async fn mail_waits_for_an_unreachable_relay() {
    let free = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("smtp://{}", free.local_addr().expect("an address"));
    drop(free);
    let sandbox = Sandbox::with(|builder| {
        builder
            .relay(&url)
            .expect("a relay")
            .relay_to("*")
            .expect("valid")
    })
    .await;
    sandbox.freeze().await;
    let id = send(&sandbox, r#""ada@out.example""#).await;
    assert_eq!(status(&sandbox, &id).await, "sending");

    let clock = sandbox.control("GET /_sandbox/clock", "").await;
    assert!(!clock.body.contains(r#""next_due":null"#), "{clock:?}");
}

/// Before the final dot, the next server sends the message. After it, the relay may have
/// accepted the message, which is not sent again.
#[tokio::test]
async fn a_stop_during_a_message() {
    for (line, expected) in [("DATA", "delivered"), (".", "sent")] {
        let mail = MailServer::default();
        let url = format!("smtp://{}", mail.start().await);
        let directory = private_dir();
        let start = async || {
            let on_disk = Sandbox::with(|builder| {
                builder
                    .data_dir(directory.path())
                    .relay(&url)
                    .expect("a relay")
                    .relay_to("*")
                    .expect("valid")
            });
            on_disk.await
        };
        let sandbox = start().await;
        *mail.hangs_at.lock().expect("no panic") = Some((line, 0));
        let body = r#"{"from":"a@sandbox.test","to":"b@out.example","subject":"s"}"#;
        let sent = sandbox.call("POST /api/v1/emails", body).await.id();
        within("the message", mail.hangs.notified()).await;
        within("the server to stop", sandbox.server.stop()).await;

        let sandbox = start().await;
        within("the message", sandbox.settle()).await;
        let found = sandbox
            .call(&format!("GET /api/v1/emails/{sent}"), "")
            .await;
        assert_eq!(found.between(r#""status":""#), expected, "{found:?}");
        let reason = "did not confirm the message, and may have accepted it: this server ended \
                      before the reply";
        assert_eq!(found.body.contains(reason), line == ".", "{found:?}");
        assert_eq!(mail.accepted().len(), usize::from(line == "DATA"));
    }
}

/// The directory as it is while the relay does not reply is what a killed server leaves. The first
/// recipient has its message, and the second one may have it.
#[tokio::test]
async fn a_kill_after_the_final_dot() {
    let mail = MailServer::default();
    let url = format!("smtp://{}", mail.start().await);
    let start = async |directory: &Path| {
        Sandbox::with(|builder| {
            builder
                .data_dir(directory)
                .relay(&url)
                .expect("a relay")
                .relay_to("*")
                .expect("valid")
        })
        .await
    };

    let directory = private_dir();
    let sandbox = start(directory.path()).await;
    sandbox.freeze().await;
    // A tracked email is one message for each recipient.
    let hook = r#"{"url":"http://127.0.0.1:1/","events":["email.opened"]}"#;
    assert_eq!(
        sandbox.call("POST /api/v1/webhooks", hook).await.status,
        201
    );

    *mail.hangs_at.lock().expect("no panic") = Some((".", 1));
    let body = r#"{"from":"a@sandbox.test","to":["b@x.example","c@x.example"],"subject":"s","html":"<p>x</p>"}"#;
    let sent = sandbox.call("POST /api/v1/emails", body).await.id();
    within("the second message", mail.hangs.notified()).await;

    let copy = private_dir();
    for file in ["svc.db", "svc.db-wal"] {
        std::fs::copy(directory.path().join(file), copy.path().join(file)).expect("copied");
    }

    let sandbox = start(copy.path()).await;
    within("the message", sandbox.settle()).await;
    let found = sandbox
        .call(&format!("GET /api/v1/emails/{sent}"), "")
        .await;
    let reason = "the relay did not confirm the message, and may have accepted it: this server ended before the reply";
    for part in [
        r#"{"address":"b@x.example","status":"delivered","detail":null}"#,
        &format!(r#"{{"address":"c@x.example","status":"sent","detail":{{"reason":"{reason}"}}}}"#),
    ] {
        assert!(found.body.contains(part), "{part} in {found:?}");
    }

    sandbox.advance("1d").await;
    assert_eq!(mail.accepted().len(), 1);
}
