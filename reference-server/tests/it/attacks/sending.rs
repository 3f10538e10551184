//! What must be sent once, or unchanged.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;

use crate::harness::{KEY, Sandbox};
use crate::receiver::{NEVER, Receiver, within};

#[tokio::test]
async fn five_tests_of_a_webhook_with_one_idempotency_key() {
    let sandbox = Sandbox::start().await;
    // The first attempt is in progress until it times out or the test drops the server.
    let receiver = Receiver::start(&[NEVER]).await;
    let body = format!(r#"{{"url":"{}","events":["email.sent"]}}"#, receiver.url());
    let webhook = sandbox.call("POST /api/v1/webhooks", &body).await.id();
    let line = format!("POST /api/v1/webhooks/{webhook}/test");
    let headers = format!("authorization: Bearer {KEY}\r\nidempotency-key: once\r\n");
    let first = sandbox.raw(&line, &headers, "");
    let others = async {
        receiver.until(1).await;
        // The delivery is stored before it is sent.
        let stored = sandbox.control("GET /_sandbox/deliveries?event=webhook.test", "").await;
        assert!(stored.body.contains(r#""state":"pending","attemptCount":0"#), "{stored:?}");
        for _ in 0..4 {
            let refused = sandbox.raw(&line, &headers, "").await;
            assert_eq!(
                (refused.status, refused.between(r#""code":""#).as_str()),
                (409, "conflict")
            );
        }
    };
    let (first, ()) = tokio::join!(first, others);
    assert_eq!(first.status, 200, "{first:?}");
    let again = sandbox.raw(&line, &headers, "").await;
    assert_eq!((again.status, &again.body), (200, &first.body));
    assert_eq!(receiver.received().len(), 1);
    let stored = sandbox.control("GET /_sandbox/deliveries?event=webhook.test", "").await;
    assert!(stored.body.contains(r#""state":"failed","attemptCount":1"#), "{stored:?}");
}

/// A mail server that reads whole messages and breaks off instead of confirming them.
async fn breaking_mail_server(messages: Arc<AtomicUsize>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("smtp://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let messages = Arc::clone(&messages);
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                let (mut line, mut in_data) = (String::new(), false);
                stream.write_all(b"220 ready\r\n").await.ok()?;
                while stream.read_line(&mut line).await.is_ok_and(|count| count > 0) {
                    let reply: &[u8] = match line.trim_end() {
                        "." if in_data => {
                            messages.fetch_add(1, Ordering::SeqCst);
                            return None;
                        }
                        "DATA" => {
                            in_data = true;
                            b"354 go\r\n"
                        }
                        _ if in_data => b"",
                        _ => b"250 ok\r\n",
                    };
                    stream.write_all(reply).await.ok()?;
                    line.clear();
                }
                Some(())
            });
        }
    });
    url
}

#[tokio::test]
async fn a_relay_that_breaks_off_after_the_message() {
    for (again, copies) in [(false, 1), (true, 2)] {
        let messages = Arc::new(AtomicUsize::new(0));
        let relay = breaking_mail_server(Arc::clone(&messages)).await;
        let sandbox =
            Sandbox::with(|builder| builder.relay(&relay).expect("valid").relay_again(again)).await;
        sandbox.freeze().await;
        let body = r#"{"from":"a@sandbox.test","to":"b@x.example","subject":"s","text":"x"}"#;
        let email = sandbox.call("POST /api/v1/emails", body).await.id();
        within("the first attempt", sandbox.settle()).await;
        sandbox.advance("30s").await;
        let shown = sandbox.call(&format!("GET /api/v1/emails/{email}"), "").await;
        assert!(shown.body.contains("the relay did not confirm the message"), "{shown:?}");
        let status = if again { "sending" } else { "sent" };
        assert!(shown.body.contains(&format!(r#""status":"{status}""#)), "{shown:?}");
        assert_eq!(messages.load(Ordering::SeqCst), copies);
    }
}

#[tokio::test]
async fn a_bare_line_break_that_hides_the_end_of_a_message() {
    let sandbox = Sandbox::start().await;
    let body = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s","text":"one\r.\r\ntwo\u0000","html":"<p>\r.\r</p>"}"#;
    assert_eq!(sandbox.call("POST /api/v1/emails", body).await.status, 202);
    let message = sandbox.control("GET /_sandbox/messages/wait", "").await.id();
    let source = sandbox.control(&format!("GET /_sandbox/messages/{message}/raw"), "").await.body;
    assert!(!source.replace("\r\n", "").contains(['\r', '\0']), "{source}");
    assert!(source.contains("one=0D.\r\ntwo=00"), "{source}");
}
