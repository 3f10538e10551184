//! Schema migrations. `PRAGMA user_version` of a database is the number of migrations
//! applied to it. A migration that has been released is never edited: every change of
//! the schema is a new one.

use rusqlite::Connection;

const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_initial.sql"),
    include_str!("migrations/0002_delivery_indexes.sql"),
    include_str!("migrations/0003_bodies_and_links.sql"),
    include_str!("migrations/0004_crashes.sql"),
];

/// Schema version that this program reads and writes.
pub(super) const CURRENT: u32 = MIGRATIONS.len() as u32;

pub(super) fn version(connection: &Connection) -> rusqlite::Result<u32> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Applies the missing migrations, one transaction each.
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

    /// SHA-256 of each migration.
    const FROZEN: &[&str] = &[
        "befa37a5b3b56b43bfba84c52951cbd8da00602b7e320d6556a31ef8382ad367",
        "da557a4fab3082d3a460d1b643ecb525847f7c4d505b31d5ccd1483294f5ecc0",
        "578f8a577397e9bc97ffad49bb1e1d4ddad7b2ff6bf9cabab1c3bb079c2e404a",
        "85633233fe8323f108dcf7a6de36354bd20946479276c1e6134b3a5c5e1f75cd",
    ];

    #[test]
    fn migrations_do_not_change() {
        let hashes: Vec<String> =
            MIGRATIONS.iter().map(|sql| hex::encode(Sha256::digest(sql))).collect();
        assert_eq!(
            hashes, FROZEN,
            "an applied migration must not change: add a new migration, and its hash to this list"
        );
    }

    /// Starts from every older schema version, with a row in each of the main tables.
    #[test]
    fn older_databases_are_upgraded_and_keep_their_rows() {
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

            let upgraded = open::file(&path).unwrap();
            assert_eq!(super::version(&upgraded).unwrap(), CURRENT);
            let count = |table: &str| -> i64 {
                let sql = format!("SELECT COUNT(*) FROM {table}");
                upgraded.query_row(&sql, [], |row| row.get(0)).unwrap()
            };
            for table in
                ["organization", "email", "email_content", "message", "webhook", "delivery"]
            {
                assert_eq!(count(table), 1, "{table} from version {version}");
            }
            let check: String =
                upgraded.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
            assert_eq!(check, "ok");
        }
    }

    /// Uses only columns of the first version, which all later versions have.
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
