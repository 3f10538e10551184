//! Tests the query plans of all SQL statements of this crate: no statement scans a
//! table that grows with the number of emails.

use std::collections::BTreeSet;
use std::path::Path;

use rusqlite::Connection;

use super::open;

/// Placeholders of `format!` in the statements, each with a possible value.
const PLACEHOLDERS: &[(&str, &str)] = &[
    ("{COLUMNS}", "*"),
    ("{VERIFIED}", "mx_verified"),
    // Deletions by table name; the test below checks all of `reset::OWNED`.
    ("{table}", "email"),
    ("{rows}", "organization = ?1"),
    // `deliveries::Filter`, whose tests query every list.
    ("{index}", "delivery_webhook"),
    ("{condition}", "webhook = ?3"),
    // `Faults::remove`
    ("{which}", "organization = ?1"),
    // `messages::each`
    ("{hint}", "INDEXED BY message_recipient"),
    ("{recipient}", "AND m.recipient = ?4"),
];

/// Full scans that are allowed, because the tables are small or the scan is rare.
const ALLOWED_SCANS: &[&str] = &[
    // Small tables, loaded into memory at start and after a reset.
    "SCAN api_key",
    "SCAN webhook",
    "SCAN fault",
    "SCAN domain",
    "SCAN dns_record",
    "SCAN organization",
    "SCAN organization USING COVERING INDEX organization_name",
    // Pending work, counted for `/metrics`.
    "SCAN delivery USING COVERING INDEX delivery_due",
    "SCAN due",
    "SCAN CONSTANT ROW",
];

#[test]
fn no_statement_scans_emails_messages_or_deliveries() {
    let connection = open::memory().unwrap();
    let mut statements = BTreeSet::new();
    collect_statements(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), &mut statements);
    assert!(statements.len() > 100, "found only {} statements", statements.len());
    let mut violations = Vec::new();
    for statement in &statements {
        // Reads along an index and stops at the limit.
        let limited = statement.contains(" LIMIT ") && !statement.contains(" WHERE ");
        for step in plan(&connection, statement) {
            let full_scan =
                step.starts_with("SCAN ") && !ALLOWED_SCANS.contains(&step.as_str()) && !limited;
            if full_scan || step.contains("AUTOMATIC") {
                violations.push(format!("{step}: {statement}"));
            }
        }
    }
    assert!(violations.is_empty(), "{violations:#?}");
}

/// Deleting an organization's rows must not read the rows of others.
#[test]
fn deleting_an_organization_reads_only_its_own_rows() {
    let connection = open::memory().unwrap();
    // Small tables: pending work, DNS records, templates, and responses kept for one
    // day.
    let small = ["due", "dns_record", "template", "idempotency", "relay", "local_delivery"];
    for (table, rows) in super::reset::OWNED {
        let statement = format!("DELETE FROM {table} WHERE {rows}");
        for step in plan(&connection, &statement) {
            let full_scan = step.starts_with("SCAN ") && !small.contains(table);
            assert!(!full_scan, "{step}: {statement}");
        }
    }
}

/// A plan that sorts reads all matching rows before it returns the first.
#[test]
fn long_lists_are_sorted_by_an_index() {
    let connection = open::memory().unwrap();
    let mut statements = BTreeSet::new();
    collect_statements(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), &mut statements);
    let from_table = |table: &str| format!(" FROM {table} ");
    let large_tables = ["email", "message m", "delivery", "attempt", "due", "contact", "relay"];
    let lists = statements.iter().filter(|statement| {
        statement.contains(" ORDER BY ")
            && large_tables.iter().any(|table| statement.contains(&from_table(table)))
    });
    let mut count = 0;
    for statement in lists {
        count += 1;
        let plan = plan(&connection, statement);
        assert!(!plan.iter().any(|step| step.contains("TEMP B-TREE")), "{plan:?}: {statement}");
    }
    assert!(count >= 8, "found only {count} lists");
}

fn plan(connection: &Connection, statement: &str) -> Vec<String> {
    let mut explained = connection
        .prepare(&format!("EXPLAIN QUERY PLAN {statement}"))
        .unwrap_or_else(|error| panic!("{error}: {statement}"));
    // Unbound parameters are NULL.
    let mut rows = explained.raw_query();
    let mut steps = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        steps.push(row.get("detail").unwrap());
    }
    steps
}

/// Collects every string literal that is an SQL statement, except those of tests.
fn collect_statements(directory: &Path, statements: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect_statements(&path, statements);
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && !path.ends_with(file!().rsplit('/').next().unwrap())
        {
            let text = std::fs::read_to_string(&path).unwrap();
            let program = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
            for literal in program.split('"') {
                let starts = ["SELECT ", "INSERT ", "UPDATE ", "DELETE "];
                if starts.iter().any(|start| literal.starts_with(start)) {
                    statements.insert(fill_placeholders(literal));
                }
            }
        }
    }
}

fn fill_placeholders(literal: &str) -> String {
    let text = PLACEHOLDERS
        .iter()
        .fold(literal.to_owned(), |text, (placeholder, value)| text.replace(placeholder, value));
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
