//! How SQLite goes about each statement of this crate: none reads a table that
//! grows with the emails from one end to the other.

use std::collections::BTreeSet;
use std::path::Path;

use rusqlite::Connection;

use super::open;

/// What `format!` puts into statements, as it may be there.
const PARTS: &[(&str, &str)] = &[
    ("{COLUMNS}", "*"),
    ("{VERIFIED}", "mx_verified"),
    // Of the deletions by the name of the table, which `seed::OWNED` has tried below.
    ("{table}", "email"),
    ("{rows}", "organization = ?1"),
    // Of `control::deliveries`, whose tests ask for each list.
    ("{delivery_index}", "delivery_webhook"),
    ("{condition}", "webhook = ?3"),
    // Of `faults::delete`.
    ("{which}", "organization = ?1"),
    // Of `messages::search`.
    ("{index}", "INDEXED BY message_recipient"),
    ("{recipient}", "AND m.recipient = ?4"),
];

/// What is read as a whole, and why it may be.
const WHOLE: &[&str] = &[
    // At the start and at a reset, into memory; nobody has many.
    "SCAN api_key",
    "SCAN webhook",
    "SCAN fault",
    "SCAN domain",
    "SCAN dns_record",
    "SCAN organization",
    "SCAN organization USING COVERING INDEX organization_name",
    // What is still to be done, counted for `/metrics`.
    "SCAN delivery USING COVERING INDEX delivery_due",
    "SCAN due",
    "SCAN CONSTANT ROW",
];

#[test]
fn no_statement_reads_all_emails_messages_or_deliveries() {
    let connection = open::memory().unwrap();
    let mut statements = BTreeSet::new();
    gather(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), &mut statements);
    assert!(statements.len() > 100, "only {} statements were found", statements.len());
    let mut bad = Vec::new();
    for statement in &statements {
        // Along an index until there are enough.
        let first_few = statement.contains(" LIMIT ") && !statement.contains(" WHERE ");
        for step in plan(&connection, statement) {
            let whole = step.starts_with("SCAN ") && !WHOLE.contains(&step.as_str()) && !first_few;
            if whole || step.contains("AUTOMATIC") {
                bad.push(format!("{step}: {statement}"));
            }
        }
    }
    assert!(bad.is_empty(), "{bad:#?}");
}

/// An organization is emptied by its own rows.
#[test]
fn emptying_an_organization_reads_no_others() {
    let connection = open::memory().unwrap();
    // Small: only what waits for its time, records of the zone, answers kept for a day.
    let small = ["due", "dns_record", "template", "idempotency", "relay", "local_delivery"];
    for (table, rows) in crate::seed::OWNED {
        let statement = format!("DELETE FROM {table} WHERE {rows}");
        for step in plan(&connection, &statement) {
            let whole = step.starts_with("SCAN ") && !small.contains(table);
            assert!(!whole, "{step}: {statement}");
        }
    }
}

/// A list that is sorted has read all that it could show.
#[test]
fn long_lists_come_sorted_from_their_index() {
    let connection = open::memory().unwrap();
    let mut statements = BTreeSet::new();
    gather(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), &mut statements);
    let of = |table: &str| format!(" FROM {table} ");
    let long = ["email", "message m", "delivery", "attempt", "due", "contact", "relay"];
    let lists = statements.iter().filter(|statement| {
        statement.contains(" ORDER BY ") && long.iter().any(|table| statement.contains(&of(table)))
    });
    let mut count = 0;
    for statement in lists {
        count += 1;
        let plan = plan(&connection, statement);
        assert!(!plan.iter().any(|step| step.contains("TEMP B-TREE")), "{plan:?}: {statement}");
    }
    assert!(count >= 8, "only {count} lists were found");
}

fn plan(connection: &Connection, statement: &str) -> Vec<String> {
    let mut explained = connection
        .prepare(&format!("EXPLAIN QUERY PLAN {statement}"))
        .unwrap_or_else(|error| panic!("{error}: {statement}"));
    // Parameters that are not bound are NULL.
    let mut rows = explained.raw_query();
    let mut steps = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        steps.push(row.get("detail").unwrap());
    }
    steps
}

/// Every string literal that is a statement, but those of tests.
fn gather(directory: &Path, statements: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            gather(&path, statements);
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && !path.ends_with(file!().rsplit('/').next().unwrap())
        {
            let text = std::fs::read_to_string(&path).unwrap();
            let program = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
            for literal in program.split('"') {
                let starts = ["SELECT ", "INSERT ", "UPDATE ", "DELETE "];
                if starts.iter().any(|start| literal.starts_with(start)) {
                    statements.insert(completed(literal));
                }
            }
        }
    }
}

fn completed(literal: &str) -> String {
    let text = PARTS.iter().fold(literal.to_owned(), |text, (part, of)| text.replace(part, of));
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
