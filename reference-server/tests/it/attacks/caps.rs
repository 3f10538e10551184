//! More of something than an organization, or the server, may have.

use rusqlite::Connection;

use crate::harness::{Sandbox, private_dir};

/// The request that creates one more, the table, its values by the number `n`, and the bound.
const CAPS: [(&str, &str, &str, &str, usize); 4] = [
    (
        "POST /api/v1/audiences",
        r#"{"name":"one more"}"#,
        "audience",
        "printf('aud_%06d', n), 1, 'a', 0, 1, 1",
        10_000,
    ),
    (
        "POST /api/v1/domains",
        r#"{"name":"N.test"}"#,
        "domain",
        "printf('dom_%06d', n), 1, printf('%06d.test', n), 's', x'00', '', 0, 0, 0, 0, 1, 1",
        1_000,
    ),
    (
        "POST /_sandbox/keys",
        r#"{"service":"email","scopes":["emails:send"]}"#,
        "api_key",
        "printf('key_%06d', n), 1, 'email', '[]', 'test', '', CAST(n AS BLOB), 1",
        1_000,
    ),
    (
        "POST /_sandbox/organizations",
        "{}",
        "organization",
        "NULL, printf('org_%06d', n), 'o', 0, 1",
        100_000,
    ),
];

#[tokio::test]
async fn one_more_than_there_may_be() {
    let directory = private_dir();
    let sandbox = Sandbox::with(|builder| builder.data_dir(directory.path())).await;
    let database = Connection::open(directory.path().join("svc.db")).expect("opened");
    for (line, body, table, values, max) in CAPS {
        let count = format!("SELECT COUNT(*) FROM {table}");
        let count =
            || database.query_row(&count, [], |row| row.get::<_, i64>(0)).expect("a row") as usize;
        let sql = format!(
            "WITH RECURSIVE numbers(n) AS (SELECT {} UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < {})
             INSERT INTO {table} SELECT {values} FROM numbers",
            count(),
            max - 1
        );
        database.execute(&sql, []).expect(table);
        let create = async |name: &str| {
            let body = &body.replace('N', name);
            if line.contains("_sandbox") {
                sandbox.control(line, body).await
            } else {
                sandbox.call(line, body).await
            }
        };
        // The last one, and one more.
        assert_eq!((count(), create("last").await.status), (max - 1, 201), "{table}");
        let more = create("more").await;
        assert_eq!(more.status, 409, "{table}: {more:?}");
        assert!(more.body.contains(&format!(r#""limit":{max}"#)), "{table}: {more:?}");
        assert_eq!(count(), max, "{table}");
    }
}
