//! DKIM signatures of the server, checked by an independent verifier that looks up the
//! key on the server's DNS.

use mail_auth::hickory_resolver::TokioResolver;
use mail_auth::hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use mail_auth::hickory_resolver::net::runtime::TokioRuntimeProvider;
use mail_auth::{AuthenticatedMessage, DkimResult, MessageAuthenticator};
use svc_reference_server::Server;

use crate::sandbox::Sandbox;

fn verifier(server: &Server) -> MessageAuthenticator {
    let dns = server.addresses().dns;
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
    let connections = connections.into_iter().map(|mut connection| {
        connection.port = dns.port();
        connection
    });
    let name_server = NameServerConfig::new(dns.ip(), true, connections.collect());
    let config = ResolverConfig::from_name_servers(vec![name_server]);
    let resolver = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
    MessageAuthenticator(resolver.build().expect("a resolver"))
}

/// The verifier's result for each signature.
async fn verify(verifier: &MessageAuthenticator, source: &[u8]) -> Vec<DkimResult> {
    let message = AuthenticatedMessage::parse(source).expect("a message");
    let outputs = verifier.verify_dkim(&message).await;
    outputs
        .iter()
        .map(|output| output.result().clone())
        .collect()
}

#[tokio::test]
async fn signatures_of_all_kinds_of_messages_verify() {
    let sandbox = Sandbox::start(|builder| builder).await;
    let verifier = verifier(&sandbox.server);
    let long = "word ".repeat(2000);
    let parts = format!(r#""text":"{long}","html":"<p>{long}</p>""#);
    for (name, more) in [
        ("plain", r#""text":"Hello\n""#),
        ("nothing", r#""tags":{}"#),
        (
            "no line end, dots and spaces",
            r#""text":" .\n..  \n\n x \t \n\n\n""#,
        ),
        ("both parts", r#""text":"Grüße","html":"<p>Grüße</p>""#),
        ("long lines", parts.as_str()),
        (
            "attachments and an inline image",
            r#""html":"<img src=\"cid:a.png\">","attachments":[
                {"filename":"a.png","content":"iVBORw0KGgo="},
                {"filename":"größe 1.csv","content":"YSxiDQpjLGQKZQ=="}]"#,
        ),
        (
            "headers",
            r#""replyTo":"Support <help@sandbox.test>","cc":"\"Doe, John\" <john@example.test>",
                "headers":{"X-Campaign":"Frühling","References":"<a@b> <c@d>",
                "List-Unsubscribe":"<https://shop.test/u?x=1>"}"#,
        ),
    ] {
        let source = sandbox
            .send_and_fetch("Zoë <hello@sandbox.test>", "Grüße 你好", more)
            .await;
        let results = verify(&verifier, source.as_bytes()).await;
        assert_eq!(results, [DkimResult::Pass], "{name}:\n{source}");

        let changed = source.replacen("Subject: ", "Subject: x", 1);
        assert_ne!(source, changed);
        let results = verify(&verifier, changed.as_bytes()).await;
        assert!(
            matches!(results[..], [DkimResult::Fail(_)]),
            "{name}: {results:?}"
        );
    }
}

#[tokio::test]
async fn every_domain_signs_with_its_own_key() {
    let sandbox = Sandbox::start(|builder| builder).await;
    let created = sandbox
        .call("POST /api/v1/domains", r#"{"name":"mail.shop.test"}"#)
        .await;
    let id = created["id"].as_str().expect("an id").to_owned();
    sandbox
        .call("POST /_sandbox/dns/mail.shop.test/publish", "")
        .await;
    let verified = sandbox
        .call(&format!("POST /api/v1/domains/{id}/verify"), "")
        .await;
    assert_eq!(verified["verified"], true, "{verified}");

    let source = sandbox
        .send_and_fetch("shop@mail.shop.test", "Hi", r#""text":"Hello""#)
        .await;
    let results = verify(&verifier(&sandbox.server), source.as_bytes()).await;
    assert_eq!(results, [DkimResult::Pass], "{source}");

    // Without the record there is no key, and no signature can be verified.
    sandbox
        .call("DELETE /_sandbox/dns/mail.shop.test/dkim", "")
        .await;
    let results = verify(&verifier(&sandbox.server), source.as_bytes()).await;
    assert!(!matches!(results[..], [DkimResult::Pass]), "{results:?}");
}
