//! The operation table against the contract's own.

use svc_reference_server::Server;
use svc_sdk::{EmailClient, ExtractionClient, Operation, ScopeRule, Service};

const PINNED: &str = include_str!("../contract/operations.tsv");

#[test]
fn the_operation_table_is_the_contracts() {
    let ours: Vec<String> = Operation::ALL
        .iter()
        .map(|operation| {
            let scope = match operation.scope_rule() {
                ScopeRule::Needs(scope) => scope.as_str(),
                ScopeRule::AnyKey => "any key",
                _ => "not shown",
            };
            let fields = [
                operation.service().as_str(),
                operation.name(),
                operation.method().as_str(),
                operation.path(),
                scope,
            ];
            fields.join("\t")
        })
        .collect();
    let pinned: Vec<String> = PINNED
        .lines()
        .skip(1)
        .map(|line| line.split('\t').take(5).collect::<Vec<_>>().join("\t"))
        .collect();

    assert_eq!(
        pinned.len(),
        25,
        "the pinned table holds every documented operation"
    );
    assert_eq!(ours, pinned);
}

/// `Operation` and `Service` are not exhaustive, so the compiler does not find the places
/// that must handle a new one.
#[tokio::test]
async fn the_server_handles_every_operation() {
    assert_eq!(
        Service::ALL.len(),
        2,
        "look for `match` on `Service` in `cli` and `reference-server`"
    );

    let server = Server::start().await.expect("a server");
    let email = EmailClient::builder(server.base_url(), "mk_test_sandbox").build();
    let extraction = ExtractionClient::builder(server.base_url(), "sk_test_sandbox").build();
    let email = email.expect("a client");
    let extraction = extraction.expect("a client");
    for operation in Operation::ALL {
        let path: Vec<&str> = operation.path().split('/').collect();
        let path: Vec<&str> = path
            .into_iter()
            .map(|part| if part.starts_with('{') { "x" } else { part })
            .collect();
        let method = operation.method().as_str();
        let path = path.join("/");
        let response = match operation.service() {
            Service::Email => email.raw(method, &path).await,
            _ => extraction.raw(method, &path).await,
        };
        // Without a body, most operations fail, but not for want of a handler.
        if let Err(error) = response {
            let status = error.status().map_or(0, |status| status.as_u16());
            assert!(
                (400..500).contains(&status) && status != 405,
                "{operation}: {error}"
            );
            let message = error.message().unwrap_or_default();
            assert!(
                !message.contains("operation") && !message.contains("path"),
                "{operation}: {message}"
            );
        }
    }
}
