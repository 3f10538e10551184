//! Seed files (`docs/sandbox.md#seed-file`), and what a new organization can have.

use svc_reference_server::{Network, Server, StartError};

use crate::harness::{KEY, Sandbox, private_dir};
use crate::receiver::Receiver;
use crate::webhooks::hmac;

const FILE: &str = r#"
[[organizations]]
name = "Sandbox"

[[organizations.webhooks]]
url = "http://127.0.0.1:9/hooks"
events = ["email.bounced"]
secret = "whsec_known"

[[organizations]]
name = "Shop"
balance_cents = 500
domains = [{ name = "shop.test" }, { name = "later.test", verified = false }]

[[organizations.keys]]
key = "mk_test_shop"
service = "email"

[[organizations.keys]]
key = "sk_test_shop"
service = "extraction"
scopes = ["extract_only"]
mode = "live"

[[organizations.templates]]
id = "welcome"
subject = "Hi {{ name }}"
text = "Hello {{ name }}"

[[organizations.audiences]]
name = "News"
id = "aud_news"

[[organizations.audiences.contacts]]
email = "ada@example.test"
name = "Ada"
topics = ["a"]
subscribed = false
metadata = { plan = "pro", seats = 5 }

[[organizations.webhooks]]
url = "URL"
events = ["email.delivered"]
secret = "whsec_shop"
"#;

#[tokio::test]
async fn a_server_comes_up_with_what_its_file_declares() {
    let directory = private_dir();
    let receiver = Receiver::start(&[]).await;
    let file = FILE.replace("URL", &receiver.url());
    let start = async || {
        let builder = Server::builder().data_dir(directory.path());
        let builder = builder.seed_file(&file).expect("a valid file");
        Sandbox::of(builder.start().await.expect("started"))
    };

    // Twice, because each start applies the file.
    for round in 1..=2 {
        let sandbox = start().await;
        let shop = async |line: &str, body: &str| {
            let response = sandbox.with_key("mk_test_shop", line, body).await;
            assert!(response.status < 300, "{line}: {response:?}");
            response
        };
        let me = sandbox.with_key("sk_test_shop", "GET /v1/me", "").await;
        assert!(
            me.body.contains("Shop") && me.body.contains("extract_only"),
            "{me:?}"
        );
        assert!(me.body.contains("500"), "{me:?}");
        let email = r#"{"from":"a@shop.test","to":"b@x.test","subject":"s","templateId":"welcome","variables":{"name":"Ada"}}"#;
        shop("POST /api/v1/emails", email).await;
        sandbox.settle().await;
        let received = receiver.until(round).await;
        let last = received.last().expect("a delivery");
        assert_eq!(
            last.header("mail-signature"),
            hmac("whsec_shop", &last.body)
        );
        let domains = shop("GET /api/v1/domains", "").await.body;
        assert_eq!(
            domains.matches(r#""verified":true"#).count(),
            1,
            "{domains}"
        );
        assert_eq!(domains.matches(r#""id":"dom_"#).count(), 2, "{domains}");
        let audiences = shop("GET /api/v1/audiences", "").await;
        assert_eq!(audiences.body.matches("News").count(), 1, "{audiences:?}");
        let contacts = shop("GET /api/v1/audiences/aud_news/contacts", "")
            .await
            .body;
        assert_eq!(
            contacts.matches("ada@example.test").count(),
            1,
            "{contacts}"
        );
        assert!(contacts.contains(r#""subscribed":false"#), "{contacts}");
        assert!(
            contacts.contains(r#"{"plan":"pro","seats":5}"#),
            "{contacts}"
        );
        // A page goes on after an ID of the file.
        shop("POST /api/v1/audiences", r#"{"name":"Later"}"#).await;
        let page = async |more: &str| {
            let line = format!("GET /_sandbox/audiences?organization=Shop&limit=1{more}");
            sandbox.control(&line, "").await
        };
        let next = page("").await.between(r#""next":""#);
        let rest = page(&format!("&cursor={next}")).await;
        assert_eq!(rest.status, 200, "{rest:?}");
        let webhooks = sandbox.call("GET /api/v1/webhooks", "").await.body;
        assert_eq!(
            webhooks.matches("http://127.0.0.1:9/hooks").count(),
            1,
            "{webhooks}"
        );

        // A reset puts the seeds back.
        assert_eq!(
            sandbox.control("POST /_sandbox/reset", "").await.status,
            204
        );
        assert!(
            shop("GET /api/v1/audiences", "")
                .await
                .body
                .contains("News")
        );
        assert_eq!(sandbox.call("GET /api/v1/domains", "").await.status, 200);
        let line = "POST /_sandbox/reset?organization=Shop";
        assert_eq!(sandbox.control(line, "").await.status, 204);
        assert!(
            shop("GET /api/v1/webhooks", "")
                .await
                .body
                .contains(&receiver.url())
        );
        sandbox.server.stop().await;
    }
}

#[tokio::test]
async fn what_a_server_has_is_a_seed_file() {
    let file = FILE.replace("URL", "http://127.0.0.1:9/");
    let start = async |file: &str| {
        let builder = Server::builder().seed_file(file).expect("a valid file");
        Sandbox::of(builder.start().await.expect("started"))
    };
    let export = async |sandbox: &Sandbox| {
        let exported = sandbox.control("GET /_sandbox/seed", "").await;
        assert_eq!(
            exported.header("content-type"),
            Some("application/toml"),
            "{exported:?}"
        );
        exported.body
    };

    let first = start(&file).await;
    let exported = export(&first).await;
    for known in [
        "whsec_known",
        "mk_test_shop",
        "extract_only",
        "live",
        KEY,
        "seats = 5",
        "Hi {{ name }}",
    ] {
        assert!(exported.contains(known), "{known}: {exported}");
    }

    // Another server has the same from it.
    let second = start(&exported).await;
    assert_eq!(export(&second).await, exported);

    // Of a key that the server made, there is only a hash.
    second.organization().await;
    let with_another = export(&second).await;
    assert!(
        with_another.starts_with("# Without 2 keys"),
        "{with_another}"
    );
}

#[tokio::test]
async fn what_others_have_twice_stops_no_start_and_no_export() {
    let directory = private_dir();
    let shop =
        r#"{"name":"Shop","webhooks":[{"url":"http://127.0.0.1:9/","events":["email.sent"]}]}"#;
    let sandbox = Sandbox::with(|builder| builder.data_dir(directory.path())).await;
    let mut ids = Vec::new();
    for _ in 0..2 {
        let created = sandbox.control("POST /_sandbox/organizations", shop).await;
        assert_eq!(created.status, 201, "{created:?}");
        ids.push(created.id());
    }

    sandbox.server.stop().await;

    let file = FILE.replace("URL", "http://127.0.0.1:9/");
    let builder = Server::builder()
        .data_dir(directory.path())
        .seed_file(&file);
    let sandbox = Sandbox::of(
        builder
            .expect("a valid file")
            .start()
            .await
            .expect("started"),
    );
    let again = sandbox.control("POST /_sandbox/organizations", shop).await;
    assert_eq!(again.status, 409, "{again:?}");

    let reset = async |id: &str| {
        let body = format!(r#"{{"organization":"{id}"}}"#);
        let reset = sandbox.control("POST /_sandbox/reset", &body).await;
        assert!(reset.status < 300, "{reset:?}");
    };

    // The file is about the oldest. A reset of another one does not touch it.
    reset(&ids[0]).await;
    let template = format!("GET /_sandbox/templates/welcome?organization={}", ids[0]);
    let delete = template.replace("GET", "DELETE");
    assert_eq!(sandbox.control(&delete, "").await.status, 204);

    reset(&ids[1]).await;
    assert_eq!(sandbox.control(&template, "").await.status, 404);

    let domains = |id: &str| format!("GET /_sandbox/domains?organization={id}");
    let has_domain = |body: &str| body.contains("shop.test");
    assert!(has_domain(
        &sandbox.control(&domains(&ids[0]), "").await.body
    ));
    assert!(!has_domain(
        &sandbox.control(&domains(&ids[1]), "").await.body
    ));

    let hook = r#"{"url":"http://127.0.0.1:9/hooks","events":["email.sent"]}"#;
    assert_eq!(
        sandbox.call("POST /api/v1/webhooks", hook).await.status,
        201
    );

    let exported = sandbox.control("GET /_sandbox/seed", "").await.body;
    assert!(
        exported.contains("# Without 2 organizations and webhooks"),
        "{exported}"
    );

    let other = Server::builder()
        .in_memory()
        .seed_file(&exported)
        .expect("a valid file");
    other.start().await.expect("started");
}

/// A key of the seeded organization that the file limits is the same key after a restart.
#[tokio::test]
async fn a_limited_key_of_the_sandbox_stays_the_same() {
    let directory = private_dir();
    let mut keys = Vec::new();
    for _ in 0..2 {
        let file = "[[organizations]]\nname = \"Sandbox\"\nkeys = [{ key = \"mk_test_sandbox\", \
                    service = \"email\", scopes = [\"emails:send\"] }]\n";
        let builder = Server::builder().data_dir(directory.path());
        let server = builder
            .seed_file(file)
            .expect("a valid file")
            .start()
            .await
            .expect("started");
        let sandbox = Sandbox::of(server);
        keys.push(sandbox.control("GET /_sandbox/keys", "").await.body);
        sandbox.server.stop().await;
    }

    assert!(keys[0].contains(r#"["emails:send"]"#), "{keys:?}");
    assert_eq!(keys[0], keys[1]);
}

/// The file is right: the data directory has the key already.
#[tokio::test]
async fn a_seeded_key_of_another_organization_is_no_mistake_of_the_file() {
    let directory = private_dir();
    let file = FILE.replace("URL", "http://127.0.0.1:9/");
    let builder = || {
        let builder = Server::builder().data_dir(directory.path());
        builder.seed_file(&file).expect("a valid file")
    };

    builder().start().await.expect("started").stop().await;
    let error = builder()
        .email_key("mk_test_shop")
        .start()
        .await
        .expect_err("refused");
    assert!(matches!(error, StartError::Database(_)), "{error:?}");

    let message = "a key of Sandbox belongs to the organization \"Shop\" of this server";
    assert!(error.to_string().contains(message), "{error}");
}

#[tokio::test]
async fn an_audience_gets_the_name_that_the_file_has_for_its_id() {
    let directory = private_dir();
    let file = FILE.replace("URL", "http://127.0.0.1:9/");
    for name in ["News", "Releases"] {
        let file = file.replace("\"News\"", &format!("\"{name}\""));
        let builder = Server::builder()
            .data_dir(directory.path())
            .seed_file(&file);
        let sandbox = Sandbox::of(
            builder
                .expect("a valid file")
                .start()
                .await
                .expect("started"),
        );
        let get = async |line: &str| sandbox.with_key("mk_test_shop", line, "").await.body;
        let audiences = get("GET /api/v1/audiences").await;
        assert_eq!(audiences.matches("aud_").count(), 1, "{audiences}");
        assert!(audiences.contains(name), "{audiences}");
        let contacts = get("GET /api/v1/audiences/aud_news/contacts").await;
        assert_eq!(
            contacts.matches("ada@example.test").count(),
            1,
            "{contacts}"
        );
        sandbox.server.stop().await;
    }
}

#[tokio::test]
async fn a_mistake_names_line_and_field_and_nothing_is_applied() {
    let directory = private_dir();
    for (from, to, expected) in [
        (
            "http://127.0.0.1:9/hooks",
            "127.0.0.1/hooks",
            "line 6: organizations[0].webhooks[0].url: must",
        ),
        (
            "email.bounced",
            "email.bonced",
            "line 7: organizations[0].webhooks[0].events[0]: ",
        ),
        (
            "whsec_known",
            "a b",
            "line 8: organizations[0].webhooks[0].secret: must",
        ),
        (
            "extract_only",
            "emails:send",
            "line 22: organizations[1].keys[1].scopes[0]: is not a scope of the extraction service",
        ),
        (
            "seats = 5",
            "at = 2026-11-26",
            "line 39: organizations[1].audiences[0].contacts[0].metadata: ",
        ),
        (
            "[\"extract_only\"]",
            "[\"extract_only\", \"full\"]",
            "line 22: organizations[1].keys[1].scopes: must be one",
        ),
        (
            "[\"extract_only\"]",
            "[]",
            "line 22: organizations[1].keys[1].scopes: must not be empty",
        ),
        (
            "[[organizations.audiences.contacts]]",
            "[[organizations.audiences]]\nname = \"Other\"\nid = \"aud_news\"\n[[organizations.audiences.contacts]]",
            "line 34: organizations[1].audiences[1]: is in the file twice",
        ),
        (
            "later.test",
            "Shop.test",
            "line 13: organizations[1].domains[1].name: is in the file",
        ),
        (
            "[[organizations.webhooks]]\nurl = \"http://127.0.0.1:9/\"",
            "[[organizations.audiences.contacts]]\nemail = \"Ada@example.test\"\n[[organizations.webhooks]]\nurl = \"http://127.0.0.1:9/\"",
            "line 42: organizations[1].audiences[0].contacts[1].email: is in the file twice",
        ),
        (
            "mk_test_shop",
            KEY,
            "line 16: organizations[1].keys[0].key: belongs to the organization \"Sandbox\" of this server",
        ),
        (
            "Hi {{ name }}",
            "Hi {{ name",
            "line 27: organizations[1].templates[0].subject: ",
        ),
        (
            "ada@example.test",
            "ada",
            "line 35: organizations[1].audiences[0].contacts[0].email: ",
        ),
        (
            "aud_news",
            "news",
            "line 32: organizations[1].audiences[0].id: must be aud_",
        ),
        (
            "shop.test",
            "shop",
            "line 13: organizations[1].domains[0].name: must",
        ),
        ("\"Shop\"", "\"\"", "line 11: organizations[1].name: must"),
        (
            "\"Shop\"",
            "\"Sandbox\"",
            "line 11: organizations[1].name: is in the file twice",
        ),
        (
            "sk_test_shop",
            "mk_test_shop",
            "line 20: organizations[1].keys[1].key: is in the file twice",
        ),
    ] {
        let file = FILE.replace("URL", "http://127.0.0.1:9/").replace(from, to);
        let builder = Server::builder().data_dir(directory.path());
        let error = builder
            .seed_file(&file)
            .expect("TOML")
            .start()
            .await
            .expect_err("refused");
        let StartError::Seed(mistake) = &error else {
            panic!("{error:?}")
        };
        assert!(
            mistake.to_string().starts_with(expected),
            "{mistake}\n{expected}"
        );
    }

    let sandbox = Sandbox::with(|builder| builder.data_dir(directory.path())).await;
    assert_eq!(sandbox.call("GET /api/v1/webhooks", "").await.body, "[]");

    let organizations = sandbox
        .control("GET /_sandbox/organizations", "")
        .await
        .body;
    assert!(!organizations.contains("Shop"), "{organizations}");

    // What is allowed depends on the network.
    let builder = Server::builder()
        .network(Network::Public)
        .addr(([127, 0, 0, 1], 0).into());
    let builder = builder
        .seed_file(&FILE.replace("URL", "https://a.test/"))
        .expect("TOML");
    let error = builder.start().await.expect_err("refused").to_string();
    assert!(
        error.contains("line 6: organizations[0].webhooks[0].url: must be an https"),
        "{error}"
    );
}

#[tokio::test]
async fn a_new_organization_has_a_domain_and_webhooks() {
    let sandbox = Sandbox::start().await;
    let body = r#"{"domain":"shop.test","webhooks":[{"url":"http://127.0.0.1:9/","events":["email.sent"],"secret":"known"},{"url":"http://127.0.0.1:9/x","events":["extraction.failed"]}]}"#;
    let created = sandbox.control("POST /_sandbox/organizations", body).await;
    assert_eq!(created.status, 201, "{created:?}");
    assert!(
        created.body.contains(r#""domain":"shop.test""#),
        "{created:?}"
    );
    assert!(created.body.contains(r#""secret":"known""#), "{created:?}");

    let key = created.between(r#""email_key":""#);
    let email = r#"{"from":"a@shop.test","to":"b@x.test","subject":"s"}"#;
    assert_eq!(
        sandbox
            .with_key(&key, "POST /api/v1/emails", email)
            .await
            .status,
        202
    );

    let key = created.between(r#""extraction_key":""#);
    let webhooks = sandbox.with_key(&key, "GET /v1/webhooks", "").await;
    assert!(
        webhooks.body.contains("http://127.0.0.1:9/x"),
        "{webhooks:?}"
    );

    // By default, the domain is its own.
    let tenant = sandbox.server.tenant("Lovelace").await.expect("a tenant");
    let domain = &tenant.organization.domain;
    let email = svc_sdk::email::Email::new(format!("a@{domain}"), "b@x.test", "s").text("t");
    tenant.email.emails().send(&email).await.expect("sent");
    for (body, field) in [
        (r#"{"domain":"shop"}"#, "domain"),
        (
            r#"{"webhooks":[{"url":"x","events":["email.sent"]}]}"#,
            "webhooks[0].url",
        ),
    ] {
        let refused = sandbox.control("POST /_sandbox/organizations", body).await;
        let named = refused.between(r#""field":""#);
        assert_eq!(
            (refused.status, named.as_str()),
            (422, field),
            "{refused:?}"
        );
    }
}
