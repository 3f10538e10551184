//! Email templates (`docs/undocumented/email-service.md#templates`).

use crate::harness::Sandbox;

#[tokio::test]
async fn renders_templates_strictly() {
    let sandbox = Sandbox::start().await;
    let body =
        r#"{"subject":"unused","html":"<p>Hi {{ user.name }}</p>","text":"Hi {{ user.name }}"}"#;
    let put = sandbox.control("PUT /_sandbox/templates/welcome", body).await;
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
    let missing = sandbox.call("POST /api/v1/emails", &email(r#"{"user":{}}"#)).await;
    assert_eq!(missing.status, 422, "{missing:?}");
    assert!(missing.body.contains("user.name"), "{missing:?}");

    let sent = sandbox.call("POST /api/v1/emails", &email(r#"{"user":{"name":"<Ada>"}}"#)).await;
    assert_eq!(sent.status, 202, "{sent:?}");
    sandbox.settle().await;
    let shown = sandbox.control("GET /_sandbox/messages/wait", "").await;
    assert_eq!(shown.between(r#""html":""#), "<p>Hi &lt;Ada&gt;</p>");
    assert_eq!(shown.between(r#""text":""#), "Hi <Ada>");

    assert_eq!(sandbox.control("DELETE /_sandbox/templates/welcome", "").await.status, 204);
    assert_eq!(sandbox.control("DELETE /_sandbox/templates/welcome", "").await.status, 404);
    assert_eq!(sandbox.control("GET /_sandbox/templates/welcome", "").await.status, 404);
    let missing = sandbox.call("POST /api/v1/emails", &email("{}")).await;
    assert_eq!((missing.status, missing.between(r#""field":""#)), (422, "templateId".to_owned()));
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
