//! Every command that calls a service has a dry run. Its failures are in the table of `runs`.

use serde_json::Value;
use svc_cli::{CommandSpec, commands};

use crate::support::{Home, Run, Service};

/// A command line for each command that calls a documented operation.
pub const LINES: [&str; 31] = [
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
fn a_dry_run_only_reads() {
    let service = Service::always(200, r#"{"data":[]}"#);
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

    // It looks up names.
    let requests = service.requests();
    assert!(
        requests.iter().all(|request| request.starts_with("GET ")),
        "{requests:?}"
    );
}
