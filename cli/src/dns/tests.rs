mod peers;

use super::*;

#[test]
fn reserved_names_belong_to_the_sandbox() {
    for name in ["shop.test", "a.Example.", "x.invalid", "mail.localhost", "test"] {
        assert!(is_reserved(name), "{name}");
    }
    assert!(!is_reserved("example.com") && !is_reserved("mytest") && !is_reserved(""));
}

#[test]
fn a_referral_is_not_an_empty_result() {
    let mut referral = Message::query();
    assert_eq!(refusal(&referral, true).as_deref(), Some("is not authoritative for the name"));
    // A resolver given explicitly need not be authoritative.
    assert_eq!(refusal(&referral, false), None);
    referral.metadata.authoritative = true;
    assert_eq!(refusal(&referral, true), None);
    referral.metadata.response_code = ResponseCode::Refused;
    assert!(refusal(&referral, false).is_some_and(|why| why.contains("Refused")));
}

/// Finds name servers through `resolver`, and queries them on the port of `name_server`.
fn authoritative_via(resolver: SocketAddr, name_server: SocketAddr) -> Dns {
    use hickory_resolver::config::{
        ConnectionConfig, NameServerConfig, ResolverConfig, ResolverOpts,
    };
    let mut connection = ConnectionConfig::udp();
    connection.port = resolver.port();
    let server = NameServerConfig::new(resolver.ip(), true, vec![connection]);
    let config = ResolverConfig::from_name_servers(vec![server]);
    let mut builder = TokioResolver::builder_with_config(config, Default::default());
    let mut options = ResolverOpts::default();
    options.attempts = 1;
    *builder.options_mut() = options;
    let resolver = Box::new(builder.build().expect("a resolver"));
    Dns::Authoritative(PublicDns { resolver, port: name_server.port() })
}

#[tokio::test]
async fn queries_authoritative_servers_instead_of_the_resolvers_cache() {
    let server = svc_reference_server::Server::start().await.expect("it starts");
    let sandbox = svc_sdk::EmailClient::builder(server.base_url(), "mk_test_sandbox").no_proxy();
    let sandbox = sandbox.build().expect("a client");
    let domain = sandbox.domains().create("shop.test").await.expect("created");
    let publish = sandbox.raw("POST", "/_sandbox/dns/shop.test/publish");
    publish.json(&serde_json::json!({})).await.expect("published");
    let resolver = peers::stale_resolver();
    let dns = authoritative_via(resolver.address, server.dns_addr());

    for record in domain.dns_records() {
        let (name, kind) = (record.name.expect("a name"), record.record_type.expect("a type"));
        let value = record.value.expect("a value");
        let found = dns.values(&name, &kind).await.expect("a response");
        assert!(found.iter().any(|found| found.ends_with(&value)), "{name}: {found:?}");
    }
    assert_eq!(dns.values("nothing.shop.test", "TXT").await, Ok(Vec::new()));
    // The resolver is asked only for the name servers and their addresses.
    let queries = resolver.queries();
    assert!(queries.contains(&RecordType::NS) && queries.contains(&RecordType::A));
    assert!(!queries.contains(&RecordType::TXT) && !queries.contains(&RecordType::MX));
}

#[tokio::test]
async fn truncated_responses_are_fetched_over_tcp() {
    let text = "v=DKIM1; p=".to_owned() + &"A".repeat(3000);
    let server = peers::truncating_server(&text);
    let found = Dns::At(server).values("long.test", "TXT").await;
    assert_eq!(found, Ok(vec![text]));
}

#[tokio::test]
async fn unreachable_name_servers_are_an_error() {
    let resolver = peers::stale_resolver();
    let dns = authoritative_via(resolver.address, peers::unused_address());
    let silent = dns.values("shop.test", "TXT").await.expect_err("no response");
    assert!(silent.contains("127.0.0.1"), "{silent}");
    let unknown = dns.values("elsewhere.invalid", "TXT").await.expect_err("no name server");
    assert!(unknown.contains("name servers"), "{unknown}");
}
