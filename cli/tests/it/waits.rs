//! `--wait`: prints each change, and survives transient failures.

use std::io::Write as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Home, Service, accept, http_response, listen, with_longer_timeouts};

const KEY: (&str, &str) = ("SVC_EMAIL_KEY", "mk_test_x");

fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

fn checks(mx: bool, spf: bool, dkim: bool) -> String {
    let all = mx && spf && dkim;
    let body = format!(
        r#"{{"mx_verified":{mx},"spf_verified":{spf},"dkim_verified":{dkim},"dmarc_verified":true,"verified":{all}}}"#
    );
    http_response(200, "", &body)
}

#[test]
fn each_change_of_a_domain_is_printed() {
    let responses = [
        checks(false, false, false),
        checks(true, false, false),
        checks(true, false, false),
        checks(true, true, true),
    ];
    let service = Service::with_responses(&responses);
    let url = service.url();
    let args = [
        "domains",
        "verify",
        "dom_019a0b1c-0000-7000-8000-000000000001",
        "--wait",
        "-o",
        "ndjson",
    ];
    let run = Home::new().run_with_env(&args, &[KEY, ("SVC_EMAIL_URL", &url)]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{run:?}");

    let seen = lines(&run.stdout);
    let flags = seen
        .iter()
        .map(|line| (line["mx_verified"] == true, line["verified"] == true));
    assert_eq!(
        flags.collect::<Vec<_>>(),
        [(false, false), (true, false), (true, true)]
    );
    assert_eq!(service.requests().len(), 4);
}

#[test]
fn a_wait_survives_transient_failures() {
    let status =
        |word: &str| http_response(200, "", &format!(r#"{{"id":"eml_1","status":"{word}"}}"#));
    let down = http_response(503, "", "{}");
    let responses = [
        status("queued"),
        down.clone(),
        String::new(),
        status("delivered"),
    ];
    let service = Service::with_responses(&responses);
    let url = service.url();
    let args = [
        "emails",
        "get",
        "eml_1",
        "--wait",
        "--retries",
        "0",
        "-o",
        "ndjson",
    ];
    let run = Home::new().run_with_env(&args, &[KEY, ("SVC_EMAIL_URL", &url)]);
    assert_eq!((run.code, run.stderr.lines().count()), (0, 2), "{run:?}");
    assert!(
        run.stderr
            .lines()
            .all(|line| line.starts_with("note: retrying: ")),
        "{run:?}"
    );

    let seen = lines(&run.stdout)
        .iter()
        .map(|line| line["status"].clone())
        .collect::<Vec<_>>();
    assert_eq!(seen, ["queued", "delivered"]);

    // A persistent failure ends the wait.
    let service = Service::with_responses(&[status("queued"), down]);
    let url = service.url();
    let run = Home::new().run_with_env(&args, &[KEY, ("SVC_EMAIL_URL", &url)]);
    assert_eq!(run.code, 8, "{run:?}");

    // So does a pause beyond --timeout that the service asks for, at once.
    let busy = http_response(429, "Retry-After: 600\r\n", "{}");
    let service = Service::with_responses(&[status("queued"), busy]);
    let url = service.url();
    let run = Home::new().run_with_env(&args, &[KEY, ("SVC_EMAIL_URL", &url)]);
    assert_eq!((run.code, service.requests().len()), (7, 2), "{run:?}");
    assert_eq!(
        (&run.error()["retry_after"], run.stderr.lines().count()),
        (&600.into(), 1)
    );

    let refused = http_response(401, "", "{}");
    let service = Service::with_responses(&[status("queued"), refused]);
    let url = service.url();
    let run = Home::new().run_with_env(&args, &[KEY, ("SVC_EMAIL_URL", &url)]);
    assert_eq!((run.code, service.requests().len()), (3, 2), "{run:?}");
}

#[test]
fn a_failed_wait_does_not_suggest_sending_again() {
    let accepted = http_response(202, "", r#"{"id":"eml_1","status":"queued"}"#);
    let down = http_response(503, "", "{}");
    let scope = http_response(
        403,
        "",
        r#"{"error":{"code":"insufficient_scope","message":"no"}}"#,
    );
    let line = "emails send --from a@b.test --to c@d.test --subject s --text t --wait --retries 0";
    for (responses, code) in [
        (vec![accepted.clone(), down], 9),
        (vec![accepted.clone(), scope], 4),
    ] {
        let service = Service::with_responses(&responses);
        let args = line.split(' ').collect::<Vec<_>>();
        let url = service.url();
        let run = Home::new().run_with_env(&args, &[KEY, ("SVC_EMAIL_URL", &url)]);
        assert_eq!(run.code, code, "{run:?}");
        assert_eq!(run.json()["id"], "eml_1", "{run:?}");
        let error = run.error();
        assert_eq!(
            (&error["outcome"], &error["retryable"]),
            (&"unknown".into(), &false.into())
        );
        assert_eq!(
            error["hint"],
            "the email was accepted as eml_1: do not send it again\n\
             continue waiting: svc emails get eml_1 --wait"
        );
        let sends = service
            .requests()
            .iter()
            .filter(|request| request.starts_with("POST"))
            .count();
        assert_eq!(sends, 1);
    }

    // Still queued after the timeout.
    let run = with_longer_timeouts(|timeout| {
        let service = Service::with_responses(std::slice::from_ref(&accepted));
        let args = [
            line.split(' ').collect::<Vec<_>>(),
            vec!["--timeout", timeout],
        ]
        .concat();
        let run = Home::new().run_with_env(&args, &[KEY, ("SVC_EMAIL_URL", &service.url())]);
        // Under load, the timeout can expire before the first response.
        (service.requests().len() > 1).then_some(run)
    });
    assert_eq!(run.code, 9, "{run:?}");
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_every_wait() {
    use std::io::Read as _;

    let home = Home::new();
    let email = Service::always(200, r#"{"id":"eml_1","status":"queued"}"#);
    let domain = Service::with_responses(&[checks(false, true, true)]);
    for (service, line) in [
        (&email, "emails get eml_1 --wait"),
        (
            &email,
            "emails send --from a@b.test --to c@d.test --subject s --text t --wait",
        ),
        (
            &domain,
            "domains verify dom_019a0b1c-0000-7000-8000-000000000001 --wait",
        ),
    ] {
        let args = line.split(' ').chain(["-o", "ndjson"]).collect::<Vec<_>>();
        let before = service.requests().len();
        let mut child = home
            .command(&args)
            .envs([KEY, ("SVC_EMAIL_URL", &service.url())])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("svc starts");
        // svc prints the first status before it waits.
        let _watchdog = crate::support::Watchdog::start(&child);
        let mut stdout = child.stdout.take().expect("piped");
        stdout.read_exact(&mut [0; 20]).expect("a line");
        assert!(service.requests().len() > before);
        let pid = child.id().to_string();
        let killed = std::process::Command::new("kill")
            .args(["-INT", &pid])
            .status();
        assert!(killed.expect("runs").success());
        let output = child.wait_with_output().expect("ends");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(130), "{line}: {stderr}");
        assert!(
            stderr.contains(r#""kind":"interrupted""#),
            "{line}: {stderr}"
        );
        // The error must say that the email was accepted.
        let expected = "the email was accepted as eml_1: do not send it again\\ncontinue waiting: ";
        assert_eq!(
            stderr.contains(expected),
            line.contains("send"),
            "{line}: {stderr}"
        );
    }
}

#[test]
fn an_undelivered_final_status_is_a_failed_check() {
    for (status, code) in [
        ("delivered", 0),
        ("opened", 0),
        ("bounced", 10),
        ("failed", 10),
        ("complained", 10),
        ("cancelled", 10),
    ] {
        let body = format!(r#"{{"id":"eml_1","status":"{status}"}}"#);
        let service = Service::always(200, &body);
        let env = [KEY, ("SVC_EMAIL_URL", &*service.url())];
        let run = Home::new().run_with_env(&["emails", "get", "eml_1", "--wait"], &env);
        assert_eq!(
            (run.code, &run.json()["status"]),
            (code, &status.into()),
            "{run:?}"
        );
        if code == 10 {
            assert_eq!(run.error()["code"], format!("email_{status}"));
        }
        // Without --wait, it is an ordinary response.
        assert_eq!(
            Home::new()
                .run_with_env(&["emails", "get", "eml_1"], &env)
                .code,
            0
        );
    }
}

/// They arrive faster than they are read, so that the connection has work at every turn.
#[test]
fn informational_responses_without_an_end_do_not_outlive_the_timeout() {
    let (listener, url) = listen();
    std::thread::spawn(move || {
        let mut stream = accept(&listener);
        let hints = "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(40_000);
        while stream.write_all(hints.as_bytes()).is_ok() {}
    });
    let args = [
        "emails",
        "get",
        "eml_1",
        "--timeout",
        "500ms",
        "--retries",
        "0",
    ];

    let start = Instant::now();
    let run = Home::new().run_with_env(&args, &[KEY, ("SVC_EMAIL_URL", &url)]);

    assert_eq!(
        (run.code, &run.error()["message"]),
        (8, &"timed out".into())
    );
    // Of many tests at once; it does not end by itself.
    assert!(
        start.elapsed() < Duration::from_secs(30),
        "{:?}",
        start.elapsed()
    );
}
