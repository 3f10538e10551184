//! Asks SQLite how it would execute each statement, and panics if a statement reads a whole
//! table that grows with the number of emails, or sorts such a list. Only in debug builds:
//! every statement that a test runs is checked.

use std::collections::HashSet;
use std::sync::Mutex;

use rusqlite::Connection;

use super::lock::lock;

/// Full scans that are allowed, because the tables are small or the scan is rare.
const ALLOWED_SCANS: [&str; 17] = [
    // Small tables, most of them loaded into memory at start and after a reset.
    "SCAN meta",
    "SCAN api_key",
    "SCAN webhook",
    "SCAN fault",
    "SCAN domain",
    "SCAN dns_record",
    "SCAN organization",
    "SCAN organization USING COVERING INDEX organization_name",
    "SCAN organization USING INDEX sqlite_autoindex_organization_1",
    // Pending work, counted for `/metrics`.
    "SCAN delivery USING COVERING INDEX delivery_due",
    "SCAN due",
    // Jobs that met a defect of the server, counted for its health.
    "SCAN crash",
    "SCAN CONSTANT ROW",
    // The organizations, of which each has its newest message.
    "SCAN organization USING INTEGER PRIMARY KEY",
    // The matches of a search in a range of numbers, newest first, and one number: every use of
    // such a table is called a scan.
    "SCAN w VIRTUAL TABLE INDEX 192:M1><",
    "SCAN message_words VIRTUAL TABLE INDEX 0:=",
    "SCAN email_words VIRTUAL TABLE INDEX 0:=",
];

/// Tables whose lists must be sorted by an index.
const LONG: [&str; 10] = [
    " email ",
    " email e ",
    " email_words w ",
    " message m ",
    " message_words w ",
    " delivery ",
    " attempt ",
    " due ",
    " contact ",
    " relay ",
];

/// The statements that were found to be good.
static CHECKED: Mutex<Option<HashSet<String>>> = Mutex::new(None);

/// Panics if the plan of the statement is bad.
pub(super) fn assert_good(connection: &Connection, sql: &str) {
    if lock(&CHECKED).as_ref().is_some_and(|checked| checked.contains(sql)) {
        return;
    }
    // A statement that is not valid fails when it is prepared.
    if let Ok(plan) = plan(connection, sql)
        && let Some(problem) = problem(sql, &plan)
    {
        panic!("{problem}: {sql}");
    }
    lock(&CHECKED).get_or_insert_default().insert(sql.to_owned());
}

fn problem(sql: &str, plan: &[String]) -> Option<String> {
    // Reads along an index and stops at the limit.
    let limited = sql.contains(" LIMIT ") && !sql.contains(" WHERE ");
    let is_long_list = sql.contains(" ORDER BY ")
        && LONG.iter().any(|table| {
            let words = sql.split_whitespace().collect::<Vec<_>>().join(" ");
            words.contains(&format!(" FROM{table}"))
        });
    // SQLite finds such rows by their first column only, and reads all that have it.
    if sql.split_whitespace().collect::<Vec<_>>().join(" ").contains(") IN (SELECT") {
        return Some("the statement looks up several columns in a list".to_owned());
    }
    for step in plan {
        if step.starts_with("SCAN ") && !limited && !ALLOWED_SCANS.contains(&step.as_str()) {
            return Some(format!("the statement reads a whole table ({step})"));
        }
        if step.contains("AUTOMATIC") {
            return Some(format!("the statement needs an index ({step})"));
        }
        if is_long_list && step.contains("TEMP B-TREE") {
            return Some(format!("the statement sorts a long list ({step})"));
        }
    }
    None
}

/// The steps in which SQLite would execute the statement.
fn plan(connection: &Connection, sql: &str) -> rusqlite::Result<Vec<String>> {
    let mut explained = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}"))?;
    // Unbound parameters are NULL.
    let mut rows = explained.raw_query();
    let mut steps = Vec::new();
    while let Some(row) = rows.next()? {
        steps.push(row.get("detail")?);
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::open;

    #[test]
    fn scans_and_sorts_of_long_tables_are_found() {
        let connection = open::memory().unwrap();
        let problem = |sql: &str| problem(sql, &plan(&connection, sql).unwrap());
        for bad in [
            "SELECT id FROM email WHERE status = 'sent'",
            "SELECT COUNT(*) FROM message",
            "DELETE FROM delivery WHERE created_at < ?1",
            "SELECT id FROM delivery WHERE organization = ?1 ORDER BY created_at",
            "SELECT rowid FROM message_words w",
            "SELECT rowid FROM message_words w WHERE rowid > 1 AND rowid <= 2",
            "SELECT m.id FROM message_words w JOIN message m ON m.id = w.rowid
                 WHERE w.message_words MATCH ?1 AND w.rowid > 1 AND w.rowid <= 2 ORDER BY m.id",
            "DELETE FROM message WHERE (organization, id) IN
                 (SELECT organization, id FROM message WHERE domain = ?1)",
        ] {
            assert!(problem(bad).is_some(), "{bad}");
        }
        for good in [
            "SELECT id FROM email WHERE id = ?1",
            "SELECT id FROM delivery WHERE organization = ?1 ORDER BY id DESC",
            "SELECT id FROM email ORDER BY id DESC LIMIT 1",
            "SELECT id FROM webhook ORDER BY id",
        ] {
            assert_eq!(problem(good), None, "{good}");
        }
    }

    #[test]
    #[should_panic(expected = "reads a whole table (SCAN email): SELECT meta FROM email")]
    fn a_bad_statement_panics_when_it_is_first_used() {
        let connection = open::memory().unwrap();
        let _ = crate::store::Reader::new(&connection).statement("SELECT meta FROM email");
    }
}
