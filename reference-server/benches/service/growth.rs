//! How the duration of sends and queries grows from a thousand to a million stored
//! emails.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tempfile::TempDir;

use super::benchmarks::{Bench, line, median};
use super::process::Process;

/// Number of emails that the server itself accepts and delivers. Larger databases
/// contain copies of them.
const BASE: u64 = 10_000;

/// Measures servers with few and with many emails in turns.
pub(crate) fn growth() {
    const ROUNDS: usize = 5;

    let few = Bench::start();
    few.add(1_000);
    few.server.settle();
    let base = Bench::start();
    base.add(BASE);
    base.server.settle();
    let base = base.close();
    let large = [100_000, 1_000_000].map(|emails| {
        let started = Instant::now();
        let directory = copies(base.path(), emails / BASE);
        let size = directory.path().join("svc.db").metadata().unwrap().len();
        let more = format!("{:.0} bytes per email", size as f64 / emails as f64);
        let name = format!("size of the database at {emails} emails");
        line(&name, size as f64 / f64::from(1 << 20), "MiB", &more);
        // The first start reads the database from disk.
        Process::start(directory.path()).stop();
        let bench = Bench::on(directory);
        let name = format!("start with {emails} emails");
        let note = format!("created in {:.0} s", started.elapsed().as_secs_f64());
        line(&name, bench.server.start_ms, "ms", &note);
        (emails, bench)
    });
    let mut all = vec![(1_000, few), (BASE, Bench::on(base))];
    all.extend(large);

    let mut rates = vec![Vec::new(); all.len()];
    for round in 0..ROUNDS {
        // Start with another server each round, so that periodic write-back does not
        // always hit the same one.
        for turn in 0..all.len() {
            let index = (round + turn) % all.len();
            let (_, bench) = &all[index];
            rates[index].push(bench.singles(Duration::from_secs(2)).requests_per_second);
            bench.server.settle();
        }
    }

    let smallest = median(rates[0].clone());
    for ((emails, bench), rates) in all.iter().zip(rates) {
        let rate = median(rates);
        let name = format!("single sends at {emails} emails");
        let memory = bench.server.resident_mib();
        let more = format!(
            "{:.2} times the time per send, {memory:.1} MiB",
            smallest / rate
        );
        line(&name, rate, "/s", &more);
    }

    queries(&all.last().unwrap().1.server);
    for (_, bench) in all {
        bench.server.stop();
    }
}

/// Creates a database with `count` copies of the emails of another one, in the order in
/// which a server would have written them.
fn copies(source: &Path, count: u64) -> TempDir {
    const TABLES: [&str; 6] = [
        "email",
        "email_content",
        "message",
        "delivery",
        "delivery_body",
        "attempt",
    ];

    let target = tempfile::tempdir().unwrap();
    let path = target.path().join("svc.db");
    std::fs::copy(source.join("svc.db"), &path).unwrap();
    let database = Connection::open(&path).unwrap();
    let settings =
        "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -65536;";
    database.execute_batch(settings).unwrap();
    let from = source.join("svc.db");
    database
        .execute("ATTACH ?1 AS source", [from.to_str().unwrap()])
        .unwrap();
    for table in TABLES {
        database
            .execute(&format!("DELETE FROM main.{table}"), [])
            .unwrap();
    }

    // The upper 32 bits of the milliseconds in an id, in units of 65 s.
    let first = "SELECT substr(MIN(id), 5, 8) FROM source.email";
    let first: String = database.query_row(first, [], |row| row.get(0)).unwrap();
    let first = u64::from_str_radix(&first, 16).unwrap();
    for copy in 0..count {
        let time = format!("{:08x}", first - (count - copy));
        database.execute_batch("BEGIN").unwrap();
        for table in TABLES {
            let columns: Vec<String> = columns(&database, table);
            let order = if table == "message" {
                "organization, id"
            } else {
                "1"
            };
            let sql = format!(
                "INSERT INTO main.{table} SELECT {} FROM source.{table} ORDER BY {order}",
                columns.join(", ")
            );
            database.execute(&sql, [&time]).unwrap();
        }
        database.execute_batch("COMMIT").unwrap();
    }

    target
}

/// The columns of a table as SQL expressions. Ids get another time, which is `?1`.
fn columns(database: &Connection, table: &str) -> Vec<String> {
    let sql = "SELECT name FROM pragma_table_info(?1) ORDER BY cid";
    let mut statement = database.prepare(sql).unwrap();
    let names = statement.query_map([table], |row| row.get(0)).unwrap();
    let names: Vec<String> = names.collect::<rusqlite::Result<_>>().unwrap();
    let expression = |name: String| match (table, name.as_str()) {
        ("delivery", "id") | ("delivery_body" | "attempt", "delivery") => {
            format!("?1 || substr({name}, 9)")
        }
        (_, "id" | "email") => format!("substr({name}, 1, 4) || ?1 || substr({name}, 13)"),
        _ => name,
    };

    names.into_iter().map(expression).collect()
}

/// Measures typical queries of users and tests on a full mailbox.
fn queries(server: &Process) {
    let page = server.call("GET", "/_sandbox/messages?limit=1", "");
    let email = page["data"][0]["emailId"].clone();
    let message = page["data"][0]["id"].clone();
    let email = email.as_str().unwrap();
    let message = message.as_str().unwrap();
    let next = page["next"].as_str().unwrap();
    for (name, path) in [
        ("an email", format!("/api/v1/emails/{email}")),
        ("a message", format!("/_sandbox/messages/{message}")),
        ("newest messages", "/_sandbox/messages".to_owned()),
        (
            "messages after a cursor",
            format!("/_sandbox/messages?cursor={next}"),
        ),
        (
            "messages to an unknown address",
            "/_sandbox/messages?to=b@x.test".to_owned(),
        ),
        ("newest emails", "/_sandbox/emails".to_owned()),
        (
            "emails that failed (none exist)",
            "/_sandbox/emails?status=failed".to_owned(),
        ),
        ("newest deliveries", "/_sandbox/deliveries".to_owned()),
        (
            "failed deliveries (none exist)",
            "/_sandbox/deliveries?state=failed".to_owned(),
        ),
        (
            "deliveries of an event (none exist)",
            "/_sandbox/deliveries?event=email.bounced".to_owned(),
        ),
        (
            "deliveries of an unknown webhook",
            "/_sandbox/deliveries?webhook=whk_x".to_owned(),
        ),
    ] {
        line(name, query(server, &path), "ms", "");
    }

    // The first search reads everything, and has it added to the index.
    for (what, searches) in [
        ("messages", ["from=b@x.test", "subject=zzz"].as_slice()),
        (
            "emails",
            ["address=b@x.test", "subject=zzz", "tag=zzz"].as_slice(),
        ),
    ] {
        let path = |search| format!("/_sandbox/{what}?{search}");
        let started = Instant::now();
        server.call("GET", &path(searches[0]), "");
        let first = started.elapsed().as_secs_f64() * 1e3;
        line(
            &format!("first search of {what}, {}", searches[0]),
            first,
            "ms",
            "",
        );
        while query(server, &path(searches[0])) > first / 20.0 {
            assert!(
                started.elapsed() < Duration::from_secs(300),
                "{what} are not in the index"
            );
            std::thread::sleep(Duration::from_millis(200));
        }
        let indexed = started.elapsed().as_secs_f64();
        line(
            &format!("all {what} are in the index after"),
            indexed,
            "s",
            "",
        );
        for search in searches {
            let name = format!("search of {what}, {search}");
            line(&name, query(server, &path(search)), "ms", "");
        }
    }
}

/// The median duration of a request in milliseconds.
fn query(server: &Process, path: &str) -> f64 {
    let times = (0..5).map(|_| {
        let started = Instant::now();
        server.call("GET", path, "");
        started.elapsed().as_secs_f64() * 1e3
    });
    median(times.collect())
}
