//! The clock of the control interface (`docs/control-interface.md#the-clock`).

use std::time::Duration;

use chrono::DateTime;

use crate::harness::{Sandbox, private_dir};
use crate::receiver::{LATE, Receiver, within};

#[tokio::test]
async fn freezes_advances_and_resumes() {
    let sandbox = Sandbox::start().await;
    let now = sandbox.freeze().await;
    for _ in 0..2 {
        let state = sandbox.control("GET /_sandbox/clock", "").await;
        let expected =
            format!(r#"{{"now":"{now}","frozen":true,"settled":true,"next_due":null,"ahead":-"#);
        assert!(
            state.status == 200 && state.body.starts_with(&expected),
            "a frozen clock falls behind: {state:?}"
        );
    }

    let later = sandbox.advance("36500d").await;
    assert_eq!(later.between(r#""now":""#)[..2], *"21");

    let resumed = sandbox
        .control("POST /_sandbox/clock", r#"{"resume":true}"#)
        .await;
    assert!(resumed.body.contains(r#""frozen":false"#), "{resumed:?}");
    assert_eq!(
        resumed.between(r#""now":""#)[..4],
        later.between(r#""now":""#)[..4]
    );

    // A running clock still runs after an advance.
    let further = sandbox.advance("36500d").await;
    assert!(further.body.contains(r#""frozen":false"#), "{further:?}");
    assert_eq!(further.between(r#""now":""#)[..2], *"22");
}

#[tokio::test]
async fn rejects_invalid_changes() {
    let sandbox = Sandbox::start().await;
    for body in [
        "{}",
        r#"{"freeze":false}"#,
        r#"{"resume":false}"#,
        r#"{"freeze":true,"resume":true}"#,
        r#"{"real":false}"#,
        r#"{"real":true,"freeze":true}"#,
        r#"{"advance":"90"}"#,
        r#"{"advance":"-1s"}"#,
        r#"{"advance":90}"#,
    ] {
        assert_eq!(
            sandbox.control("POST /_sandbox/clock", body).await.status,
            422,
            "{body}"
        );
    }
}

/// It waits for mail, its events and their deliveries, and not for what is due later.
#[tokio::test]
async fn settle_waits_for_all_that_is_due() {
    let sandbox = Sandbox::start().await;
    let now = sandbox.freeze().await;
    let receiver = Receiver::start(&[200, 500]).await;
    let body = format!(
        r#"{{"url":"{}","events":["email.delivered"]}}"#,
        receiver.url()
    );
    sandbox.call("POST /api/v1/webhooks", &body).await;
    for number in 1..=2 {
        let body = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s"}"#;
        assert_eq!(sandbox.call("POST /api/v1/emails", body).await.status, 202);
        let settled = sandbox.control("POST /_sandbox/settle", "").await;
        let start = format!(r#"{{"now":"{now}","frozen":true,"settled":true,"next_due":"#);
        assert!(
            settled.status == 200 && settled.body.starts_with(&start),
            "{settled:?}"
        );
        // The second attempt of the second delivery is due in two seconds.
        assert_eq!(
            settled.body.contains(r#""next_due":null"#),
            number == 1,
            "{settled:?}"
        );
        assert_eq!(receiver.received().len(), number);
    }

    for body in [
        r#"{"timeout":"soon"}"#,
        r#"{"timeout":"601s"}"#,
        r#"{"time":"1s"}"#,
    ] {
        assert_eq!(
            sandbox.control("POST /_sandbox/settle", body).await.status,
            422,
            "{body}"
        );
    }
}

#[tokio::test]
async fn settle_returns_408_after_the_timeout() {
    let sandbox = Sandbox::start().await;
    // It accepts connections and never responds.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let body = format!(r#"{{"url":"{url}","events":["email.delivered"]}}"#);
    sandbox.call("POST /api/v1/webhooks", &body).await;
    let body = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s"}"#;
    assert_eq!(sandbox.call("POST /api/v1/emails", body).await.status, 202);

    let _open = within("the attempt", silent.accept()).await.unwrap();
    let settled = sandbox
        .control("POST /_sandbox/settle", r#"{"timeout":"20ms"}"#)
        .await;
    assert_eq!(
        (settled.status, settled.between(r#""code":""#).as_str()),
        (408, "request_timeout")
    );
}

/// Work that is scheduled during an advance and due within it runs at its own time.
#[tokio::test]
async fn an_advance_runs_the_work_that_it_causes() {
    let sandbox = Sandbox::start().await;
    sandbox.freeze().await;
    let receiver = Receiver::start(&[500, 500, 500, 200]).await;
    let body = format!(
        r#"{{"url":"{}","events":["email.delivered"]}}"#,
        receiver.url()
    );
    sandbox.call("POST /api/v1/webhooks", &body).await;
    let body = r#"{"from":"a@sandbox.test","to":"delayed@x.test","subject":"s"}"#;
    let email = sandbox.call("POST /api/v1/emails", body).await.id();
    let state = sandbox.advance("1h").await;
    assert!(
        state.body.contains(r#""settled":true,"next_due":null,"#),
        "{state:?}"
    );
    assert_eq!(
        receiver.received().len(),
        4,
        "at 60, 62, 70 and 102 seconds"
    );

    let found = sandbox
        .call(&format!("GET /api/v1/emails/{email}"), "")
        .await;
    let at = |name: &str| {
        let text = found.between(&format!(r#""{name}":""#));
        let clock: Vec<i64> = text[11..19]
            .split(':')
            .map(|part| part.parse().unwrap())
            .collect();
        clock[0] * 3600 + clock[1] * 60 + clock[2]
    };

    let passed = (at("updatedAt") - at("createdAt")).rem_euclid(86_400);
    assert_eq!(passed, 60, "delivered at its own time: {found:?}");
}

/// What is deleted in the background is not left to the time of the old clock.
#[tokio::test]
async fn nothing_is_due_after_a_reset() {
    let sandbox = Sandbox::start().await;
    sandbox.freeze().await;
    let email = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s","text":"t"}"#;
    let batch = format!("[{}]", [email; 100].join(","));
    for _ in 0..12 {
        assert_eq!(
            sandbox
                .call("POST /api/v1/emails/batch", &batch)
                .await
                .status,
            200
        );
    }

    sandbox.advance("10d").await;
    assert_eq!(
        sandbox.control("POST /_sandbox/reset", "").await.status,
        204
    );

    sandbox.settle().await;
    let clock = sandbox.control("GET /_sandbox/clock", "").await;
    assert!(
        clock.body.contains(r#""settled":true,"next_due":null"#),
        "{clock:?}"
    );
}

#[tokio::test]
async fn concurrent_advances_add_up() {
    let sandbox = Sandbox::start().await;
    let before = sandbox.freeze().await;
    let (first, second) = tokio::join!(sandbox.advance("1h"), sandbox.advance("1h"));
    let times = [
        before,
        first.between(r#""now":""#),
        second.between(r#""now":""#),
    ];
    let hour = |text: &str| text[11..13].parse::<i64>().unwrap();
    let latest = times[1..].iter().max().unwrap();
    assert_eq!(
        (hour(latest) - hour(&times[0])).rem_euclid(24),
        2,
        "{times:?}"
    );
}

#[tokio::test]
async fn rejects_an_advance_beyond_the_year_9999() {
    let sandbox = Sandbox::start().await;
    for _ in 0..7 {
        sandbox.advance("365000d").await;
    }

    let rejected = sandbox
        .control("POST /_sandbox/clock", r#"{"advance":"365000d"}"#)
        .await;
    assert_eq!(rejected.status, 422, "{rejected:?}");
    assert!(
        rejected
            .body
            .contains("must not move the clock beyond the year 9999"),
        "{rejected:?}"
    );
    assert!(sandbox.advance("1d").await.body.starts_with(r#"{"now":"9"#));

    // Of several at once, together, too.
    let advance = || sandbox.control("POST /_sandbox/clock", r#"{"advance":"200000d"}"#);
    let (one, other) = tokio::join!(advance(), advance());
    let mut statuses = [one.status, other.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 422]);
}

/// The benchmark `advance` measures how long this takes.
#[tokio::test]
async fn an_advance_over_ten_thousand_emails_settles() {
    let sandbox = Sandbox::start().await;
    let now = sandbox.freeze().await;
    for batch in 0..100 {
        let emails: Vec<String> = (0..100)
            .map(|number| {
                // Different times, all within the advance below.
                let second = (batch * 100 + number) % 86_400;
                let at = format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60);
                format!(
                    r#"{{"from":"a@sandbox.test","to":"b@x.test","subject":"s","scheduledAt":"2999-01-01T{at}Z"}}"#
                )
            })
            .collect();
        let response = sandbox
            .call(
                "POST /api/v1/emails/batch",
                &format!("[{}]", emails.join(",")),
            )
            .await;
        assert_eq!(response.status, 200);
    }

    let years = 2999 - now[..4].parse::<i64>().unwrap() + 1;
    let state = sandbox.advance(&format!("{}d", years * 366)).await;
    assert!(
        state.body.contains(r#""settled":true,"next_due":null,"#),
        "{state:?}"
    );
}

/// Once begun, an advance is completed and saved.
#[tokio::test]
async fn an_advance_finishes_if_its_client_disconnects() {
    let directory = private_dir();
    let sandbox = Sandbox::with(|builder| builder.data_dir(directory.path())).await;
    let before = sandbox.freeze().await;
    let receiver = Receiver::start(&[LATE]).await;
    let body = format!(r#"{{"url":"{}","events":["email.sent"]}}"#, receiver.url());
    assert_eq!(
        sandbox.call("POST /api/v1/webhooks", &body).await.status,
        201
    );

    let email = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s"}"#;
    assert_eq!(sandbox.call("POST /api/v1/emails", email).await.status, 202);

    receiver.until(1).await;
    // The advance waits for the attempt, and the client does not.
    let advance = sandbox.control("POST /_sandbox/clock", r#"{"advance":"1h"}"#);
    let disconnected = tokio::time::timeout(Duration::from_millis(300), advance).await;
    assert!(disconnected.is_err());

    within("the retry, an advance later", receiver.until(2)).await;
    within("the end of the advance", sandbox.settle()).await;
    sandbox.server.stop().await;

    let sandbox = Sandbox::with(|builder| builder.data_dir(directory.path())).await;
    let state = sandbox.control("GET /_sandbox/clock", "").await;
    let time = |text: &str| DateTime::parse_from_rfc3339(text).expect("a time");
    let passed = time(&state.between(r#""now":""#)) - time(&before);
    assert_eq!(passed.num_minutes(), 60, "{state:?}");
}

/// Also after a restart, although the stored times are of the clock that was ahead.
#[tokio::test]
async fn real_time_sets_the_clock_back_for_good() {
    let directory = private_dir();
    let year = |clock: &str| clock[..4].parse::<i64>().unwrap();
    let real = chrono::Utc::now().to_rfc3339();
    let sandbox = Sandbox::with(|builder| builder.data_dir(directory.path())).await;
    let ahead = sandbox.advance("3650d").await;
    let (_, milliseconds) = ahead.body.split_once(r#""ahead":"#).unwrap();
    let milliseconds: i64 = milliseconds.trim_end_matches('}').parse().unwrap();
    assert!(
        (315_359_900_000..=315_360_000_000).contains(&milliseconds),
        "{milliseconds}"
    );

    let body = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s"}"#;
    assert_eq!(sandbox.call("POST /api/v1/emails", body).await.status, 202);

    sandbox.settle().await;
    sandbox.freeze().await;
    let state = sandbox
        .control("POST /_sandbox/clock", r#"{"real":true}"#)
        .await;
    assert!(state.body.contains(r#""frozen":false"#), "{state:?}");
    assert_eq!(year(&state.between(r#""now":""#)), year(&real), "{state:?}");

    sandbox.server.stop().await;

    let sandbox = Sandbox::with(|builder| builder.data_dir(directory.path())).await;
    let state = sandbox.control("GET /_sandbox/clock", "").await;
    assert_eq!(year(&state.between(r#""now":""#)), year(&real), "{state:?}");

    // What happens next is found after what happened then.
    let body = r#"{"from":"a@sandbox.test","to":"c@x.test","subject":"s"}"#;
    assert_eq!(sandbox.call("POST /api/v1/emails", body).await.status, 202);

    sandbox.settle().await;
    let newest = sandbox.control("GET /_sandbox/messages?limit=1", "").await;
    assert_eq!(newest.between(r#""recipient":""#), "c@x.test");
}
