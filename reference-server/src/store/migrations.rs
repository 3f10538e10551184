//! Schema migrations. `PRAGMA user_version` of a database is [`FIRST`] after the first migration,
//! and one more after each further one. A migration that has been released is never edited: every
//! change of the schema is a new one.

use rusqlite::Connection;

const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_initial.sql"),
    include_str!("migrations/0002_relay_and_crash.sql"),
    include_str!("migrations/0003_story.sql"),
    include_str!("migrations/0004_search.sql"),
    include_str!("migrations/0005_large.sql"),
    include_str!("migrations/0006_email_search.sql"),
];

/// Schema version of the first release. Versions below it were those of its development.
pub(super) const FIRST: u32 = 4;

/// Schema version that this program reads and writes.
pub(super) const CURRENT: u32 = FIRST + MIGRATIONS.len() as u32 - 1;

pub(super) fn version(connection: &Connection) -> rusqlite::Result<u32> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Applies the missing migrations, one transaction each.
pub(super) fn migrate(connection: &Connection) -> rusqlite::Result<()> {
    let from = version(connection)?;
    for (sql, version) in MIGRATIONS.iter().zip(FIRST..).filter(|(_, version)| *version > from) {
        connection
            .execute_batch(&format!("BEGIN; {sql} PRAGMA user_version = {version}; COMMIT;"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    /// SHA-256 of each migration.
    const FROZEN: &[&str] = &[
        "06ec88b7356202f073a41aa0ba40e7783114f020490e59d8bd3b5169ec4faf80",
        "6ede1bbafee22538f5d2e2476262dfc495b561981fe123283a29c74ecd02fdff",
        "81800fc545457e95b4b7c73c1ecb2ce70aafda73f5a426cb5a9a6eb9d1719a42",
        "c087ccdbd9d9ccc2135ed17b50e9f4c8ada8213fa9b4ae491c8cf098db7d5288",
        "bb2594c390924b056b8701e4ed3777180dad41397546dcef71d9a9bed4581bc9",
        "84ec1065bbb67fbcb41071360a33c379a6a813bc7684fc46edf0eaaaf513202c",
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
}
