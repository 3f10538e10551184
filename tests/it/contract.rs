//! The operation table against the contract's own.

use svc_sdk::{Operation, ScopeRule};

const PINNED: &str = include_str!("../contract/operations.tsv");

#[test]
fn the_operation_table_is_the_contracts() {
    let ours: Vec<String> = Operation::ALL
        .iter()
        .map(|operation| {
            let scope = match operation.scope_rule() {
                ScopeRule::Needs(scope) => scope.as_str(),
                ScopeRule::AnyKey => "any key",
                ScopeRule::NotDocumented => "not shown",
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

    assert_eq!(pinned.len(), 25, "the pinned table holds every documented operation");
    assert_eq!(ours, pinned);
}
