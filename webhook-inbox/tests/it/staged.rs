//! What an operator sees who is woken by a page: six causes are staged, and each error says the words
//! with which the page *Operations of an inbox* begins its row.

use webhook_inbox::{Error, Inbox};

use crate::databases::{PostgresBench, pool};
use crate::support::{Bench as _, delivery};

const PAGE: &str = include_str!("../../../docs/guides/webhooks-operations.md");

/// Stores a delivery, which fails for a cause that the page names.
async fn fails(inbox: &Inbox<deadpool_postgres::Pool>, cause: &str) {
    let error: Error = inbox.accept(&delivery("1")).await.unwrap_err();
    let said = error.to_string();
    assert!(said.starts_with(cause), "{error:?}");
    let row = format!("| `{cause}` |");
    assert!(PAGE.contains(&row), "the page does not name `{cause}`");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: SVC_TEST_POSTGRES=1 and --include-ignored"]
async fn the_page_names_what_is_wrong_with_postgres() {
    let bench = PostgresBench::start().await.expect("SVC_TEST_POSTGRES=1");
    let database = bench.name();

    let mut other = bench.connect().await;
    let lock = other.transaction().await.unwrap();
    lock.batch_execute("LOCK TABLE webhook_inbox")
        .await
        .unwrap();
    fails(
        &bench.inbox(),
        "another transaction has locked what is needed",
    )
    .await;
    drop(lock);

    let read_only = format!("ALTER DATABASE {database} SET default_transaction_read_only =");
    bench.execute(&format!("{read_only} on")).await;
    fails(&bench.inbox(), "the database is read-only").await;
    bench
        .execute("SET default_transaction_read_only = off")
        .await;
    bench.execute(&format!("{read_only} off")).await;

    let role = format!("{database}_app");
    bench.execute(&format!("CREATE ROLE {role} LOGIN")).await;
    let mut config = bench.config().clone();
    config.user(&role);
    let denied = Inbox::new(pool(config.clone(), 2));
    fails(&denied, "the database refuses the login or a permission").await;

    bench
        .execute(&format!("ALTER ROLE {role} CONNECTION LIMIT 0"))
        .await;
    let refused = Inbox::new(pool(config, 2));
    fails(&refused, "the database has no free connection").await;

    bench
        .execute("ALTER TABLE webhook_inbox RENAME TO elsewhere")
        .await;
    fails(&bench.inbox(), "the tables do not exist").await;

    let mut config = bench.config().clone();
    config.dbname("svc").port(1);
    fails(&Inbox::new(pool(config, 2)), "the database is unavailable").await;
}
