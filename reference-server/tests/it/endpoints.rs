//! Endpoints that behave badly: none holds up another one, nor itself, and
//! what happens to one organization leaves the others' deliveries alone.

use std::time::{Duration, Instant};

use crate::harness::Sandbox;
use crate::receiver::{NEVER, Receiver};

/// What one attempt may take.
const ATTEMPT: Duration = Duration::from_secs(10);

const SEND: &str = "POST /api/v1/emails";
const EMAIL: &str = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s"}"#;

async fn webhook(sandbox: &Sandbox, receiver: &Receiver) {
    let body = format!(r#"{{"url":"{}","events":["email.delivered"]}}"#, receiver.url());
    let made = sandbox.call("POST /api/v1/webhooks", &body).await;
    assert_eq!(made.status, 201, "{made:?}");
}

#[tokio::test]
async fn an_attempt_that_hangs_does_not_keep_the_endpoint_from_what_comes_after() {
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
async fn endpoints_that_hang_or_fail_hold_up_nobody() {
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
    assert_eq!(sandbox.call("POST /api/v1/emails/batch", &batch).await.status, 200);
    quick.until(EMAILS).await;
    failing.until(EMAILS).await;
    // So many attempts at one endpoint at once, and no more until they time out.
    let attempts = hanging.until(16).await.len();
    assert!(attempts == 16 || started.elapsed() >= ATTEMPT, "{attempts} attempts");
    let pending = "GET /_sandbox/deliveries?state=pending&limit=100";
    let listed = sandbox.control(pending, "").await;
    assert_eq!(listed.status, 200, "{listed:?}");
}

/// A test that cleans up after itself leaves the others' retries as they are.
#[tokio::test]
async fn a_reset_of_one_organization_leaves_the_others_deliveries() {
    let sandbox = Sandbox::start().await;
    sandbox.freeze().await;
    let receiver = Receiver::start(&[500]).await;
    webhook(&sandbox, &receiver).await;
    let sent = sandbox.call(SEND, EMAIL).await.id();
    sandbox.settle().await;
    assert_eq!(receiver.received().len(), 1);

    let made = sandbox.control("POST /_sandbox/organizations", r#"{"name":"Other"}"#).await;
    assert_eq!(made.status, 201, "{made:?}");
    let reset = sandbox.control("POST /_sandbox/reset", r#"{"organization":"Other"}"#).await;
    assert_eq!(reset.status, 204, "{reset:?}");

    sandbox.advance("2s").await;
    let received = receiver.received();
    assert_eq!(received.len(), 2, "the retry after two seconds");
    assert!(received[1].body.contains(&sent), "{received:?}");
}

/// What was in flight when its organization was emptied ends there and then.
#[tokio::test]
async fn a_reset_does_not_wait_for_attempts_that_hang() {
    let sandbox = Sandbox::start().await;
    let receiver = Receiver::start(&[NEVER]).await;
    webhook(&sandbox, &receiver).await;
    sandbox.call(SEND, EMAIL).await;
    receiver.until(1).await;
    assert_eq!(sandbox.control("POST /_sandbox/reset", "").await.status, 204);
    let state = sandbox.control("GET /_sandbox/clock", "").await;
    assert!(state.body.contains(r#""settled":true"#), "{state:?}");
    sandbox.call(SEND, EMAIL).await;
    sandbox.settle().await;
    assert_eq!(receiver.received().len(), 1);
}
