//! Email templates (`docs/undocumented/services.md#templates`).

use crate::harness::Sandbox;

#[tokio::test]
async fn renders_templates_strictly() {
    let sandbox = Sandbox::start().await;
    let body =
        r#"{"subject":"unused","html":"<p>Hi {{ user.name }}</p>","text":"Hi {{ user.name }}"}"#;
    let put = sandbox
        .control("PUT /_sandbox/templates/welcome", body)
        .await;
    assert_eq!(put.status, 200, "{put:?}");

    let got = sandbox.control("GET /_sandbox/templates/welcome", "").await;
    assert_eq!(got.body, put.body);
    assert!(
        got.body.starts_with(
            r#"{"id":"welcome","subject":"unused","html":"<p>Hi {{ user.name }}</p>""#
        )
    );

    let email = |variables: &str| {
        format!(
            r#"{{"from":"a@sandbox.test","to":"b@example.test","subject":"Hi","templateId":"welcome","variables":{variables}}}"#
        )
    };

    let missing = sandbox
        .call("POST /api/v1/emails", &email(r#"{"user":{}}"#))
        .await;
    assert_eq!(missing.status, 422, "{missing:?}");
    assert!(missing.body.contains("user.name"), "{missing:?}");

    let sent = sandbox
        .call(
            "POST /api/v1/emails",
            &email(r#"{"user":{"name":"<Ada>"}}"#),
        )
        .await;
    assert_eq!(sent.status, 202, "{sent:?}");

    sandbox.settle().await;
    let shown = sandbox.control("GET /_sandbox/messages/wait", "").await;
    assert_eq!(shown.between(r#""html":""#), "<p>Hi &lt;Ada&gt;</p>");
    assert_eq!(shown.between(r#""text":""#), "Hi <Ada>");

    assert_eq!(
        sandbox
            .control("DELETE /_sandbox/templates/welcome", "")
            .await
            .status,
        204
    );
    assert_eq!(
        sandbox
            .control("DELETE /_sandbox/templates/welcome", "")
            .await
            .status,
        404
    );
    assert_eq!(
        sandbox
            .control("GET /_sandbox/templates/welcome", "")
            .await
            .status,
        404
    );

    let missing = sandbox.call("POST /api/v1/emails", &email("{}")).await;
    assert_eq!(
        (missing.status, missing.between(r#""field":""#)),
        (422, "templateId".to_owned())
    );
}

#[tokio::test]
async fn rejects_a_syntax_error_with_its_line() {
    let sandbox = Sandbox::start().await;
    let body = r#"{"html":"a\n{% if %}","text":"{{ fine }}"}"#;
    let response = sandbox.control("PUT /_sandbox/templates/x", body).await;
    assert_eq!(response.status, 422);
    assert_eq!(
        response.between(r#""message":""#),
        "html: the template has a syntax error on line 2"
    );
}

/// The engine finds it when it renders.
#[tokio::test]
async fn an_unknown_filter_is_named_and_is_that_of_the_template() {
    let sandbox = Sandbox::start().await;
    let body = r#"{"subject":"s","text":"{{ name | nofilter }}"}"#;
    assert_eq!(
        sandbox
            .control("PUT /_sandbox/templates/welcome", body)
            .await
            .status,
        200
    );

    let email = r#"{"from":"hello@sandbox.test","to":"ada@example.test","subject":"s","templateId":"welcome"}"#;
    let refused = sandbox.call("POST /api/v1/emails", email).await;
    assert_eq!(
        (refused.status, refused.between(r#""field":""#)),
        (422, "templateId".to_owned())
    );
    assert!(refused.body.contains("unknown filter") && refused.body.contains("nofilter"));
}

#[tokio::test]
async fn renders_a_template_as_an_email_with_it_would_be() {
    let sandbox = Sandbox::start().await;
    let body = r#"{"subject":"Hi {{ user.name }}","html":"<p>{{ user.name }}</p>"}"#;
    assert_eq!(
        sandbox
            .control("PUT /_sandbox/templates/welcome", body)
            .await
            .status,
        200
    );

    let events = sandbox
        .control("GET /_sandbox/events/wait", "")
        .await
        .between(r#""next":""#);

    let render = "POST /_sandbox/templates/welcome/render";
    let body = r#"{"variables":{"user":{"name":"<Ada>"}}}"#;
    let rendered = sandbox.control(render, body).await;
    let expected = r#"{"subject":"Hi <Ada>","html":"<p>&lt;Ada&gt;</p>","text":null}"#;
    assert_eq!((rendered.status, rendered.body.as_str()), (200, expected));

    let email =
        r#"{"from":"a@sandbox.test","to":"b@example.test","subject":"Hi","templateId":"welcome"}"#;
    let sent = sandbox.call("POST /api/v1/emails", email).await;
    for body in ["", "{}", r#"{"variables":{"user":{}}}"#] {
        let missing = sandbox.control(render, body).await;
        assert_eq!(
            (missing.status, missing.between(r#""field":""#).as_str()),
            (422, "variables")
        );
    }

    assert_eq!(sandbox.control(render, "{}").await.body, sent.body);

    let large = format!(r#"{{"variables":{{"user":"{}"}}}}"#, "x".repeat(1 << 20));
    let refused = sandbox.control(render, &large).await;
    assert_eq!(refused.status, 422, "{refused:?}");
    assert!(
        refused.body.contains("more than 1048576 bytes"),
        "{refused:?}"
    );
    assert_eq!(
        sandbox.control(render, r#"{"name":"Ada"}"#).await.status,
        422
    );

    let missing = sandbox
        .control("POST /_sandbox/templates/nothing/render", "{}")
        .await;
    assert_eq!(missing.status, 404);

    sandbox.organization().await;

    // Nothing was sent, and a client that shows what it renders is not told to render it again.
    let line = format!("GET /_sandbox/events/wait?after={events}");
    let changes = sandbox.control(&line, "").await.body;
    assert!(
        changes.contains(r#""resource":"organizations""#),
        "{changes}"
    );
    assert!(!changes.contains(r#""resource":"templates""#), "{changes}");
    assert_eq!(
        sandbox.control("GET /_sandbox/emails", "").await.body,
        r#"{"data":[],"next":null}"#
    );
}
