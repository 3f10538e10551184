//! Every command that calls a service reports every kind of failure in the same way: as one error
//! object when piped, as text in a table.

use serde_json::Value;
use svc_cli::{CommandSpec, commands};

use crate::support::{Home, Run, Service};

/// A command line for each command that calls a documented operation.
pub const LINES: [&str; 32] = [
    "emails send --from a@b.test --to c@d.test --subject s --text t",
    "emails batch emails.json",
    "emails get x",
    "emails cancel x",
    "bulk send people.csv --again --from a@b.test --subject s --text t --yes",
    "audiences create x",
    "audiences list",
    "audiences get x",
    "audiences delete x --yes",
    "contacts create x a@b.test",
    "contacts list x",
    "contacts get x",
    "contacts update x --name n",
    "contacts delete x --yes",
    "contacts import x people.csv",
    "domains create x.test",
    "domains list",
    "domains get x",
    "domains verify x",
    "domains records x",
    "domains delete x --yes",
    "webhooks create https://x.test --event email.sent",
    "webhooks list",
    "webhooks get x",
    "webhooks update x --active true",
    "webhooks delete x --yes",
    "webhooks test x",
    "extraction me",
    "extraction webhooks create https://x.test --event extraction.completed",
    "extraction webhooks list",
    "extraction webhooks get x",
    "extraction webhooks delete x --yes",
];

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

pub fn home() -> Home {
    let home = Home::new();
    home.file(
        "emails.json",
        r#"[{"from":"a@b.test","to":"c@d.test","subject":"s","text":"t"}]"#,
    );
    home.file("people.csv", "email\na@b.test\n");
    home
}

fn run(home: &Home, line: &str, url: &str) -> Run {
    let args = [words(line), vec!["--retries", "0"]].concat();
    home.run_with_env(
        &args,
        &[
            ("SVC_EMAIL_URL", url),
            ("SVC_EXTRACTION_URL", url),
            ("SVC_EMAIL_KEY", "mk_test_x"),
            ("SVC_EXTRACTION_KEY", "sk_test_x"),
        ],
    )
}

fn spec_of(line: &str) -> CommandSpec {
    let specs = commands()
        .into_iter()
        .filter(|spec| line.starts_with(&spec.path));
    specs.max_by_key(|spec| spec.path.len()).expect("a command")
}

#[test]
fn the_lines_cover_every_command_that_calls_an_operation() {
    let lines = LINES.map(|line| spec_of(line).path);
    for spec in commands()
        .into_iter()
        .filter(|spec| !spec.operations.is_empty())
    {
        // These query both services and report partial results, or run until they are stopped.
        // To resume a job needs one.
        let is_special = matches!(&*spec.path, "login" | "whoami" | "doctor" | "conform" | "listen" | "bulk resume" | "bulk report")
            // These need a job: `bulk.rs`.
                || matches!(&*spec.path, "bulk cancel" | "bulk work");
        assert!(
            is_special || lines.contains(&spec.path),
            "no line for `{}`",
            spec.path
        );
    }
}

#[test]
fn without_base_url_and_key() {
    let home = home();
    for line in LINES {
        let run = home.run(&words(line));
        assert_eq!((run.code, run.stdout.as_str()), (3, ""), "{line}: {run:?}");
        let error = run.error();
        assert_eq!(
            (&error["kind"], &error["code"]),
            (&"unauthenticated".into(), &"not_set_up".into())
        );
        assert!(
            error["hint"]
                .as_str()
                .is_some_and(|hint| hint.contains("svc --sandbox")),
            "{error}"
        );
    }
}

#[test]
fn with_a_rejected_key() {
    let service = Service::always(401, r#"{"error":{"code":"unauthorized","message":"no"}}"#);
    check(&service.url(), 3, "unauthenticated");
}

#[test]
fn with_a_key_without_the_scope() {
    let service = Service::always(
        403,
        r#"{"error":{"code":"insufficient_scope","message":"no"}}"#,
    );
    let home = home();
    for line in LINES {
        let run = run(&home, line, &service.url());
        assert_eq!(run.code, 4, "{line}: {run:?}");
        assert!(prints_nothing_else(line, &run), "{line}: {run:?}");
        let error = run.error();
        let spec = spec_of(line);
        let scope = spec.operations[0]
            .required_scope()
            .map(|scope| scope.to_string());
        assert_eq!(
            error["required_scope"].as_str().map(str::to_owned),
            scope,
            "{line}: {error}"
        );
        let message = error["message"].as_str().unwrap_or_default();
        assert!(
            scope.is_none_or(|scope| message.contains(&scope)),
            "{line}: {error}"
        );
    }
}

#[test]
fn with_an_unknown_id() {
    let service = Service::always(404, r#"{"error":{"code":"not_found","message":"no"}}"#);
    check(&service.url(), 5, "not_found");
}

#[test]
fn with_an_unreachable_service() {
    check("http://127.0.0.1:9", 8, "unavailable");
}

#[test]
fn a_dry_run_sends_nothing() {
    let service = Service::always(500, "");
    let home = home();
    for line in LINES {
        let run = run(&home, &format!("{line} --dry-run --quiet"), &service.url());
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{line}: {run:?}");
        let request = match run.json() {
            Value::Array(mut requests) => requests.remove(0),
            request => request,
        };
        assert!(
            request["url"]
                .as_str()
                .is_some_and(|url| url.starts_with(&service.url())),
            "{line}"
        );
        assert_eq!(
            request["headers"]["authorization"]
                .as_str()
                .map(|s| s.ends_with("***")),
            Some(true)
        );
        assert!(!run.stdout.contains("_test_x"), "{line}: {run:?}");
    }
    assert!(service.requests().is_empty());
}

/// A bulk job exists even if nothing of it is sent.
fn prints_nothing_else(line: &str, run: &Run) -> bool {
    let is_empty = run.stdout.trim().is_empty();
    is_empty || (line.starts_with("bulk send") && run.json()["state"] == "incomplete")
}

fn check(url: &str, code: i32, kind: &str) {
    // A bulk job is sent only once in each.
    let (home, other) = (home(), home());
    for line in LINES {
        let piped = run(&home, line, url);
        assert_eq!(piped.code, code, "{line}: {piped:?}");
        assert!(prints_nothing_else(line, &piped), "{line}: {piped:?}");
        assert_eq!(piped.error()["kind"], kind, "{line}: {piped:?}");
        let table = run(&other, &format!("{line} -q -o table"), url);
        assert_eq!(table.code, code, "{line}: {table:?}");
        assert!(table.stderr.starts_with("error: "), "{line}: {table:?}");
        assert!(table.stderr.lines().count() <= 5, "{line}: {table:?}");
    }
}
