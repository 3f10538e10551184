//! The statements in the examples of the README and of the book: each example creates the tables
//! that it uses.

use crate::databases::{PostgresBench, SqliteBench};
use crate::support::Bench as _;

const PAGES: [&str; 2] = [
    include_str!("../../README.md"),
    include_str!("../../../docs/guides/webhooks-inbox.md"),
];

/// The examples for one database that contain statements.
fn examples(database: &str) -> Vec<Vec<&'static str>> {
    let blocks = PAGES
        .iter()
        .flat_map(|page| page.split("\n```rust").skip(1));
    let code = blocks.map(|block| block.split("\n```").next().unwrap_or_default());
    let examples = code.filter(|code| code.contains(database)).map(statements);
    examples
        .filter(|statements| !statements.is_empty())
        .collect()
}

fn statements(code: &str) -> Vec<&str> {
    let literals = code.split('"').skip(1).step_by(2);
    let comments = code
        .lines()
        .filter_map(|line| line.trim().strip_prefix("// "));
    let is_statement = |text: &&str| {
        ["CREATE ", "INSERT ", "UPDATE ", "SELECT "]
            .iter()
            .any(|verb| text.starts_with(verb))
    };

    let mut statements: Vec<_> = comments.chain(literals).filter(is_statement).collect();
    // The handler that uses a table may be above the program that creates it.
    statements.sort_by_key(|statement| !statement.starts_with("CREATE"));
    statements
}

#[tokio::test]
async fn the_examples_create_their_tables_in_sqlite() {
    let examples = examples("Sqlite");
    assert_eq!(examples.len(), PAGES.len(), "{examples:?}");
    for statements in examples {
        let bench = SqliteBench::start().await.unwrap();
        let connection = bench.connection();
        for statement in statements {
            let checked = if statement.starts_with("CREATE") {
                connection.execute_batch(statement)
            } else {
                connection.prepare(statement).map(drop)
            };
            checked.unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: SVC_TEST_POSTGRES=1 and --include-ignored"]
async fn the_examples_create_their_tables_in_postgres() {
    // The second accepts a delivery in a transaction.
    let examples = examples("tokio_postgres");
    assert_eq!(examples.len(), 2, "{examples:?}");

    let bench = PostgresBench::start().await.expect("SVC_TEST_POSTGRES=1");
    let client = bench.connect().await;
    for statement in examples.concat() {
        let checked = if statement.starts_with("CREATE") {
            client.batch_execute(statement).await
        } else {
            client.prepare(statement).await.map(drop)
        };
        checked.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}
