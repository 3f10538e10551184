//! Calls every described operation and event once, and checks that the responses and the
//! deliveries match the OpenAPI description.

use serde_json::Value;

use crate::harness::{EXTRACTION_KEY, Sandbox};
use crate::receiver::Receiver;

#[test]
fn every_operation_responds_as_described() {
    // Its future is too large for the stack of a test without optimizations.
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("a runtime").block_on(call_every_operation());
    };
    let thread = std::thread::Builder::new().stack_size(16 << 20).spawn(run);
    thread.expect("a thread").join().expect("no panic");
}

async fn call_every_operation() {
    // Takes what is released.
    let any_port = "127.0.0.1:0".parse().expect("an address");
    let relay = Sandbox::with(|builder| builder.smtp(any_port)).await;
    let url = format!(
        "smtp://{}",
        relay.server.addresses().smtp.expect("a listener")
    );
    let sandbox = Sandbox::with(|builder| builder.relay(&url).expect("a relay")).await;
    let s = &sandbox;
    s.freeze().await;

    let audience = s
        .call("POST /api/v1/audiences", r#"{"name":"Readers"}"#)
        .await
        .id();
    s.call("GET /api/v1/audiences", "").await;
    s.call(&format!("GET /api/v1/audiences/{audience}"), "")
        .await;
    let contacts = format!("/api/v1/audiences/{audience}/contacts");
    let contact = r#"{"email":"ada@example.test","name":"Ada","metadata":{"a":1},"topics":["x"]}"#;
    let contact = s.call(&format!("POST {contacts}"), contact).await.id();
    s.call(&format!("GET {contacts}?page=1&pageSize=1"), "")
        .await;
    s.control("GET /_sandbox/audiences", "").await;
    s.control(&format!("GET /_sandbox/audiences/{audience}/contacts"), "")
        .await;
    s.call(
        &format!("PATCH /api/v1/contacts/{contact}"),
        r#"{"subscribed":false}"#,
    )
    .await;
    s.call(&format!("DELETE /api/v1/contacts/{contact}"), "")
        .await;
    s.call(&format!("DELETE /api/v1/audiences/{audience}"), "")
        .await;

    let domain = s
        .call("POST /api/v1/domains", r#"{"name":"shop.test"}"#)
        .await
        .id();
    s.call("GET /api/v1/domains", "").await;
    s.control("GET /_sandbox/domains", "").await;
    s.control(
        "POST /_sandbox/dns/shop.test/publish",
        r#"{"records":["mx","spf"]}"#,
    )
    .await;
    s.call(&format!("POST /api/v1/domains/{domain}/verify"), "")
        .await;
    s.control("DELETE /_sandbox/dns/shop.test/mx", "").await;
    s.control("DELETE /_sandbox/dns/shop.test", "").await;
    s.call(&format!("DELETE /api/v1/domains/{domain}"), "")
        .await;

    webhooks(s).await;
    emails(s).await;
    control(s).await;
    due(s).await;
    s.control("POST /_sandbox/reset", "").await;

    let description = s.description().await;
    let seen = description.seen();
    let missing: Vec<_> = description
        .operations()
        .into_iter()
        .filter(|operation| !seen.contains(operation))
        .collect();
    assert!(
        missing.is_empty(),
        "described, but not called successfully here: {missing:#?}"
    );
}

async fn webhooks(s: &Sandbox) {
    // Port 9 is closed, so every attempt fails.
    let new = r#"{"url":"http://127.0.0.1:9/","events":["email.delivered","email.opened"]}"#;
    let webhook = s.call("POST /api/v1/webhooks", new).await.id();
    s.call("GET /api/v1/webhooks", "").await;
    s.control("GET /_sandbox/webhooks", "").await;
    s.call(
        &format!("PATCH /api/v1/webhooks/{webhook}"),
        r#"{"active":true}"#,
    )
    .await;
    s.call(&format!("POST /api/v1/webhooks/{webhook}/test"), "")
        .await;

    s.with_key(EXTRACTION_KEY, "GET /v1/me", "").await;
    let new = r#"{"url":"http://127.0.0.1:9/","events":["extraction.completed"]}"#;
    let endpoint = s
        .with_key(EXTRACTION_KEY, "POST /v1/webhooks", new)
        .await
        .id();
    s.with_key(EXTRACTION_KEY, "GET /v1/webhooks", "").await;
    let event = r#"{"event":"extraction.completed","data":{"total":"12.00"}}"#;
    let delivery = s.control("POST /_sandbox/extractions", event).await.id();
    s.advance("1h").await;
    s.control("GET /_sandbox/deliveries?state=failed", "").await;
    s.control(&format!("GET /_sandbox/deliveries/{delivery}"), "")
        .await;
    s.control(&format!("POST /_sandbox/deliveries/{delivery}/replay"), "")
        .await;
    s.with_key(
        EXTRACTION_KEY,
        &format!("DELETE /v1/webhooks/{endpoint}"),
        "",
    )
    .await;
    s.call(&format!("DELETE /api/v1/webhooks/{webhook}"), "")
        .await;
}

async fn emails(s: &Sandbox) {
    let email = r#"{"from":"Shop <hello@sandbox.test>","to":["ada@example.test"],"subject":"Hi",
        "html":"<a href=\"https://example.test/\">Your code</a>: 123456","cc":"bob@example.test",
        "headers":{"X-Order":"7"},"tags":{"kind":"code"},
        "attachments":[{"filename":"a.txt","content":"QQ=="}]}"#;
    let sent = s.call("POST /api/v1/emails", email).await.id();
    let batch = r#"[{"from":"hello@sandbox.test","to":"ada@example.test","subject":"Hi"},{}]"#;
    s.call("POST /api/v1/emails/batch", batch).await;
    let later = r#"{"from":"hello@sandbox.test","to":"ada@example.test","subject":"Later",
        "scheduledAt":"2999-01-01"}"#;
    let later = s.call("POST /api/v1/emails", later).await.id();
    s.call(&format!("PATCH /api/v1/emails/{later}/cancel"), "")
        .await;
    s.settle().await;
    s.call(&format!("GET /api/v1/emails/{sent}"), "").await;
    let later =
        r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s","scheduledAt":"2999-12-31"}"#;
    let later = s.call("POST /api/v1/emails", later).await.id();
    s.control(&format!("POST /_sandbox/emails/{later}/send"), "")
        .await;
    s.control(
        &format!("POST /_sandbox/emails/{sent}/events"),
        r#"{"event":"complained"}"#,
    )
    .await;
    s.control(&format!("GET /_sandbox/emails/{sent}/story"), "")
        .await;

    let message = s
        .control("GET /_sandbox/messages/wait?subject=hi", "")
        .await
        .id();
    s.control("GET /_sandbox/messages?limit=1", "").await;
    let sent = s
        .control("GET /_sandbox/messages?to=bob@example.test", "")
        .await
        .id();
    s.control(
        &format!("POST /_sandbox/messages/{sent}/release"),
        r#"{"to":"bob@example.test"}"#,
    )
    .await;
    for part in [
        "",
        "/raw",
        "/html",
        "/html-check",
        "/links",
        "/attachments/1",
    ] {
        s.control(&format!("GET /_sandbox/messages/{sent}{part}"), "")
            .await;
    }

    s.control("GET /_sandbox/emails?status=cancelled", "").await;
    let request = s
        .control("GET /_sandbox/requests?operation=emails.send", "")
        .await
        .id();
    s.control(&format!("GET /_sandbox/requests/{request}"), "")
        .await;
    s.control(&format!("GET /_sandbox/messages/{message}"), "")
        .await;
    let incoming = r#"{"from":"ada@example.test","to":"help@sandbox.test","subject":"Help"}"#;
    let incoming = s.control("POST /_sandbox/inbound", incoming).await.id();
    s.control(&format!("GET /_sandbox/messages/{incoming}"), "")
        .await;
    s.control(&format!("DELETE /_sandbox/messages/{incoming}"), "")
        .await;
    s.control("DELETE /_sandbox/messages?to=bob@example.test", "")
        .await;
}

async fn due(s: &Sandbox) {
    let later =
        r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s","scheduledAt":"2999-12-31"}"#;
    let later = s.call("POST /api/v1/emails", later).await.id();
    s.control("GET /_sandbox/due", "").await;
    s.control(&format!("POST /_sandbox/due/{later}/run"), "")
        .await;
    s.control("GET /_sandbox/messages/count", "").await;
}

async fn control(s: &Sandbox) {
    for path in [
        "/readyz",
        "/_sandbox/health",
        "/_sandbox/seed",
        "/_sandbox/lease",
        "/_sandbox/clock",
    ] {
        s.control(&format!("GET {path}"), "").await;
    }

    s.control("POST /_sandbox/settle", r#"{"timeout":"60s"}"#)
        .await;
    s.control("GET /_sandbox/events", "").await;
    s.control("GET /_sandbox/events/wait", "").await;
    s.control("POST /_sandbox/organizations", "").await;
    s.control("GET /_sandbox/organizations", "").await;
    let (key, _) = s.email_key(r#""emails:read""#).await;
    s.control(
        "POST /_sandbox/keys",
        r#"{"service":"extraction","scope":"full"}"#,
    )
    .await;
    s.control("GET /_sandbox/keys", "").await;
    s.control(&format!("DELETE /_sandbox/keys/{key}"), "").await;
    s.control(
        "PUT /_sandbox/templates/welcome",
        r#"{"html":"Hello {{ name }}"}"#,
    )
    .await;
    s.control("GET /_sandbox/templates/welcome", "").await;
    s.control("GET /_sandbox/templates", "").await;
    let variables = r#"{"variables":{"name":"Ada"}}"#;
    s.control("POST /_sandbox/templates/welcome/render", variables)
        .await;
    s.control("POST /_sandbox/templates/welcome/html-check", variables)
        .await;
    s.control("DELETE /_sandbox/templates/welcome", "").await;

    let fault = r#"{"operation":"audiences.list","status":503,"latency":"1ms"}"#;
    let fault = s.control("POST /_sandbox/faults", fault).await.id();
    s.call("GET /api/v1/audiences", "").await;
    s.control("GET /_sandbox/faults", "").await;
    s.control(&format!("GET /_sandbox/faults/{fault}"), "")
        .await;
    s.control(&format!("DELETE /_sandbox/faults/{fault}"), "")
        .await;
    s.control("DELETE /_sandbox/faults", "").await;
}

#[tokio::test]
#[should_panic(expected = "does not match its description")]
async fn detects_an_undescribed_field() {
    let sandbox = Sandbox::start().await;
    let mut response = sandbox
        .call("POST /api/v1/audiences", r#"{"name":"Readers"}"#)
        .await;
    response.body = response.body.replace(r#"{"id""#, r#"{"more":1,"id""#);
    sandbox
        .description()
        .await
        .check("POST /api/v1/audiences", &response);
}

#[tokio::test]
#[should_panic(expected = "409 is not described")]
async fn detects_an_undescribed_status() {
    let sandbox = Sandbox::start().await;
    let mut response = sandbox.call("GET /api/v1/audiences", "").await;
    response.status = 409;
    sandbox
        .description()
        .await
        .check("GET /api/v1/audiences", &response);
}

#[tokio::test]
async fn every_event_is_delivered_as_described() {
    let sandbox = Sandbox::start().await;
    let s = &sandbox;
    s.freeze().await;
    let receiver = Receiver::start(&[]).await;
    let email_events = r#""email.sent","email.delivered","email.bounced","email.opened","email.clicked","email.complained","email.failed","email.received""#;
    let new = format!(
        r#"{{"url":"{}","events":[{email_events}]}}"#,
        receiver.url()
    );
    let webhook = s.call("POST /api/v1/webhooks", &new).await.id();
    let new = format!(
        r#"{{"url":"{}","events":["extraction.completed","extraction.failed"]}}"#,
        receiver.url()
    );
    s.with_key(EXTRACTION_KEY, "POST /v1/webhooks", &new).await;

    let email = r#"{"from":"Shop <hello@sandbox.test>","to":["complained@x.test","bounced@x.test","failed@x.test","me@sandbox.test"],
        "subject":"Hi","html":"<a href=\"https://example.test/\">x</a>","tags":{"kind":"code"},
        "attachments":[{"filename":"a.txt","content":"QQ=="}]}"#;
    let sent = s.call("POST /api/v1/emails", email).await.id();
    s.settle().await;
    s.raw(&format!("GET /t/o/{sent}/3"), "", "").await;
    s.raw(&format!("GET /t/c/{sent}/3/0"), "", "").await;
    s.call(&format!("POST /api/v1/webhooks/{webhook}/test"), "")
        .await;
    for event in ["extraction.completed", "extraction.failed"] {
        s.control(
            "POST /_sandbox/extractions",
            &format!(r#"{{"event":"{event}"}}"#),
        )
        .await;
    }

    let event = r#"{"event":"extraction.completed","data":{"total":"12.00","lines":[1]}}"#;
    s.control("POST /_sandbox/extractions", event).await;
    s.settle().await;

    let description = s.description().await;
    let mut delivered = std::collections::BTreeSet::new();
    for delivery in receiver.received() {
        let event = delivery
            .body
            .split('"')
            .nth(3)
            .expect("an event")
            .to_owned();
        description.check_delivery(&event, &delivery);
        delivered.insert(event);
    }

    assert_eq!(delivered, description.events());
}

#[tokio::test]
#[should_panic(expected = "does not match its description")]
async fn detects_a_delivery_that_does_not_match_its_description() {
    let sandbox = Sandbox::start().await;
    let receiver = Receiver::start(&[]).await;
    let new = format!(r#"{{"url":"{}","events":["email.sent"]}}"#, receiver.url());
    let webhook = sandbox.call("POST /api/v1/webhooks", &new).await.id();
    sandbox
        .call(&format!("POST /api/v1/webhooks/{webhook}/test"), "")
        .await;
    let mut delivery = receiver.received().remove(0);
    delivery.body = delivery
        .body
        .replace(r#""webhookId""#, r#""more":1,"webhookId""#);
    sandbox
        .description()
        .await
        .check_delivery("webhook.test", &delivery);
}

/// What generators of clients need, in each of the descriptions.
#[tokio::test]
async fn descriptions_are_plain() {
    let sandbox = Sandbox::start().await;
    for part in ["", "/email", "/extraction", "/control"] {
        let text = sandbox
            .raw(&format!("GET /openapi{part}.json"), "", "")
            .await
            .body;
        let document: Value = serde_json::from_str(&text).unwrap();
        let mut problems = Vec::new();
        check_plain(&document["paths"], "paths", &mut problems);
        check_plain(&document["webhooks"], "webhooks", &mut problems);
        check_plain(&document["components"], "components", &mut problems);
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                check_operation(
                    &document,
                    operation,
                    &format!("{method} {path}"),
                    &mut problems,
                );
            }
        }
        assert!(problems.is_empty(), "openapi{part}.json: {problems:#?}");
    }
}

fn check_plain(value: &Value, path: &str, problems: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                check_plain(item, &format!("{path}/{index}"), problems);
            }
        }
        Value::Object(object) => {
            let is_map = path.ends_with("/properties") || path.ends_with("/schemas");
            // Of a parameter, or the response with any other status.
            let is_elsewhere = path.contains("/parameters/") || path.ends_with("/responses");
            let unions = ["oneOf", "anyOf", "allOf"]
                .into_iter()
                .filter(|name| object.contains_key(*name));
            if !is_map && object.contains_key("properties") {
                problems.extend(unions.map(|union| format!("{path}: {union} beside properties")));
            }
            if !is_map && object.contains_key("const") {
                problems.push(format!("{path}: const"));
            }
            // A generator may take a property with a default for one that is required.
            if !is_map && object.contains_key("default") && !is_elsewhere {
                problems.push(format!("{path}: a default"));
            }
            let is_array = object
                .get("type")
                .is_some_and(|kind| kind.to_string().contains("array"));
            if !is_map && is_array && !object.contains_key("items") {
                problems.push(format!("{path}: an array without items"));
            }
            for (name, part) in object
                .iter()
                .filter(|(name, _)| !name.starts_with("example"))
            {
                check_plain(part, &format!("{path}/{name}"), problems);
            }
        }
        _ => {}
    }
}

/// Each error has a schema.
fn check_operation(document: &Value, operation: &Value, name: &str, problems: &mut Vec<String>) {
    for (status, response) in operation["responses"].as_object().expect("responses") {
        let Some(reference) = response["$ref"].as_str() else {
            continue;
        };
        let response = document.pointer(&reference[1..]).expect("a response");
        let mut content = response["content"].as_object().expect("a content").values();
        if !content.all(|content| content["schema"].is_object()) {
            problems.push(format!("{name}: {status} has no schema"));
        }
    }
}

/// The example of a request that creates something does so.
#[tokio::test]
async fn the_examples_of_requests_are_accepted() {
    let sandbox = Sandbox::start().await;
    let text = sandbox.raw("GET /openapi.json", "", "").await.body;
    let document: Value = serde_json::from_str(&text).unwrap();
    let mut accepted = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        let content = &methods["post"]["requestBody"]["content"]["application/json"];
        let Some(reference) = content["schema"]["$ref"].as_str() else {
            continue;
        };
        let example = &document.pointer(&reference[1..]).expect("a schema")["examples"][0];
        if example.is_null() || path.contains('{') {
            continue;
        }
        let line = format!("POST {path}");
        let response = if path.starts_with("/_sandbox/") {
            sandbox.control(&line, &example.to_string()).await
        } else {
            sandbox.call(&line, &example.to_string()).await
        };
        assert!(response.status < 300, "{path}: {example}: {response:?}");
        accepted.push(path);
        sandbox.control("DELETE /_sandbox/faults", "").await;
    }

    assert!(accepted.len() >= 5, "{accepted:?}");
}

#[tokio::test]
async fn operation_ids_say_what_the_operation_does() {
    let sandbox = Sandbox::start().await;
    let text = sandbox.raw("GET /openapi/control.json", "", "").await.body;
    for (path, method, id) in [
        ("/_sandbox/messages/wait", "get", "sandboxMessagesWait"),
        ("/_sandbox/messages", "get", "sandboxMessagesList"),
        ("/_sandbox/messages", "delete", "sandboxMessagesClear"),
        ("/_sandbox/messages/{id}", "delete", "sandboxMessagesDelete"),
        (
            "/_sandbox/messages/{id}/raw",
            "get",
            "sandboxMessagesGetRaw",
        ),
        ("/_sandbox/clock", "post", "sandboxClockChange"),
        ("/_sandbox/settle", "post", "sandboxSettle"),
        ("/_sandbox/reset", "post", "sandboxReset"),
        (
            "/_sandbox/deliveries/{id}/replay",
            "post",
            "sandboxDeliveriesReplay",
        ),
        (
            "/_sandbox/dns/{domain}/publish",
            "post",
            "sandboxDnsPublish",
        ),
        (
            "/_sandbox/dns/{domain}/{record}",
            "delete",
            "sandboxDnsWithdraw",
        ),
    ] {
        let document: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            document["paths"][path][method]["operationId"], id,
            "{method} {path}"
        );
    }
}
