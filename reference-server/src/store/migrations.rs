//! Numbered forward migrations: the database's `user_version` is how many of
//! them it has had. One that is on `main` is never edited: a change of the
//! schema is a new one.

use rusqlite::Connection;

const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_initial.sql"),
    include_str!("migrations/0002_faults_and_homecoming.sql"),
    include_str!("migrations/0003_delivery_lists.sql"),
];

/// The version that this program reads and writes.
pub(super) const CURRENT: u32 = MIGRATIONS.len() as u32;

pub(super) fn version(connection: &Connection) -> rusqlite::Result<u32> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Brings an older database up to date, one transaction for each step.
pub(super) fn migrate(connection: &Connection) -> rusqlite::Result<()> {
    let from = version(connection)?;
    for (index, sql) in MIGRATIONS.iter().enumerate().skip(from as usize) {
        let version = index + 1;
        connection
            .execute_batch(&format!("BEGIN; {sql} PRAGMA user_version = {version}; COMMIT;"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;
    use crate::store::open;

    /// What databases out there have had.
    const FROZEN: &[&str] = &[
        "ab226ac6564586076feb628f9f701ea865068fcdaf40d3e62c60ae223a8de575",
        "5f41532a961c26075c97ef34d60aa289526096f807f9360008c82d55c767cc06",
        "2f5d5ddfb6aec0e9ce1d3323e3bb7c5e1f91ac6c1ca06ed7fe5d7156521be9c4",
    ];

    #[test]
    fn migrations_do_not_change() {
        let hashes: Vec<String> =
            MIGRATIONS.iter().map(|sql| hex::encode(Sha256::digest(sql))).collect();
        assert_eq!(
            hashes, FROZEN,
            "a migration that databases have had is never edited: add a new one, and its hash here"
        );
    }

    /// As every version before left it, with something in it.
    #[test]
    fn older_databases_are_brought_up_to_date_and_keep_what_they_have() {
        for version in 1..=MIGRATIONS.len() {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("svc.db");
            let older = Connection::open(&path).unwrap();
            for sql in &MIGRATIONS[..version] {
                older.execute_batch(sql).unwrap();
            }
            older.pragma_update(None, "user_version", version as u32).unwrap();
            older.execute_batch(CONTENT).unwrap();
            drop(older);

            let found = open::file(&path).unwrap();
            assert_eq!(super::version(&found).unwrap(), CURRENT);
            let count = |table: &str| -> i64 {
                let sql = format!("SELECT COUNT(*) FROM {table}");
                found.query_row(&sql, [], |row| row.get(0)).unwrap()
            };
            for table in
                ["organization", "email", "email_content", "message", "webhook", "delivery"]
            {
                assert_eq!(count(table), 1, "{table} from version {version}");
            }
            let check: String =
                found.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
            assert_eq!(check, "ok");
        }
    }

    /// In the columns of the first version, which all later ones have.
    const CONTENT: &str = r#"
        INSERT INTO organization (id, name, balance_cents, created_at) VALUES ('org_1', 'Sandbox', 0, 1);
        INSERT INTO email (id, organization, status, created_at, updated_at, meta, recipients)
        VALUES ('eml_1', 1, 'delivered', 1, 2,
                '{"from":"Ada <ada@sandbox.test>","to":["b@x.test"],"cc":[],"bcc":[],"replyTo":[],"subject":"Hi","tags":{},"templateId":null,"domain":"sandbox.test"}',
                '[{"address":"b@x.test","status":"delivered","detail":null}]');
        INSERT INTO email_content (email, text) VALUES ('eml_1', 'Hello');
        INSERT INTO message (organization, id, recipient, email, created_at)
        VALUES (1, 'msg_1', 'b@x.test', 'eml_1', 2);
        INSERT INTO webhook (id, organization, service, url, events, active, secret, created_at, updated_at)
        VALUES ('whk_1', 1, 'email', 'https://x.test/', 'email.delivered', 1, 'whsec_1', 1, 1);
        INSERT INTO delivery (id, organization, webhook, service, event, state, attempts, retry, created_at, updated_at)
        VALUES ('d1', 1, 'whk_1', 'email', 'email.delivered', 'delivered', 1, 1, 2, 2);
    "#;
}
