//! Webhook endpoints that hang or fail do not delay other deliveries, and resetting one
//! organization does not affect the deliveries of another.

use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::harness::Sandbox;
use crate::receiver::{NEVER, Receiver, within};

/// The timeout of one attempt.
const ATTEMPT: Duration = Duration::from_secs(10);

const SEND: &str = "POST /api/v1/emails";
const EMAIL: &str = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s"}"#;

async fn webhook(sandbox: &Sandbox, receiver: &Receiver) {
    let body = format!(
        r#"{{"url":"{}","events":["email.delivered"]}}"#,
        receiver.url()
    );
    let created = sandbox.call("POST /api/v1/webhooks", &body).await;
    assert_eq!(created.status, 201, "{created:?}");
}

#[tokio::test]
async fn a_hanging_attempt_does_not_block_later_deliveries_to_its_endpoint() {
    let sandbox = Sandbox::start().await;
    let receiver = Receiver::start(&[NEVER]).await;
    webhook(&sandbox, &receiver).await;
    sandbox.call(SEND, EMAIL).await;
    receiver.until(1).await;
    for count in 2..5 {
        sandbox.call(SEND, EMAIL).await;
        receiver.until(count).await;
    }
}

#[tokio::test]
async fn hanging_and_failing_endpoints_do_not_delay_others() {
    const EMAILS: usize = 100;

    let sandbox = Sandbox::start().await;
    let hanging = Receiver::start(&[NEVER; EMAILS]).await;
    let failing = Receiver::start(&[500; EMAILS]).await;
    let quick = Receiver::start(&[]).await;
    for receiver in [&hanging, &failing, &quick] {
        webhook(&sandbox, receiver).await;
    }

    let batch = format!("[{}]", [EMAIL; EMAILS].join(","));
    let started = Instant::now();
    assert_eq!(
        sandbox
            .call("POST /api/v1/emails/batch", &batch)
            .await
            .status,
        200
    );

    quick.until(EMAILS).await;
    failing.until(EMAILS).await;
    // At most 16 concurrent attempts per endpoint, until they time out.
    let attempts = hanging.until(16).await.len();
    assert!(
        attempts == 16 || started.elapsed() >= ATTEMPT,
        "{attempts} attempts"
    );

    let pending = "GET /_sandbox/deliveries?state=pending&limit=100";
    let listed = sandbox.control(pending, "").await;
    assert_eq!(listed.status, 200, "{listed:?}");
}

/// A test that resets its organization does not affect the retries of other tests.
#[tokio::test]
async fn resetting_an_organization_keeps_the_deliveries_of_others() {
    let sandbox = Sandbox::start().await;
    sandbox.freeze().await;
    let receiver = Receiver::start(&[500]).await;
    webhook(&sandbox, &receiver).await;
    let sent = sandbox.call(SEND, EMAIL).await.id();
    sandbox.settle().await;
    assert_eq!(receiver.received().len(), 1);

    let created = sandbox
        .control("POST /_sandbox/organizations", r#"{"name":"Other"}"#)
        .await;
    assert_eq!(created.status, 201, "{created:?}");

    let reset = sandbox
        .control("POST /_sandbox/reset", r#"{"organization":"Other"}"#)
        .await;
    assert_eq!(reset.status, 204, "{reset:?}");

    sandbox.advance("2s").await;
    let received = receiver.received();
    assert_eq!(received.len(), 2, "no retry after two seconds");
    assert!(received[1].body.contains(&sent), "{received:?}");
}

/// A reset aborts the attempts in progress.
#[tokio::test]
async fn a_reset_does_not_wait_for_hanging_attempts() {
    let sandbox = Sandbox::start().await;
    let receiver = Receiver::start(&[NEVER]).await;
    webhook(&sandbox, &receiver).await;
    sandbox.call(SEND, EMAIL).await;
    receiver.until(1).await;
    assert_eq!(
        sandbox.control("POST /_sandbox/reset", "").await.status,
        204
    );

    let state = sandbox.control("GET /_sandbox/clock", "").await;
    assert!(state.body.contains(r#""settled":true"#), "{state:?}");

    sandbox.call(SEND, EMAIL).await;
    sandbox.settle().await;
    assert_eq!(receiver.received().len(), 1);
}

/// Even if the client of the reset hangs up at once.
#[tokio::test]
async fn a_reset_whose_client_hangs_up_aborts_the_attempts_in_progress() {
    let sandbox = Sandbox::start().await;
    let receiver = Receiver::start(&[NEVER]).await;
    webhook(&sandbox, &receiver).await;
    sandbox.call(SEND, EMAIL).await;
    receiver.until(1).await;
    let mut client = TcpStream::connect(sandbox.addr())
        .await
        .expect("a connection");
    let request = format!(
        "POST /_sandbox/reset HTTP/1.1\r\nhost: {}\r\ncontent-length: 0\r\n\r\n",
        sandbox.addr()
    );
    client.write_all(request.as_bytes()).await.expect("written");
    drop(client);
    let reset = async { while sandbox.call("GET /api/v1/webhooks", "").await.body != "[]" {} };
    within("the reset", reset).await;
    // An attempt that is not aborted goes on until it times out, after 10 s.
    let settled = sandbox
        .control("POST /_sandbox/settle", r#"{"timeout":"5s"}"#)
        .await;
    assert_eq!(settled.status, 200, "{settled:?}");
}
