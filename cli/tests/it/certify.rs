//! `svc certify`: its report, its exit codes and what it asks. What the checks find is tested beside
//! them, with shorter times (`src/commands/certify/tests.rs`).

mod receiver;

use serde_json::Value;

use self::receiver::{Receiver, SECRET};
use crate::support::{Home, Run, Service, http_response};

fn home() -> Home {
    let home = Home::new();
    home.file("secret.txt", SECRET);
    home
}

fn args<'a>(url: &'a str, service: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let args = [
        "certify",
        url,
        "--service",
        service,
        "--secret-file",
        "secret.txt",
    ];
    [&args[..], more].concat()
}

fn certify(receiver: &Receiver, service: &str, more: &[&str]) -> Run {
    home().run(&args(&receiver.url, service, more))
}

/// The checks with one of these results.
fn with_result(report: &Value, results: &[&str]) -> Vec<String> {
    let checks = report["checks"].as_array().expect("a list").iter();
    let checks = checks.filter(|check| results.iter().any(|result| check["result"] == *result));
    checks
        .map(|check| check["check"].as_str().expect("a name").to_owned())
        .collect()
}

#[test]
fn the_report_says_what_is_expected() {
    for service in ["email", "extraction"] {
        let receiver = Receiver::start(service, "");
        let only = ["--only", "good-delivery", "--only", "missing-signature"];
        let run = certify(&receiver, service, &only);
        let report = run.json();
        let note = "note: 2 passed, 0 failed, 0 advice, 0 skipped\n";
        assert_eq!((run.code, &*run.stderr), (0, note), "{report}");
        assert_eq!(report["checks"][0]["expected"], "2xx within 10 s");
        assert_eq!(report["timeout_seconds"], 10);
        let counts = ["failures", "advice", "skipped"].map(|count| report[count].clone());
        assert_eq!(
            (&report["passed"], counts),
            (&true.into(), [0, 0, 0].map(Value::from))
        );
    }
}

#[test]
fn advice_is_not_a_failure() {
    let receiver = Receiver::start("email", "old-delivery");
    let run = certify(&receiver, "email", &["--only", "old-delivery"]);
    assert_eq!((run.code, &run.json()["advice"]), (0, &1.into()), "{run:?}");
    assert_eq!(run.json()["checks"][0]["received"], "204");
}

#[test]
fn a_redirect_does_not_accept_a_delivery() {
    let service = Service::with_responses(&[http_response(308, "location: /other\r\n", "")]);
    let run = home().run(&args(&service.url(), "email", &["--only", "good-delivery"]));
    let received = "email.sent: 308 to /other; the services follow no redirect";
    assert_eq!(
        (run.code, &run.json()["checks"][0]["received"]),
        (10, &received.into()),
        "{run:?}"
    );
}

#[test]
fn an_unreachable_receiver_is_reported_before_any_check() {
    let run = home().run(&args("http://127.0.0.1:9/hooks", "email", &[]));
    assert_eq!((run.code, run.stdout.as_str()), (8, ""), "{run:?}");
    assert_eq!(run.error()["code"], "endpoint_unreachable");
}

#[cfg(target_os = "linux")]
#[test]
fn a_receiver_that_stops_is_reported_as_such() {
    use std::io::Write as _;
    use std::net::{Shutdown, TcpStream};
    use std::os::fd::OwnedFd;

    use crate::support::{accept, listen, read_request};

    let home = home();
    let examine = |requests: usize| {
        let (listener, url) = listen();
        let receiver = std::thread::spawn(move || {
            let respond = |mut stream: TcpStream| {
                read_request(&stream).expect("a request");
                stream
                    .write_all(http_response(204, "", "").as_bytes())
                    .expect("sent");
            };
            for _ in 1..requests {
                respond(accept(&listener));
            }
            // Stops to listen before the last response, so that no connection waits, and keeps the
            // port, so that no other test gets it.
            let stream = accept(&listener);
            let listener = TcpStream::from(OwnedFd::from(listener));
            listener.shutdown(Shutdown::Both).expect("stopped");
            respond(stream);
            listener
        });
        let only = [
            "good-delivery",
            "unknown-event",
            "changed-body",
            "old-delivery",
        ];
        let only = only
            .iter()
            .flat_map(|check| ["--only", check])
            .collect::<Vec<_>>();
        let run = home.run(&args(&url, "email", &only));
        drop(receiver.join().expect("no panic"));
        run
    };

    let run = examine(8);
    let report = run.json();
    let error = run.error();
    assert_eq!(
        (run.code, &error["code"]),
        (10, &"receiver_failed".into()),
        "{run:?}"
    );
    assert_eq!(
        with_result(&report, &["failed"]),
        ["unknown-event", "changed-body", "old-delivery"]
    );

    let received = report["checks"][1]["received"].as_str().expect("a text");
    assert!(
        received.starts_with("cannot connect to the application"),
        "{received}"
    );

    let run = examine(1);
    assert_eq!(
        (run.code, &run.error()["code"]),
        (8, &"endpoint_unreachable".into()),
        "{run:?}"
    );
}

#[test]
fn one_verdict_says_why_many_checks_fail() {
    let any = Service::always(200, "");
    let none = Service::always(404, "");
    let careless = Receiver::start("email", "any-signature");
    for (url, verdict) in [
        (any.url(), "it checks no signature (10 of 19 checks failed)"),
        (
            none.url(),
            "does not accept a correct delivery: email.sent: 404",
        ),
        (careless.url.clone(), "the receiver accepts any signature"),
    ] {
        let error = home().run(&args(&url, "email", &[])).error();
        let message = error["message"].as_str().expect("a message");
        assert!(message.contains(verdict), "{error}");
        let hint = error["hint"].as_str().expect("a hint");
        let is_of_setup = hint.starts_with("check the URL, --service and --secret-file");
        assert_eq!(is_of_setup, verdict.contains("404"), "{error}");
    }
}

#[test]
fn the_examination_has_a_deadline() {
    let receiver = Receiver::start("email", "silent");
    let run = certify(&receiver, "email", &["--timeout", "300ms"]);
    assert_eq!(
        (run.code, &run.error()["code"]),
        (10, &"receiver_failed".into()),
        "{run:?}"
    );

    let report = run.json();
    assert_eq!(
        (&report["passed"], &report["failures"]),
        (&false.into(), &1.into())
    );

    let received = "not finished within 0.3 s; --timeout allows more";
    assert_eq!(report["checks"][0]["received"], received);
    // No check has failed that was not sent.
    assert_eq!(report["checks"][1]["result"], "skipped");
    assert_eq!(
        report["checks"][1]["received"],
        "not sent: no time was left"
    );
}

#[test]
fn checks_are_selected_by_name() {
    let receiver = Receiver::start("email", "");
    let only = ["--only", "missing-signature", "--only", "good-delivery"];
    let report = certify(&receiver, "email", &only).json();
    assert_eq!(
        with_result(&report, &["passed"]),
        ["good-delivery", "missing-signature"]
    );

    // This check is for the extraction service.
    let none = certify(&receiver, "email", &["--only", "body-not-utf8"]);
    assert_eq!(
        (none.code, none.error()["kind"].as_str()),
        (2, Some("usage")),
        "{none:?}"
    );

    let unknown = certify(&receiver, "email", &["--only", "good"]);
    assert_eq!(unknown.code, 2, "{unknown:?}");
}

#[test]
fn a_dry_run_lists_the_requests_and_sends_nothing() {
    let receiver = Receiver::start("extraction", "");
    let run = certify(&receiver, "extraction", &["--dry-run"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{run:?}");

    let requests = run.json();
    let sent = |check: &str| {
        let requests = requests.as_array().expect("a list").iter();
        requests.filter(|request| request["check"] == check).count()
    };

    assert_eq!((sent("good-delivery"), sent("doubled-header")), (2, 3));
    assert_eq!(receiver.arrived(), []);
}

/// The command repeats the check, and the file has the exact body.
#[test]
fn a_failed_check_can_be_repeated() {
    let receiver = Receiver::start("extraction", "body-not-utf8");
    let home = home();
    let only = ["--only", "body-not-utf8", "--only", "changed-body"];
    let run = home.run(&args(&receiver.url, "extraction", &only));
    assert_eq!(run.code, 10, "{run:?}");
    assert!(
        !format!("{run:?}").contains(&SECRET[..10]),
        "a secret is shown: {run:?}"
    );

    let check = run.json()["checks"][0].clone();
    let url = &receiver.url;
    let line = format!(
        "svc certify {url} --service extraction --secret-file secret.txt --only body-not-utf8"
    );
    assert_eq!(check["reproduce"], line);

    let authority = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
    let bundle = home.file("authorities.pem", authority.cert.pem());
    let trusting = [
        &args(url, "extraction", &only)[..],
        &["--ca-bundle", &bundle],
    ]
    .concat();
    let trusting = home.run(&trusting).json()["checks"][0]["reproduce"].clone();
    assert!(
        trusting
            .as_str()
            .expect("a line")
            .contains(&format!(" --ca-bundle {bundle} --only "))
    );

    let again = line.split(' ').skip(1).collect::<Vec<_>>();
    assert_eq!(
        with_result(&home.run(&again).json(), &["failed"]),
        ["body-not-utf8"]
    );

    let file = check["body_file"].as_str().expect("a file");
    let body = std::fs::read(file).expect("the body");
    assert!(
        receiver
            .arrived()
            .iter()
            .any(|arrived| arrived.body == body)
    );

    let passed = &run.json()["checks"][1];
    assert_eq!(
        (&passed["reproduce"], &passed["body_file"]),
        (&Value::Null, &Value::Null)
    );

    let table = home.run(&[&args(url, "extraction", &only)[..], &["-o", "table"]].concat());
    assert!(table.stdout.contains(&format!("→ {line}\n")), "{table:?}");
    assert!(table.stdout.contains(&format!("→ {file}\n")), "{table:?}");
}

#[cfg(unix)]
#[test]
fn another_machine_needs_a_confirmation() {
    use crate::pty::Terminal;

    let receiver = Receiver::start("email", "");
    // Leads to this machine, but is not a loopback address.
    let url = receiver.url.replace("127.0.0.1", "0.0.0.0");
    let args = args(&url, "email", &["--only", "good-delivery"]);
    let home = home();
    let piped = home.run(&args);
    assert_eq!((piped.code, piped.stdout.as_str()), (2, ""), "{piped:?}");
    assert_eq!(receiver.arrived(), []);

    let answer = |typed: &str| {
        let mut terminal = Terminal::start(&home, &args, &[("NO_COLOR", "1")], 100);
        terminal.until(&format!("Send test deliveries to {url}? [y/N] "));
        terminal.write(typed);
        terminal.end()
    };

    let declined = answer("n\n");
    assert_eq!(declined.code, 2, "{:?}", declined.text);
    assert_eq!(receiver.arrived(), []);

    let confirmed = answer("y\n");
    assert_eq!(confirmed.code, 0, "{:?}", confirmed.text);
    assert_eq!(receiver.arrived().len(), 8, "one for each event");

    let yes = home.run(&[&args[..], &["--yes"]].concat());
    assert_eq!(yes.code, 0, "{yes:?}");
}

#[test]
fn the_results_are_written_as_junit_xml() {
    let home = home();
    let receiver = Receiver::start("email", "old-delivery");
    let junit = |url: &str| {
        let only = ["--only", "good-delivery", "--only", "old-delivery"];
        let more = [&only[..], &["--junit", "junit.xml"]].concat();
        let run = home.run(&args(url, "email", &more));
        (
            run.code,
            std::fs::read_to_string(home.path("junit.xml")).expect("written"),
        )
    };

    let (code, xml) = junit(&receiver.url);
    let start = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="svc certify" tests="2" failures="0" errors="0" skipped="0">
"#;
    assert!(code == 0 && xml.starts_with(start), "{code}: {xml}");

    let advice = "name=\"old-delivery\">\n    <system-out>204\n";
    assert!(xml.contains(advice), "{xml}");

    // What the receiver has written is text.
    let other = http_response(308, "location: /<a>&\"b\"\r\n", "");
    let (code, xml) = junit(&Service::with_responses(&[other]).url());
    let shown = "308 to /&lt;a&gt;&amp;&quot;b&quot;; the services follow no redirect";
    assert!(code == 10 && xml.contains(shown), "{code}: {xml}");
}
