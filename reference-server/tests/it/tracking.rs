//! Open and click tracking: the pixel, the links and their events.

use crate::harness::Sandbox;
use crate::receiver::Receiver;

const BODY: &str = r#"{"from":"a@sandbox.test","to":"ada@x.test","subject":"s","html":"<p><a href=\"https://shop.test/offer?a=1&amp;b=2\">Offer</a></p>"}"#;

#[tokio::test]
async fn delivers_opens_and_clicks() {
    let sandbox = Sandbox::start().await;
    let receiver = Receiver::start(&[]).await;
    let hook = format!(
        r#"{{"url":"{}","events":["email.opened","email.clicked"]}}"#,
        receiver.url()
    );
    assert_eq!(
        sandbox.call("POST /api/v1/webhooks", &hook).await.status,
        201
    );

    let email = sandbox.call("POST /api/v1/emails", BODY).await.id();
    sandbox.settle().await;
    let message = sandbox
        .control("GET /_sandbox/messages", "")
        .await
        .between(r#""id":""#);
    let html = sandbox
        .control(&format!("GET /_sandbox/messages/{message}/html"), "")
        .await
        .body;
    let base = sandbox.server.base_url();
    let link = format!("{base}/t/c/{email}/0/0");
    let pixel = format!("{base}/t/o/{email}/0");
    assert!(
        html.contains(&format!(r#"<a href="{link}">Offer</a>"#)),
        "{html}"
    );
    assert!(html.contains(&format!(r#"<img src="{pixel}""#)), "{html}");

    // The email resource has the original HTML.
    let found = sandbox
        .call(&format!("GET /api/v1/emails/{email}"), "")
        .await;
    assert!(
        found.body.contains("https://shop.test/offer?a=1&amp;b=2"),
        "{found:?}"
    );

    // A HEAD request is neither an open nor a click.
    let head = sandbox.raw(&format!("HEAD /t/o/{email}/0"), "", "").await;
    assert_eq!(head.status, 200);

    let head = sandbox.raw(&format!("HEAD /t/c/{email}/0/0"), "", "").await;
    assert_eq!(
        (head.status, head.header("location").is_some()),
        (302, true)
    );

    let opened = sandbox.raw(&format!("GET /t/o/{email}/0"), "", "").await;
    assert_eq!(
        (opened.status, opened.header("content-type")),
        (200, Some("image/gif"))
    );

    let clicked = sandbox.raw(&format!("GET /t/c/{email}/0/0"), "", "").await;
    assert_eq!(
        (clicked.status, clicked.header("location")),
        (302, Some("https://shop.test/offer?a=1&b=2"))
    );

    sandbox.settle().await;
    let mut events: Vec<String> = receiver
        .received()
        .iter()
        .map(|one| one.body.clone())
        .collect();
    events.sort();
    assert_eq!(events.len(), 2, "{events:?}");
    assert!(
        events[0].contains(r#""event":"email.clicked""#),
        "{events:?}"
    );
    assert!(
        events[0].contains(r#""click":{"url":"https://shop.test/offer?a=1&b=2"}"#),
        "{events:?}"
    );
    assert!(
        events[1].contains(r#""recipient":"ada@x.test""#),
        "{events:?}"
    );

    for line in ["0/1", "0/x", "0/-1", "1/0", "x/0", "%ff/0"] {
        let unknown = sandbox
            .raw(&format!("GET /t/c/{email}/{line}"), "", "")
            .await;
        let expected = r#"{"error":{"code":"not_found","message":"no such link"}}"#;
        assert_eq!(
            (unknown.status, unknown.body.as_str()),
            (404, expected),
            "{line}"
        );
    }

    assert_eq!(
        sandbox
            .raw("GET /t/o/%ff/0", "", "")
            .await
            .header("content-type"),
        Some("image/gif")
    );
}

#[tokio::test]
async fn does_not_track_without_a_subscribed_webhook() {
    let sandbox = Sandbox::start().await;
    let email = sandbox.call("POST /api/v1/emails", BODY).await.id();
    sandbox.settle().await;
    let message = sandbox
        .control("GET /_sandbox/messages", "")
        .await
        .between(r#""id":""#);
    let html = sandbox
        .control(&format!("GET /_sandbox/messages/{message}/html"), "")
        .await
        .body;
    assert!(
        html.contains("https://shop.test/offer") && !html.contains("/t/"),
        "{html}"
    );
    assert_eq!(
        sandbox
            .raw(&format!("GET /t/c/{email}/0/0"), "", "")
            .await
            .status,
        404
    );

    for id in ["eml_x", email.as_str()] {
        assert_eq!(
            sandbox
                .raw(&format!("GET /t/o/{id}/0"), "", "")
                .await
                .status,
            200
        );
    }

    let found = sandbox
        .call(&format!("GET /api/v1/emails/{email}"), "")
        .await;
    assert_eq!(found.between(r#""lastEvent":""#), "email.delivered");
}

#[tokio::test]
async fn each_recipient_has_its_own_links() {
    let sandbox = Sandbox::start().await;
    let receiver = Receiver::start(&[]).await;
    let hook = format!(
        r#"{{"url":"{}","events":["email.opened","email.clicked"]}}"#,
        receiver.url()
    );
    assert_eq!(
        sandbox.call("POST /api/v1/webhooks", &hook).await.status,
        201
    );

    let body = BODY.replace(
        r#""to":"ada@x.test""#,
        r#""to":["ada@x.test","Bob <bob@x.test>"],"bcc":"eve@x.test""#,
    );
    let email = sandbox.call("POST /api/v1/emails", &body).await.id();
    sandbox.settle().await;
    for (position, recipient) in ["ada@x.test", "bob@x.test", "eve@x.test"]
        .iter()
        .enumerate()
    {
        let list = sandbox
            .control(&format!("GET /_sandbox/messages?to={recipient}"), "")
            .await;
        let path = format!("GET /_sandbox/messages/{}/html", list.id());
        let html = sandbox.control(&path, "").await.body;
        let link = html
            .split('"')
            .find(|part| part.contains("/t/c/"))
            .expect("a link");
        assert!(
            link.ends_with(&format!("/t/c/{email}/{position}/0")),
            "{html}"
        );
        assert!(
            html.contains(&format!("/t/o/{email}/{position}\"")),
            "{html}"
        );
    }

    // The third recipient opens, the second clicks and opens, the last index is unknown.
    for path in ["t/o/{}/2", "t/c/{}/1/0", "t/o/{}/1", "t/o/{}/9"] {
        sandbox
            .raw(&format!("GET /{}", path.replace("{}", &email)), "", "")
            .await;
        sandbox.settle().await;
    }

    let delivered: Vec<(String, String)> = receiver
        .received()
        .iter()
        .map(|one| {
            let recipient = one
                .body
                .split(r#""recipient":""#)
                .nth(1)
                .expect("a recipient");
            let recipient = recipient.split('"').next().expect("its end").to_owned();
            (one.header("mail-event").to_owned(), recipient)
        })
        .collect();
    let expected = [
        ("email.opened", "eve@x.test"),
        ("email.clicked", "bob@x.test"),
        ("email.opened", "bob@x.test"),
    ];
    assert_eq!(
        delivered,
        expected.map(|(event, to)| (event.to_owned(), to.to_owned()))
    );
}
