//! `svc domains records` and `svc domains verify`, with the sandbox's DNS server.

use serde_json::json;

use crate::support::{Home, Run, with_longer_timeouts};

fn domain(home: &Home) -> String {
    let created = home.sandbox_json(&["domains", "create", "shop.test"]);
    created["id"].as_str().expect("an id").to_owned()
}

#[test]
fn records_are_shown_as_the_service_lists_them() {
    let home = Home::new();
    let id = domain(&home);
    let records = home.sandbox_json(&["domains", "records", &id]);
    let kinds = records
        .as_array()
        .expect("a list")
        .iter()
        .map(|record| &record["kind"]);
    assert_eq!(kinds.collect::<Vec<_>>(), ["mx", "spf", "dkim", "dmarc"]);
    assert!(
        records[1]["value"]
            .as_str()
            .is_some_and(|value| value.starts_with("v=spf1"))
    );
    // A domain name works in place of the id.
    assert_eq!(
        home.sandbox_json(&["domains", "records", "SHOP.test."]),
        records
    );
    assert_eq!(
        home.run(&["--sandbox", "domains", "records", "dom_nope"])
            .code,
        5
    );
}

#[test]
fn records_are_exported_in_other_formats() {
    let home = Home::new();
    let id = domain(&home);
    let print = |format: &str| {
        let run = home.run(&["--sandbox", "domains", "records", &id, "-o", format]);
        assert_eq!(run.code, 0, "{run:?}");
        run.stdout
    };

    let zone = print("bind");
    assert!(zone.contains("shop.test. 3600 IN MX 10 "), "{zone}");
    assert!(zone.contains("shop.test. 3600 IN TXT \"v=spf1 "), "{zone}");

    let dkim = zone
        .lines()
        .find(|line| line.contains("._domainkey."))
        .expect("a DKIM record");
    let strings = dkim.split('"').skip(1).step_by(2).collect::<Vec<_>>();
    assert!(
        strings.len() >= 2 && strings.iter().all(|part| part.len() <= 255),
        "{dkim}"
    );
    assert!(print("terraform").contains("resource \"aws_route53_record\" \"dmarc\""));
    assert!(print("json").contains("\"_dmarc.shop.test\""));
}

#[test]
fn wait_ends_when_the_domain_is_verified() {
    let home = Home::new();
    let id = domain(&home);
    let late = with_longer_timeouts(|timeout| {
        let args = [
            "--sandbox",
            "domains",
            "verify",
            &id,
            "--wait",
            "--timeout",
            timeout,
        ];
        // Under load, the timeout can expire before the first response.
        Some(home.run(&args)).filter(|run| run.code != 8)
    });
    assert_eq!(
        (late.code, late.json()["verified"].clone()),
        (10, json!(false)),
        "{late:?}"
    );

    let waiting = home.spawn(&["--sandbox", "domains", "verify", &id, "--wait"]);
    assert_eq!(
        home.run(&["sandbox", "dns", "publish", "shop.test"]).code,
        0
    );

    let run = Run::wait(waiting);
    assert_eq!(
        (run.code, run.json()["verified"].clone()),
        (0, json!(true)),
        "{run:?}"
    );
}

#[test]
fn on_a_terminal_the_checks_are_a_table() {
    let home = Home::new();
    let id = domain(&home);
    let run = home.run(&["--sandbox", "-o", "table", "domains", "verify", &id]);
    assert_eq!(run.code, 10);

    let lines = run
        .stdout
        .lines()
        .map(|line| line.split("  ").next().unwrap_or(""))
        .collect::<Vec<_>>();
    assert_eq!(lines, ["RECORD", "mx", "spf", "dkim", "dmarc"], "{run:?}");
    assert!(
        run.stderr.contains("svc sandbox dns publish shop.test"),
        "{run:?}"
    );
}
